package path

import (
	"context"
	"net"

	"github.com/venturi-net/venturi/internal/feature"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/netcfg"
)

// ipvlan puts pods straight on a network card, as macvlan, but with the card's
// MAC: what comes is told apart by its IP address. In mode l2 pods are in one
// subnet and ask for each other's MAC; in mode l3 the machine's routes say where
// a packet goes to, and the pods know nothing but a device; l3s is l3 with the
// machine's packet filter in the way.
var ipvlan = Driver{
	Name:    "ipvlan",
	Summary: "pods as ipvlan devices on a network card: an underlay with one MAC address per machine",
	Example: "the ipvlan CNI plugin; clouds that allow one MAC address per card",
	Options: []Option{
		choice("mode", []string{"l2", "l3", ipvlanFiltered}, "l2",
			"how pods are connected: on one link (l2), by the machine's routes (l3), or by those and its packet filter (l3s)"),
		mtu,
	},
	OwnCard: true,
	Needs: func(v Values) []feature.Need {
		needs := []feature.Need{feature.IPVLAN}
		if v["mode"] == ipvlanFiltered {
			needs = append(needs, feature.IPVLANL3S)
		}
		return needs
	},
	Up: func(ctx context.Context, s *Site) (Ends, error) {
		if err := s.ownCards(nil); err != nil {
			return nil, err
		}
		return s.onePod(ctx, s.ipvlanPod)
	},
}

const ipvlanFiltered = "l3s"

func (s *Site) ipvlanPod(i int) (host.Endpoint, error) {
	pod, err := s.Pod(i, 0)
	if err != nil {
		return host.Endpoint{}, err
	}
	m, end, mode := s.Machines[i], s.podEndpoint(i, 0, pod), s.Options["mode"]
	err = m.In.AddIPVLAN(s.card(), netcfg.IPVLAN{In: pod, Name: podDevice, Mode: mode, MTU: s.MTU})
	if err != nil {
		return end, err
	}
	if mode == "l2" {
		return end, s.joinSubnetVia(i, 0, pod, podDevice, func(j int) net.HardwareAddr { return s.mac(j, roleCard) })
	}
	if err := pod.AddAddr(podDevice, hostPrefix(end.Addr)); err != nil {
		return end, err
	}
	if err := pod.AddRoute(netcfg.Route{Dst: defaultDst, Device: podDevice}); err != nil {
		return end, err
	}
	return end, s.ipvlanRoutes(i)
}

// ipvlanRoutes tells a machine that the blocks of the others are behind their
// cards.
func (s *Site) ipvlanRoutes(i int) error {
	in := s.Machines[i].In
	if err := in.AddAddr(s.card(), hostPrefix(s.outer(i, 0))); err != nil {
		return err
	}
	for j := range s.otherMachines(i) {
		if err := in.AddNeighbour(s.card(), s.outer(j, 0), s.mac(j, roleCard)); err != nil {
			return err
		}
		err := in.AddRoute(netcfg.Route{Dst: s.block(j), Via: s.outer(j, 0), Device: s.card(), OnLink: true})
		if err != nil {
			return err
		}
	}
	return nil
}
