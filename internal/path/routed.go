package path

import (
	"context"
	"fmt"
	"net"
	"net/netip"

	"github.com/venturi-net/venturi/internal/change"
	"github.com/venturi-net/venturi/internal/machine"
)

// routed forwards between pod and wire with nothing around the packets. Each
// pod hangs on a veth of its own and believes in a gateway that no device has;
// the machine routes to the pod's single address, and to the other machine's
// block by that machine's address on the wire.
var routed = Driver{
	Name:    "routed",
	Summary: "pods on veths, kernel forwarding, no encapsulation",
	Like:    "Calico without encapsulation",
	Up:      routedUp,
}

var (
	// routedGateway is the next hop that pods are given. It is the same
	// everywhere and link-local, so it needs no address per machine.
	routedGateway = netip.MustParseAddr("169.254.1.1")
	// routedMAC is the same for the machine's end of every pod's link.
	routedMAC = net.HardwareAddr{0xee, 0xee, 0xee, 0xee, 0xee, 0xee}
)

// routedBits is the size of the block of addresses that a machine announces.
const routedBits = 26

func routedUp(ctx context.Context, s *Site) (from, to machine.Endpoint, err error) {
	var ends [2]machine.Endpoint
	for i := range s.Machines {
		if err := ctx.Err(); err != nil {
			return from, to, err
		}
		if ends[i], err = routedEnd(s, i); err != nil {
			return from, to, err
		}
	}
	return ends[0], ends[1], nil
}

func routedEnd(s *Site, i int) (machine.Endpoint, error) {
	m := s.Machines[i]
	addr := within(block(i, s.Index), 2)
	end := machine.Endpoint{Machine: m.Name, Device: podDevice, Addr: addr, MTU: m.MTU}
	pod, err := s.Pod(i)
	if err != nil {
		return end, err
	}
	end.Namespace = pod.Path()
	device := fmt.Sprintf("cali%d", s.Nth)
	if err := plug(s, i, pod, device, routedMAC, m.MTU); err != nil {
		return end, err
	}
	if err := routedPod(pod, addr); err != nil {
		return end, err
	}
	return end, routedMachine(s, i, device, addr)
}

// routedPod gives the pod its address and its way out.
func routedPod(pod *change.Namespace, addr netip.Addr) error {
	if err := pod.AddAddr(podDevice, single(addr)); err != nil {
		return err
	}
	if err := pod.AddRoute(change.Route{Dst: single(routedGateway), Device: podDevice}); err != nil {
		return err
	}
	if err := pod.AddRoute(change.Route{Dst: anywhere, Via: routedGateway, Device: podDevice}); err != nil {
		return err
	}
	return pod.AddNeighbour(podDevice, routedGateway, routedMAC)
}

// routedMachine tells the machine where its pod is and where the other's are.
func routedMachine(s *Site, i int, device string, addr netip.Addr) error {
	m, other := s.Machines[i], s.Machines[1-i]
	// The machine answers for the gateway's address on this link, and takes
	// from it only packets that it would send there.
	err := m.In.Sysctl(
		change.Setting{Name: "net.ipv4.ip_forward", Value: "1"},
		change.Setting{Name: "net/ipv4/conf/" + device + "/proxy_arp", Value: "1"},
		change.Setting{Name: "net/ipv4/conf/" + device + "/rp_filter", Value: "1"})
	if err != nil {
		return err
	}
	if err := m.In.AddRoute(change.Route{Dst: single(addr), Device: device}); err != nil {
		return err
	}
	if err := m.In.AddNeighbour(device, addr, mac(i, s.Index, rolePod)); err != nil {
		return err
	}
	// What no pod has ends here instead of wandering off by a default route.
	if err := m.In.AddRoute(change.Route{Dst: routedBlock(i, s.Index), Blackhole: true}); err != nil {
		return err
	}
	return m.In.AddRoute(change.Route{Dst: routedBlock(1-i, s.Index), Via: other.Addr, Device: m.Wire})
}

func routedBlock(machine, arm int) netip.Prefix {
	return netip.PrefixFrom(block(machine, arm).Addr(), routedBits)
}
