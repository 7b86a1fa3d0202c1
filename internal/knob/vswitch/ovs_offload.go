package vswitch

import (
	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/ovs"
)

// ovsOffload is whether flows are handed to the network card.
var ovsOffload = knob.Entry{
	Facts: knob.Facts{
		Name:       "ovs.hw_offload",
		Title:      "Whether Open vSwitch offloads flows to the network card (TC flower)",
		Values:     "offload=on,tc-policy=skip_sw (none, skip_sw or skip_hw), or one of them; default removes the setting",
		Scope:      knob.ScopeSwitch,
		Helps:      []knob.Benefit{knob.Throughput, knob.Packets, knob.CPU},
		Risk:       "the daemon must restart, which interrupts traffic; flows that a card handles wrongly",
		Needs:      "a card in switchdev mode, and no bond (Kube-OVN's page on Mellanox). Kube-OVN's start script sets it again from HW_OFFLOAD",
		Grade:      knob.GradeC,
		Evidence:   "card vendors and Kube-OVN recommend it, without a figure that could be checked",
		Undo:       "the old values are written into the database, and take effect when the daemon restarts",
		ManualOnly: "it has no effect until the daemon restarts, which interrupts traffic",
	},
	Knob: ovsSettings{
		parts: []ovsSetting{
			{"offload", ovs.OtherConfig, "hw-offload", true, knob.OneOf("true", "false")},
			{"tc-policy", ovs.OtherConfig, "tc-policy", false, knob.OneOf("none", "skip_sw", "skip_hw")},
		},
		trials: []string{"on"},
		note:   "it holds from the next start of ovs-vswitchd on",
	},
}
