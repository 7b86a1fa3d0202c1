package path

import (
	"context"
	"fmt"

	"github.com/venturi-net/venturi/internal/feature"
	"github.com/venturi-net/venturi/internal/ovn"
	"github.com/venturi-net/venturi/internal/ovs"
)

// ovnUnderlay is OVN on a VLAN of the machines' own network: the logical switch
// has a port there, and each machine a bridge with its card that leads to it.
// No router is built: in an underlay that is a device of the network.
var ovnUnderlay = Driver{
	Name:     "ovn-underlay",
	Summary:  "pods on a logical switch of OVN, one VLAN tag on the wire",
	Example:  "Kube-OVN's underlay",
	OneHost:  true,
	OwnCard:  true,
	Options:  ovnOptions("off", number("vlan", 1, maxVLAN, "100", "id of the tag on the wire")),
	Resolve:  ovsSettle,
	Overhead: func(Values) int { return tagSize },
	// A card carries one tag beyond its MTU.
	MTU:    ovsMTU(0),
	MinMTU: ovnLeast,
	Needs:  func(v Values) []feature.Need { return ovnNeeds(v) },
	Up: func(ctx context.Context, s *Site) (Ends, error) {
		return ovnVariant{
			network: ovn.Network{Localnet: &ovn.Localnet{Name: ovnProvider, VLAN: s.Options.Int("vlan")}},
			bridges: func(h *ovsHost) []ovs.Bridge {
				return []ovs.Bridge{{Name: ovsUnderlay, Datapath: h.Options["datapath"], Ports: []ovs.Port{ovsCardPort()}}}
			},
			join: func(ctx context.Context, h *ovsHost) error {
				return h.sw.AddFlows(ctx, ovsUnderlay, "actions=NORMAL") // it learns, as any switch
			},
			chassis: func(_ *ovsHost, c *ovn.Chassis) { c.Mappings = fmt.Sprintf("%s:%s", ovnProvider, ovsUnderlay) },
		}.up(ctx, s)
	},
}

// ovnProvider is what the machines' own network is called.
const ovnProvider = "provider"
