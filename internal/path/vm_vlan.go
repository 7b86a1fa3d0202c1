package path

import (
	"context"

	"github.com/venturi-net/venturi/internal/feature"
)

// vmVLAN is two virtual machines with one 802.1Q tag on the wire.
var vmVLAN = Driver{
	Name:       "vm-vlan",
	Summary:    "virtual machines behind a bridge and Open vSwitch, one VLAN tag on the wire",
	Example:    "OpenStack provider networks, with virtual machines",
	OneHost:    true,
	OwnCard:    true,
	Options:    vmOptions(ovsOptions(vmVLANOptions()...)),
	Resolve:    vmSettle,
	InVMs:      true,
	CheckHosts: vmFits,
	Overhead:   func(Values) int { return tagSize },
	MTU:        ovsMTU(0), // a card carries one tag beyond its MTU
	Needs:      func(v Values) []feature.Need { return vmNeeds(v, ovsNeeds(v)) },
	Up: func(ctx context.Context, s *Site) (Ends, error) {
		return vmUp(ctx, s, ovsTagged(s, (*ovsHost).vlanFlows))
	},
}
