package path

import (
	"context"
	"fmt"

	"github.com/venturi-net/venturi/internal/feature"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/netcfg"
)

// netkit is routed with a pair of netkit devices in place of each veth: the
// primary one in the machine, its peer in the pod. Between them packets do not
// wait in a queue of their own for another turn of the kernel when a BPF program
// sends them on; without any program, as here, they take the way that a veth's
// do, and what is compared is the devices.
var netkit = Driver{
	Name:    "netkit",
	Summary: "as routed, with netkit devices in place of veths",
	Example: "Cilium with netkit and native routing, without its BPF programs",
	Options: []Option{
		choice("mode", []string{netkitL3, "l2"}, netkitL3, "what the devices carry: IP packets, or Ethernet frames"),
		mtu,
	},
	Needs: func(Values) []feature.Need { return []feature.Need{feature.Netkit} },
	Up: func(ctx context.Context, s *Site) (Ends, error) {
		return s.onePod(ctx, s.netkitPod, s.routedOthers)
	},
}

const netkitL3 = "l3"

func (s *Site) netkitPod(i int) (host.Endpoint, error) {
	pod, err := s.Pod(i, 0)
	if err != nil {
		return host.Endpoint{}, err
	}
	end, in := s.podEndpoint(i, 0, pod), s.Machines[i].In
	outside := netcfg.VethEnd{In: in, Name: s.netkitDevice(), MAC: routedMAC}
	inside := netcfg.VethEnd{In: pod, Name: podDevice, MAC: s.podMAC(i, 0)}
	link := s.Options["mode"] != netkitL3
	if err := netcfg.AddNetkit(outside, inside, link, s.MTU); err != nil {
		return end, err
	}
	if link {
		if err := routedInside(pod, end.Addr); err != nil {
			return end, err
		}
		return end, s.routedOutside(i, outside.Name, end.Addr)
	}
	return end, s.netkitRoutes(i, pod, outside.Name)
}

// netkitDevice is the machine's end of the pod's link.
func (s *Site) netkitDevice() string { return fmt.Sprintf("nk%d", s.Index) }

// netkitRoutes says on both sides that the other is behind the devices, which
// have no MAC to ask for.
func (s *Site) netkitRoutes(i int, pod *netcfg.Namespace, outside string) error {
	addr, in := s.podAddr(i, 0), s.Machines[i].In
	if err := pod.AddAddr(podDevice, hostPrefix(addr)); err != nil {
		return err
	}
	if err := pod.AddRoute(netcfg.Route{Dst: defaultDst, Device: podDevice}); err != nil {
		return err
	}
	if err := forward(in); err != nil {
		return err
	}
	if err := in.AddRoute(netcfg.Route{Dst: hostPrefix(addr), Device: outside}); err != nil {
		return err
	}
	return in.AddRoute(netcfg.Route{Dst: s.block(i), Blackhole: true})
}
