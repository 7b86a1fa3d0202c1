package knob

import "github.com/venturi-net/venturi/internal/ovs"

// ovsOffload is whether flows are handed to the network card.
var ovsOffload = Entry{
	Facts: Facts{
		Name:       "ovs.hw_offload",
		Title:      "Whether Open vSwitch hands flows to the network card (TC flower)",
		Values:     "offload=on,tc-policy=skip_sw (none, skip_sw or skip_hw), or one of them; default takes the setting away",
		Scope:      ScopeSwitch,
		Helps:      []Effect{Throughput, Packets, CPU},
		Risk:       "the daemon has to be started anew, which cuts traffic off; flows that a card gets wrong",
		Needs:      "a card in switchdev mode, and no bond in the way (Kube-OVN's page on Mellanox). Kube-OVN's start script sets it anew from HW_OFFLOAD",
		Grade:      GradeC,
		Evidence:   "makers of cards and Kube-OVN recommend it, without a number that could be checked",
		Undo:       "the old values are written into the database, and hold when the daemon is started anew",
		ManualOnly: "it does nothing until the daemon is started anew, which cuts traffic off",
	},
	Knob: ovsSettings{
		parts: []ovsSetting{
			{"offload", ovs.OtherConfig, "hw-offload", true, oneOf("true", "false")},
			{"tc-policy", ovs.OtherConfig, "tc-policy", false, oneOf("none", "skip_sw", "skip_hw")},
		},
		trials: []string{"on"},
		note:   "it holds from the next start of ovs-vswitchd on",
	},
}
