package path

import (
	"context"
	"fmt"

	"github.com/venturi-net/venturi/internal/feature"
)

// ovsQinQ is Open vSwitch with an 802.1ad tag outside of an 802.1Q tag. The
// switch puts on both.
var ovsQinQ = Driver{
	Name:     "ovs-qinq",
	Summary:  "pods on Open vSwitch, two VLAN tags on the wire (802.1ad)",
	Example:  "tenants' VLANs over a provider's network",
	OwnCard:  true,
	Options:  ovsOptions(append(vlanOptions(), innerVLAN)...),
	Resolve:  vlanSettle,
	Overhead: func(Values) int { return 2 * tagSize },
	// A card carries one tag beyond its MTU, but for sure only one of 802.1Q.
	MTU:   ovsMTU(2 * tagSize),
	Needs: func(v Values) []feature.Need { return ovsNeeds(v) },
	Up: func(ctx context.Context, s *Site) (Ends, error) {
		way := ovsTagged(s, (*ovsHost).qinqFlows)
		// The switch looks at one tag only unless it is told to.
		way.config = map[string]string{"vlan-limit": "2"}
		return way.up(ctx, s)
	},
}

// qinqFlows: what comes loses its tags one after the other, and which pod the
// outer one was for is noted beside the packet.
func (h *ovsHost) qinqFlows() (flows []string) {
	inner := h.Options.Int("inner")
	for n := range h.Options.Int("ids") {
		pod, outer := ovsFirstPod+n, h.Options.Int("vlan")+n
		flows = append(flows,
			fmt.Sprintf("table=0,in_port=%d,dl_vlan=%d,actions=pop_vlan,write_metadata:%d,goto_table:1", ovsUplink, outer, pod),
			fmt.Sprintf("table=1,metadata=%d,dl_vlan=%d,actions=pop_vlan,output:%d", pod, inner, pod),
			fmt.Sprintf("table=0,in_port=%d,actions=push_vlan:0x8100,set_field:%d->vlan_vid,"+
				"push_vlan:0x88a8,set_field:%d->vlan_vid,output:%d", pod, vlanPresent|inner, vlanPresent|outer, ovsUplink))
	}
	return flows
}
