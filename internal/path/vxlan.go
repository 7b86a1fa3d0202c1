package path

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/venturi-net/venturi/internal/change"
	"github.com/venturi-net/venturi/internal/feature"
	"github.com/venturi-net/venturi/internal/machine"
)

// vxlan is the kernel's overlay as Flannel wires it: pods on a bridge that is
// their gateway, the machine routes between the bridge and a vxlan device, and
// each machine's block is reached by the other's vxlan device as next hop,
// whose MAC and outer address are told and never learned. The device is made
// with the attributes that Flannel gives and no others, so the checksum of the
// outer UDP header is whatever the kernel does by default (it computes one).
// The masquerading of traffic that leaves the cluster is not built: no traffic
// of a lab leaves it.
var vxlan = Driver{
	Name:     "vxlan",
	Summary:  "pods on a bridge, kernel vxlan between the machines",
	Like:     "Flannel with its vxlan backend",
	Overhead: vxlanOverhead,
	Needs:    []*feature.Probe{feature.Bridge, feature.VXLAN},
	Up:       vxlanUp,
}

const (
	vxlanOverhead = 50 // outer IPv4 20, UDP 8, VXLAN 8, inner Ethernet 14
	vxlanPort     = 8472
)

func vxlanUp(ctx context.Context, s *Site) (from, to machine.Endpoint, err error) {
	var ends [2]machine.Endpoint
	for i := range s.Machines {
		if err := ctx.Err(); err != nil {
			return from, to, err
		}
		if ends[i], err = vxlanEnd(s, i); err != nil {
			return from, to, err
		}
	}
	return ends[0], ends[1], nil
}

func vxlanEnd(s *Site, i int) (machine.Endpoint, error) {
	m := s.Machines[i]
	mtu := m.MTU - vxlanOverhead
	end := machine.Endpoint{Machine: m.Name, Device: podDevice, Addr: within(block(i, s.Index), 2), MTU: mtu}
	if err := vxlanTunnel(s, i, mtu); err != nil {
		return end, err
	}
	pod, err := s.Pod(i)
	if err != nil {
		return end, err
	}
	end.Namespace = pod.Path()
	return end, vxlanPod(s, i, pod, mtu)
}

// vxlanTunnel builds the vxlan device of one machine and the way to the other.
// VNI and names count up; the first is Flannel's own flannel.1.
func vxlanTunnel(s *Site, i, mtu int) error {
	m, other := s.Machines[i], s.Machines[1-i]
	device := fmt.Sprintf("flannel.%d", s.Nth+1)
	err := m.In.AddVXLAN(change.VXLAN{
		Name: device, MAC: mac(i, s.Index, roleTunnel), MTU: mtu,
		VNI: s.Nth + 1, Port: vxlanPort, Local: m.Addr, Device: m.Wire,
	})
	if err != nil {
		return err
	}
	// The device's address is the block's own first one; the other side's is
	// the next hop to all of that side's pods.
	own, remote := block(i, s.Index), block(1-i, s.Index)
	if err := m.In.AddAddr(device, single(own.Addr())); err != nil {
		return err
	}
	theirs := mac(1-i, s.Index, roleTunnel)
	if err := m.In.AddNeighbour(device, remote.Addr(), theirs); err != nil {
		return err
	}
	if err := m.In.AddFDB(device, theirs, other.Addr); err != nil {
		return err
	}
	if err := forward(m.In); err != nil {
		return err
	}
	return m.In.AddRoute(change.Route{Dst: remote, Via: remote.Addr(), Device: device, OnLink: true})
}

// vxlanPod builds the bridge of one machine and the pod on it.
func vxlanPod(s *Site, i int, pod *change.Namespace, mtu int) error {
	m := s.Machines[i]
	net := block(i, s.Index)
	gateway, addr := within(net, 1), within(net, 2)
	bridge, port := fmt.Sprintf("cni%d", s.Nth), fmt.Sprintf("veth%d", s.Nth)
	gatewayMAC := mac(i, s.Index, roleGateway)
	if err := m.In.AddBridge(bridge, gatewayMAC, mtu); err != nil {
		return err
	}
	if err := m.In.AddAddr(bridge, netip.PrefixFrom(gateway, net.Bits())); err != nil {
		return err
	}
	if err := plug(s, i, pod, port, nil, mtu); err != nil {
		return err
	}
	if err := m.In.Enslave(port, bridge, true); err != nil {
		return err
	}
	if err := m.In.AddNeighbour(bridge, addr, mac(i, s.Index, rolePod)); err != nil {
		return err
	}
	if err := pod.AddAddr(podDevice, netip.PrefixFrom(addr, net.Bits())); err != nil {
		return err
	}
	if err := pod.AddRoute(change.Route{Dst: anywhere, Via: gateway, Device: podDevice}); err != nil {
		return err
	}
	return pod.AddNeighbour(podDevice, gateway, gatewayMAC)
}
