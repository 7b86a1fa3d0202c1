package path

import (
	"context"

	"github.com/venturi-net/venturi/internal/feature"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/netcfg"
)

// macvlan puts pods straight on a network card, each with a MAC and an address
// of its own: no bridge, no forwarding, none of the machine's rules. The card is
// one more, like the wire's: on that, each packet of every other path would be
// looked at for the pods' sake, as it is wherever pods share a card with their
// machine.
//
// All pods are in one subnet. A macvlan cuts and checks nothing by itself: what
// the card cannot do is done as the packets are handed to it.
var macvlan = Driver{
	Name:    "macvlan",
	Summary: "pods as macvlan devices on a network card: an underlay without a bridge",
	Example: "the macvlan CNI plugin, Multus' usual second network",
	Options: []Option{mtu},
	OwnCard: true,
	Needs:   func(Values) []feature.Need { return []feature.Need{feature.MACVLAN} },
	Up: func(ctx context.Context, s *Site) (Ends, error) {
		if err := s.ownCards(nil); err != nil {
			return nil, err
		}
		return s.onePod(ctx, s.macvlanPod)
	},
}

func (s *Site) macvlanPod(i int) (host.Endpoint, error) {
	pod, err := s.Pod(i, 0)
	if err != nil {
		return host.Endpoint{}, err
	}
	m, end := s.Machines[i], s.podEndpoint(i, 0, pod)
	err = m.In.AddMACVLAN(s.card(), netcfg.MACVLAN{In: pod, Name: podDevice, MAC: s.podMAC(i, 0), MTU: s.MTU})
	if err != nil {
		return end, err
	}
	return end, s.joinSubnet(i, 0, pod, podDevice)
}
