package path

import (
	"context"
	"fmt"

	"github.com/venturi-net/venturi/internal/feature"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/netcfg"
)

// vlan is an underlay of the kernel's own devices: for each id a VLAN device on
// a network card, and a bridge that joins it to the id's pod. Nothing is
// forwarded, and all pods are in one subnet.
//
// The card is one more, like the wire's, as for macvlan: ids are the arm's own.
var vlan = Driver{
	Name:     "vlan",
	Summary:  "pods on a bridge over a VLAN device, one VLAN tag on the wire",
	Example:  "the bridge and vlan CNI plugins; Kube-OVN's underlay without its switch",
	Options:  append(vlanOptions(), mtu),
	Resolve:  lastVLAN,
	Overhead: func(Values) int { return tagSize },
	MTU:      func(wire int, _ Values) int { return wire }, // a card carries one tag beyond its MTU
	OwnCard:  true,
	Needs:    func(Values) []feature.Need { return []feature.Need{feature.Bridge, feature.VLAN} },
	Up: func(ctx context.Context, s *Site) (Ends, error) {
		return s.vlanPods(ctx, func(i, n int) (string, error) {
			device := fmt.Sprintf("vlan%d.%d", s.Index, n+1)
			return device, s.Machines[i].In.AddVLAN(s.card(), netcfg.VLAN{
				Name: device, ID: s.Options.Int("vlan") + n, MTU: s.MTU,
			})
		})
	},
}

// vlanPods builds pods on bridges, one for each id, whose other port is what
// uplink makes on the arm's card for the n-th id.
func (s *Site) vlanPods(ctx context.Context, uplink func(i, n int) (string, error)) (Ends, error) {
	if err := s.ownCards(s.allMACs); err != nil {
		return nil, err
	}
	return s.buildMachines(ctx, func(i int) ([]host.Endpoint, error) {
		return eachPod(s.Options.Int("ids"), func(n int) (host.Endpoint, error) {
			device, err := uplink(i, n)
			if err != nil {
				return host.Endpoint{}, err
			}
			return s.switchedPod(i, n, device)
		})
	})
}
