package path

import (
	"context"
	"fmt"
	"net"
	"net/netip"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/netcfg"
)

// routed forwards between pod and wire with nothing around the packets. Each
// pod hangs on a veth of its own and believes in a gateway that no device has;
// the machine routes to the pod's single address, and to the other machines'
// blocks by those machines' addresses on the wire.
var routed = Driver{
	Name:    "routed",
	Summary: "pods on veths, kernel forwarding, no encapsulation",
	Example: "Calico without encapsulation",
	Options: []Option{mtu},
	Up: func(ctx context.Context, s *Site) (Ends, error) {
		return s.onePod(ctx, s.routedPod, s.routedOthers)
	},
}

var (
	// routedGateway is the next hop that pods are given. It is the same
	// everywhere and link-local, so it needs no address per machine.
	routedGateway = netip.MustParseAddr("169.254.1.1")
	// routedMAC is the same for the machine's end of every pod's link.
	routedMAC = net.HardwareAddr{0xee, 0xee, 0xee, 0xee, 0xee, 0xee}
)

// routedPod makes the pod of one machine and tells the machine where it is,
// and that what no pod of its block has ends here. The ways to the other
// machines' blocks are the caller's business.
func (s *Site) routedPod(i int) (host.Endpoint, error) {
	pod, err := s.Pod(i, 0)
	if err != nil {
		return host.Endpoint{}, err
	}
	device := s.routedDevice()
	if err := s.addPodVeth(i, 0, pod, netcfg.VethEnd{In: s.Machines[i].In, Name: device, MAC: routedMAC}); err != nil {
		return host.Endpoint{}, err
	}
	end := s.podEndpoint(i, 0, pod)
	if err := routedInside(pod, end.Addr); err != nil {
		return end, err
	}
	return end, s.routedOutside(i, device, end.Addr)
}

// routedDevice is the machine's end of the pod's link.
func (s *Site) routedDevice() string { return fmt.Sprintf("cali%d", s.Index) }

// routedOthers tells a machine that the blocks of the others are behind those.
func (s *Site) routedOthers(i int) error {
	m := s.Machines[i]
	for j, other := range s.otherMachines(i) {
		if err := m.In.AddRoute(netcfg.Route{Dst: s.block(j), Via: other.Addr, Device: m.Wire}); err != nil {
			return err
		}
	}
	return nil
}

// routedInside gives the pod its address and its way out.
func routedInside(pod *netcfg.Namespace, addr netip.Addr) error {
	if err := pod.AddAddr(podDevice, hostPrefix(addr)); err != nil {
		return err
	}
	if err := pod.AddRoute(netcfg.Route{Dst: hostPrefix(routedGateway), Device: podDevice}); err != nil {
		return err
	}
	if err := pod.AddRoute(netcfg.Route{Dst: defaultDst, Via: routedGateway, Device: podDevice}); err != nil {
		return err
	}
	return pod.AddNeighbour(podDevice, routedGateway, routedMAC)
}

// routedOutside tells the machine where its pod is.
func (s *Site) routedOutside(i int, device string, addr netip.Addr) error {
	in := s.Machines[i].In
	// The machine answers for the gateway's address on this link, and takes
	// from it only packets that it would send there.
	err := in.Sysctl(
		netcfg.Sysctl{Name: "net.ipv4.ip_forward", Value: "1"},
		netcfg.Sysctl{Name: "net/ipv4/conf/" + device + "/proxy_arp", Value: "1"},
		netcfg.Sysctl{Name: "net/ipv4/conf/" + device + "/rp_filter", Value: "1"})
	if err != nil {
		return err
	}
	if err := in.AddRoute(netcfg.Route{Dst: hostPrefix(addr), Device: device}); err != nil {
		return err
	}
	if err := in.AddNeighbour(device, addr, s.podMAC(i, 0)); err != nil {
		return err
	}
	// What no pod has ends here instead of wandering off by a default route.
	return in.AddRoute(netcfg.Route{Dst: s.block(i), Blackhole: true})
}
