package vswitch

import (
	"fmt"
	"slices"
	"strings"

	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/ovs"
)

// encapCsum is whether OVN's tunnels carry a checksum of the outer header.
var encapCsum = knob.Entry{
	Facts: knob.Facts{
		Name:     "ovn.encap_csum",
		Title:    "Whether OVN's tunnels to this host carry a UDP checksum in the outer header",
		Values:   "on, off, or default (the setting is removed: on)",
		Scope:    knob.ScopeSwitch,
		Helps:    []knob.Benefit{knob.Throughput, knob.CPU},
		Risk:     "off: corruption of the outer header goes unnoticed",
		Needs:    "cards that do not compute it for tunnels (tx-udp_tnl-csum-segmentation). A host sets it for what others send to it: set it on all. Kube-OVN writes it again from --encap-checksum",
		Grade:    knob.GradeC,
		Evidence: "Kube-OVN's documentation, without a number",
		Undo:     "the old value is written into the database; a key that was absent is removed again",
	},
	Knob: ovsSettings{
		parts:  []ovsSetting{{"csum", ovs.ExternalID, "ovn-encap-csum", true, knob.OneOf("true", "false")}},
		trials: []string{knob.Off, knob.On},
		effect: tunnelsHere,
	},
}

// tunnelsHere tells what the other machines have said of theirs: what is in
// effect of this one's own setting is seen there.
func tunnelsHere(t knob.Target, _ map[string]string) (map[string]string, string) {
	tunnels, err := ovs.Tunnels(t.Switch)
	if err != nil {
		return nil, "tunnels could not be read: " + err.Error()
	}
	const made = "ovn-" // by ovn-controller
	var with, without []string
	for name, csum := range tunnels {
		switch {
		case !strings.HasPrefix(name, made):
		case csum == "true":
			with = append(with, name)
		default:
			without = append(without, name)
		}
	}
	slices.Sort(with)
	slices.Sort(without)
	return nil, fmt.Sprintf("tunnels from here, as the other machines want them: %d with a checksum %v, %d without %v", len(with), with, len(without), without)
}
