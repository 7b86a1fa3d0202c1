package knob

import (
	"strings"

	"github.com/venturi-net/venturi/internal/ovs"
)

// encapCsum is whether OVN's tunnels carry a checksum of the outer header.
var encapCsum = Entry{
	Facts: Facts{
		Name:     "ovn.encap_csum",
		Title:    "Whether OVN's tunnels carry a UDP checksum in the outer header",
		Values:   "on, off, or default (the setting is taken away: on)",
		Scope:    OfSwitch,
		Helps:    []Effect{Throughput, CPU},
		Risk:     "off: what the wire damages in the outer header goes unnoticed",
		Needs:    "a card that does not compute it for tunnels (tx-udp_tnl-csum-segmentation). The other machines' controllers choose for themselves. Kube-OVN writes it anew from --encap-checksum",
		Grade:    GradeC,
		Evidence: "Kube-OVN's documentation, without a number",
		Undo:     "the old value is written into the database; a key that was absent is absent again",
	},
	Knob: ovsSettings{
		parts:  []ovsSetting{{"csum", ovs.ExternalID, "ovn-encap-csum", true, either("true", "false")}},
		trials: []string{off, "on"},
		effect: csumInEffect,
	},
}

// csumInEffect asks the tunnels, which ovn-controller makes anew for it.
func csumInEffect(t Target, values map[string]string) (map[string]string, string) {
	tunnels, err := ovs.Tunnels(t.Switch)
	if err != nil {
		return nil, "what is in effect could not be read: " + err.Error()
	}
	const made = "ovn-" // by ovn-controller
	effective, note := map[string]string{}, "OVN has made no tunnel here"
	for name, csum := range tunnels {
		if !strings.HasPrefix(name, made) {
			continue
		}
		note = ""
		is := off
		if csum == "true" {
			is = "on"
		}
		if effective["csum"] == "" || is != values["csum"] { // one that is not so tells
			effective["csum"] = is
		}
	}
	return effective, note
}
