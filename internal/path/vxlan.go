package path

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/venturi-net/venturi/internal/feature"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/netcfg"
)

// vxlan is the kernel's overlay as Flannel wires it: pods on a bridge that is
// their gateway, the machine routes between the bridge and a vxlan device, and
// each machine's block is reached by the other's vxlan device as next hop,
// whose MAC and outer address are told and never learned. The device is made
// with the attributes that Flannel gives and no others, so the checksum of the
// outer UDP header is whatever the kernel does by default (it computes one).
// The masquerading of traffic that leaves the cluster is not built: no traffic
// of a lab leaves it.
//
// With several tunnels there are as many vxlan devices, each with a VNI and
// outer addresses of its own, and as many pods, each reached by one of them.
var vxlan = Driver{
	Name:    "vxlan",
	Summary: "pods on a bridge, kernel vxlan between the machines",
	Example: "Flannel with its vxlan backend",
	Options: append(vxlanOptions("8472", "UDP port; 8472 is Flannel's, and the kernel's own default"),
		choice("pods", []string{podsVeth, podsNetkit}, podsVeth, "what joins pods to the bridge: veths, or netkit devices that carry Ethernet frames")),
	Resolve:     checkVNIs,
	KernelVXLAN: true,
	Overhead:    func(Values) int { return vxlanOverhead },
	Needs: func(v Values) []feature.Need {
		needs := []feature.Need{feature.Bridge, feature.VXLAN}
		if v["pods"] == podsNetkit {
			needs = append(needs, feature.Netkit)
		}
		return needs
	},
	Up: func(ctx context.Context, s *Site) (Ends, error) {
		return s.buildMachines(ctx, func(i int) ([]host.Endpoint, error) {
			if err := s.addPodBridge(i); err != nil {
				return nil, err
			}
			return eachPod(s.Options.Int("tunnels"), func(n int) (host.Endpoint, error) {
				if err := s.vxlanTunnel(i, n); err != nil {
					return host.Endpoint{}, err
				}
				return s.bridgedPod(i, n, vxlanPodLinks[s.Options["pods"]])
			})
		})
	},
}

// Values of the option pods.
const (
	podsVeth   = "veth"
	podsNetkit = "netkit"
)

var vxlanPodLinks = map[string]podLink{podsVeth: netcfg.AddVeth, podsNetkit: addNetkitL2}

// addNetkitL2 makes a pair of netkit devices that carry Ethernet frames.
func addNetkitL2(outside, inside netcfg.VethEnd, mtu int) error {
	return netcfg.AddNetkit(outside, inside, true, mtu)
}

const (
	vxlanOverhead = 50 // outer IPv4 20, UDP 8, VXLAN 8, inner Ethernet 14
	maxVNI        = 1<<24 - 1
)

// vxlanOptions are those of both drivers of kernel vxlan.
func vxlanOptions(port, portHelp string) []Option {
	return []Option{
		number("vni", 1, maxVNI, "", "VXLAN network identifier, of the first tunnel; each path has its own when not given"),
		number("port", 1, 65535, port, portHelp),
		onOff("csum", "on", "compute the checksum of the outer UDP header"),
		number("tunnels", 1, maxPods, "1", "tunnels, each between outer addresses and pods of its own; flows are distributed over them"),
		mtu,
	}
}

// checkVNIs: every tunnel has a VNI.
func checkVNIs(v Values) error {
	if last := v.Int("vni") + v.Int("tunnels") - 1; last > maxVNI {
		return fmt.Errorf("%d tunnels starting at vni %d would end at %d, beyond the maximum of %d",
			v.Int("tunnels"), v.Int("vni"), last, maxVNI)
	}
	return nil
}

// tunnelIndex counts the tunnels of all arms of a driver from 1: the first is
// Flannel's own flannel.1.
func tunnelIndex(nth, n int) int { return 1 + nth*maxPods + n }

// vxlanDevice makes the device of one tunnel on a machine, and tells it where
// the same tunnel ends on the other machines. A single tunnel uses the
// machine's address on the wire; several have outer addresses of their own.
func (s *Site) vxlanDevice(i, n int, name string) error {
	m := s.Machines[i]
	if err := s.addOuterAddr(i, func(j int) netip.Addr { return s.vxlanAddr(j, n) }); err != nil {
		return err
	}
	err := m.In.AddVXLAN(netcfg.VXLAN{
		Name: name, MAC: s.tunnelMAC(i, n), MTU: s.MTU, VNI: s.VNI + n, Port: s.Options.Int("port"),
		Local: s.vxlanAddr(i, n), Device: m.Wire, NoCsum: !s.Options.Enabled("csum"),
	})
	if err != nil {
		return err
	}
	for j := range s.otherMachines(i) {
		if err := m.In.AddFDB(name, s.tunnelMAC(j, n), s.vxlanAddr(j, n)); err != nil {
			return err
		}
	}
	return nil
}

// vxlanAddr is the outer address of the n-th tunnel on a machine.
func (s *Site) vxlanAddr(i, n int) netip.Addr { return s.tunnelAddr(i, n, s.Options.Int("tunnels")) }

// vxlanTunnel builds the n-th vxlan device of one machine and the ways to the
// pods of the others that are behind it.
func (s *Site) vxlanTunnel(i, n int) error {
	in := s.Machines[i].In
	device := s.vxlanTunnelDevice(n)
	if err := s.vxlanDevice(i, n, device); err != nil {
		return err
	}
	if err := in.AddAddr(device, hostPrefix(s.vxlanHop(i, n))); err != nil {
		return err
	}
	for j := range s.otherMachines(i) {
		hop, behind := s.vxlanHop(j, n), s.block(j)
		if s.Options.Int("tunnels") > 1 {
			behind = hostPrefix(s.podAddr(j, n))
		}
		if err := s.routeBehind(i, behind, device, hop, s.tunnelMAC(j, n)); err != nil {
			return err
		}
	}
	return nil
}

// vxlanHop is the address of a tunnel's device, the next hop to the pods
// behind it. That of the first is the block's own first address.
func (s *Site) vxlanHop(i, n int) netip.Addr {
	if n == 0 {
		return s.block(i).Addr()
	}
	return nthAddr(s.block(i), 2+maxPods+n)
}

// vxlanTunnelDevice is the device of the n-th tunnel.
func (s *Site) vxlanTunnelDevice(n int) string {
	return fmt.Sprintf("flannel.%d", tunnelIndex(s.Nth, n))
}
