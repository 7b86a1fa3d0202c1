package path

import (
	"context"
	"fmt"

	"github.com/venturi-net/venturi/internal/feature"
	"github.com/venturi-net/venturi/internal/netcfg"
)

// qinq is as vlan, with an 802.1ad tag outside of the pods' 802.1Q tag: for each
// outer id a device of the provider's VLAN on the card, and on that a device of
// the tenant's.
var qinq = Driver{
	Name:    "qinq",
	Summary: "pods on bridges over VLAN devices, two VLAN tags on the wire (802.1ad)",
	Example: "tenants' VLANs over a provider's network; Kube-OVN's underlay on one",
	Options: append(vlanOptions(), innerVLAN, mtu),
	Resolve: lastVLAN,
	// A card carries one tag beyond its MTU, but for sure only one of 802.1Q.
	Overhead: func(Values) int { return 2 * tagSize },
	OwnCard:  true,
	Needs: func(Values) []feature.Need {
		return []feature.Need{feature.Bridge, feature.VLAN, feature.QinQ}
	},
	Up: func(ctx context.Context, s *Site) (Ends, error) {
		return s.vlanPods(ctx, func(i, n int) (string, error) {
			in := s.Machines[i].In
			outer, inner := fmt.Sprintf("svlan%d.%d", s.Index, n+1), fmt.Sprintf("vlan%d.%d", s.Index, n+1)
			err := in.AddVLAN(s.card(), netcfg.VLAN{
				Name: outer, ID: s.Options.Int("vlan") + n, Service: true, MTU: s.MTU + tagSize,
			})
			if err != nil {
				return "", err
			}
			return inner, in.AddVLAN(outer, netcfg.VLAN{Name: inner, ID: s.Options.Int("inner"), MTU: s.MTU})
		})
	},
}
