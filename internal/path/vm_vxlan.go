package path

import (
	"context"

	"github.com/venturi-net/venturi/internal/feature"
)

// vmVXLAN is two virtual machines with a VXLAN tunnel of Open vSwitch between them.
var vmVXLAN = Driver{
	Name:       "vm-vxlan",
	Summary:    "virtual machines behind a bridge and Open vSwitch, VXLAN between the machines",
	Example:    "OpenStack with Open vSwitch and VXLAN, with virtual machines",
	OneHost:    true,
	OwnCard:    true,
	Options:    vmOptions(ovsTunnelOptions("4789")),
	Resolve:    vmSettle,
	InVMs:      true,
	CheckHosts: vmFits,
	Overhead:   func(Values) int { return vxlanOverhead },
	MTU:        ovsMTU(vxlanOverhead),
	Needs:      func(v Values) []feature.Need { return vmNeeds(v, ovsNeeds(v, feature.VXLAN)) },
	Up: func(ctx context.Context, s *Site) (Ends, error) {
		return vmUp(ctx, s, ovsTunnelVariant(s, "vxlan"))
	},
}
