package path

import (
	"context"
	"fmt"

	"github.com/venturi-net/venturi/internal/feature"
	"github.com/venturi-net/venturi/internal/ovs"
)

// ovsVLAN is Open vSwitch with one 802.1Q tag on the wire.
var ovsVLAN = Driver{
	Name:     "ovs-vlan",
	Summary:  "pods on Open vSwitch, one VLAN tag on the wire",
	Example:  "OpenStack provider networks",
	OwnCard:  true,
	Options:  ovsOptions(vlanOptions()...),
	Resolve:  vlanSettle,
	Overhead: func(Values) int { return tagSize },
	MTU:      ovsMTU(0), // a card carries one tag beyond its MTU
	Needs:    func(v Values) []feature.Need { return ovsNeeds(v) },
	Up: func(ctx context.Context, s *Site) (Ends, error) {
		return ovsTagged(s, (*ovsHost).vlanFlows).up(ctx, s)
	},
}

const (
	tagSize = 4 // bytes of a VLAN tag
	maxVLAN = 4094
	// vlanPresent is the bit that OpenFlow wants beside an id.
	vlanPresent = 0x1000
)

// vlanOptions say which tags tell the pods apart.
func vlanOptions() []Option {
	return []Option{
		number("ids", 1, maxPods, "1", "ids on the wire, each with a pod of its own; flows are distributed over them"),
		number("vlan", 1, maxVLAN, "100", "id of the first pod's tag, the outer one if there are two; the next pod has the next id"),
	}
}

// innerVLAN says which tag is inside, if there are two.
var innerVLAN = number("inner", 1, maxVLAN, "1", "id of the inner tag, the same for all pods")

// vlanSettle is for switches.
func vlanSettle(v Values) error {
	if err := lastVLAN(v); err != nil {
		return err
	}
	return ovsSettle(v)
}

// lastVLAN: every pod has an id.
func lastVLAN(v Values) error {
	if last := v.Int("vlan") + v.Int("ids") - 1; last > maxVLAN {
		return fmt.Errorf("%d ids starting at vlan %d would end at %d, beyond the maximum of %d",
			v.Int("ids"), v.Int("vlan"), last, maxVLAN)
	}
	return nil
}

// ovsTagged is a path on which tags tell the pods apart: port 1 is the card.
func ovsTagged(s *Site, flows func(*ovsHost) []string) ovsVariant {
	return ovsVariant{
		pods:   s.Options.Int("ids"),
		uplink: func(*ovsHost) (ovs.Port, []ovs.Bridge) { return ovsCardPort(), nil },
		flows:  flows,
	}
}

func (h *ovsHost) vlanFlows() (flows []string) {
	for n := range h.Options.Int("ids") {
		pod, id := ovsFirstPod+n, h.Options.Int("vlan")+n
		flows = append(flows,
			fmt.Sprintf("in_port=%d,dl_vlan=%d,actions=pop_vlan,output:%d", ovsUplink, id, pod),
			fmt.Sprintf("in_port=%d,actions=push_vlan:0x8100,set_field:%d->vlan_vid,output:%d", pod, vlanPresent|id, ovsUplink))
	}
	return flows
}
