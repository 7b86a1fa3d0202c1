package path

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/venturi-net/venturi/internal/feature"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/netcfg"
)

// geneve is as vxlan, with Geneve between the machines. A geneve device has one
// other end, so there would have to be one for each machine, which is what
// devices=each builds. Otherwise it is what Cilium builds, one device that is
// told with each packet where that goes to, here by the route to the pods. There
// are no options in its header.
//
// Such a device takes all that comes by its UDP port, so each path has a port
// of its own. With several tunnels the one device serves all of them, each with
// a VNI and outer addresses of its own. What one of a device for each machine
// sends comes from the machine's address, as the route there says.
var geneve = Driver{
	Name:    "geneve",
	Summary: "pods on a bridge, kernel Geneve between the machines",
	Example: "Cilium with Geneve, without its BPF programs",
	Options: []Option{
		choice("devices", []string{geneveShared, geneveEach}, geneveShared,
			"shared: one device on each machine, and routes say where packets go; each: one device for each other machine"),
		number("vni", 1, maxVNI, "1", "virtual network identifier, of the first tunnel"),
		number("port", 1, 65535, "", "UDP port; 6081, which is the assigned one, or the next that is free on the machines when not given"),
		onOff("csum", "off", "compute the checksum of the outer UDP header"),
		number("tunnels", 1, maxPods, "1", "tunnels, each between outer addresses and pods of its own; flows are distributed over them"),
		mtu,
	},
	Resolve: func(v Values) error {
		if v["devices"] == geneveEach && v.Int("tunnels") != 1 {
			return errors.New("with devices=each there is one tunnel between two machines")
		}
		return checkVNIs(v)
	},
	OwnPort:  genevePort,
	Overhead: func(Values) int { return geneveOverhead },
	Needs: func(v Values) []feature.Need {
		needs := []feature.Need{feature.Bridge, feature.Geneve}
		if v["devices"] == geneveShared {
			needs = append(needs, feature.Encap)
		}
		return needs
	},
	Up: func(ctx context.Context, s *Site) (Ends, error) {
		return s.buildMachines(ctx, s.geneveMachine)
	},
}

const (
	genevePort = 6081

	geneveShared = "shared"
	geneveEach   = "each"

	outerTTL = 64 // of outer headers, where the device does not take the usual
)

func (s *Site) geneveMachine(i int) ([]host.Endpoint, error) {
	in := s.Machines[i].In
	if err := s.addPodBridge(i); err != nil {
		return nil, err
	}
	if s.Options["devices"] != geneveShared {
		return s.geneveDevices(i)
	}
	device := s.geneveDevice()
	err := in.AddGeneve(netcfg.Geneve{Name: device, MAC: s.tunnelMAC(i, 0), MTU: s.MTU, Port: s.Port})
	if err != nil {
		return nil, err
	}
	if err := in.AddAddr(device, hostPrefix(s.block(i).Addr())); err != nil {
		return nil, err
	}
	return eachPod(s.Options.Int("tunnels"), func(n int) (host.Endpoint, error) {
		if err := s.geneveTunnel(i, n, device); err != nil {
			return host.Endpoint{}, err
		}
		return s.bridgedPod(i, n, netcfg.AddVeth)
	})
}

func (s *Site) geneveDevice() string { return fmt.Sprintf("geneve%d", s.Index) }

// geneveDeviceTo is the device that leads to the j-th machine.
func (s *Site) geneveDeviceTo(j int) string { return fmt.Sprintf("%s.%d", s.geneveDevice(), j+1) }

// geneveDevices makes the devices of a machine to all others, with the same address and MAC as on the other
// ends, and its pod.
func (s *Site) geneveDevices(i int) ([]host.Endpoint, error) {
	in := s.Machines[i].In
	for j, other := range s.otherMachines(i) {
		device, hop := s.geneveDeviceTo(j), s.block(j).Addr()
		err := in.AddGeneve(netcfg.Geneve{
			Name: device, MAC: s.tunnelMAC(i, 0), MTU: s.MTU, Port: s.Port,
			Remote: other.Addr, VNI: s.Options.Int("vni"), Csum: s.Options.Enabled("csum"),
		})
		if err != nil {
			return nil, err
		}
		if err := in.AddAddr(device, hostPrefix(s.block(i).Addr())); err != nil {
			return nil, err
		}
		if err := s.routeBehind(i, s.block(j), device, hop, s.tunnelMAC(j, 0)); err != nil {
			return nil, err
		}
	}
	return eachPod(1, func(n int) (host.Endpoint, error) { return s.bridgedPod(i, n, netcfg.AddVeth) })
}

// geneveTunnel makes the ways to the pods of the other machines that are behind
// the n-th tunnel.
func (s *Site) geneveTunnel(i, n int, device string) error {
	m := s.Machines[i]
	outer := func(machine int) netip.Addr { return s.tunnelAddr(machine, n, s.Options.Int("tunnels")) }
	if err := s.addOuterAddr(i, outer); err != nil {
		return err
	}
	for j := range s.otherMachines(i) {
		hop, behind := s.block(j).Addr(), s.block(j)
		if s.Options.Int("tunnels") > 1 {
			behind = hostPrefix(s.podAddr(j, n))
		}
		if err := m.In.AddNeighbour(device, hop, s.tunnelMAC(j, 0)); err != nil {
			return err
		}
		err := m.In.AddRoute(netcfg.Route{Dst: behind, Via: hop, Device: device, OnLink: true, Encap: &netcfg.Encap{
			ID: s.Options.Int("vni") + n, Src: outer(i), Dst: outer(j),
			TTL: outerTTL, Csum: s.Options.Enabled("csum"),
		}})
		if err != nil {
			return err
		}
	}
	return nil
}
