package vswitch

import (
	"slices"

	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/ovs"
)

// ovsCache is how long and how many flows the switch keeps at hand.
var ovsCache = knob.Entry{
	Facts: knob.Facts{
		Name:     "ovs.cache",
		Title:    "How many flows Open vSwitch keeps in the datapath, and for how long",
		Values:   "flow-limit=400000 (flows),max-idle=30000 (ms),max-revalidator=1000 (ms),min-revalidate-pps=5, or some of it; a number alone is flow-limit; default removes the setting",
		Scope:    knob.ScopeSwitch,
		Helps:    []knob.Benefit{knob.Packets, knob.Drops},
		Risk:     "memory, and time to revalidate flows; stale flows stay longer",
		Needs:    "very many flows: upcall_flow_limit_hit of `ovs-appctl coverage/show` grows",
		Grade:    knob.GradeC,
		Evidence: "the manual of Open vSwitch discourages it \"unless you know\", and gives the defaults 200000, 10000 ms, 500 ms and 5",
		Undo:     "the old values are written into the database; a key that was absent is removed again",
	},
	Knob: ovsSettings{
		parts: []ovsSetting{
			{"flow-limit", ovs.OtherConfig, "flow-limit", false, knob.Number(0, 1<<31-1)},
			{"max-idle", ovs.OtherConfig, "max-idle", false, knob.Number(500, 1<<31-1)},
			{"max-revalidator", ovs.OtherConfig, "max-revalidator", false, knob.Number(100, 1<<31-1)},
			{"min-revalidate-pps", ovs.OtherConfig, "min-revalidate-pps", false, knob.Number(0, 1<<31-1)},
		},
		trials: []string{"flow-limit=400000", "max-idle=30000"},
	},
}

// ovsUserspace is the caches of the datapath that runs in the daemon itself.
var ovsUserspace = knob.Entry{
	Facts: knob.Facts{
		Name:     "ovs.emc",
		Title:    "Caches of the datapath that runs in Open vSwitch's own process (netdev)",
		Values:   "emc=100 (one in 100 new flows goes into the exact match cache; 0: none),smc=on (signature match cache); default removes the setting",
		Scope:    knob.ScopeSwitch,
		Helps:    []knob.Benefit{knob.Packets},
		Risk:     "a cache that thrashes costs more than none",
		Needs:    "bridges of datapath type netdev: the kernel's datapath has no such caches",
		Grade:    knob.GradeC,
		Evidence: "the manual of Open vSwitch, without a number",
		Undo:     "the old values are written into the database; a key that was absent is removed again",
	},
	Knob: ovsSettings{
		parts: []ovsSetting{
			{"emc", ovs.OtherConfig, "emc-insert-inv-prob", false, knob.Number(0, 1<<31-1)},
			{"smc", ovs.OtherConfig, "smc-enable", true, knob.OneOf("true", "false")},
		},
		trials: []string{"emc=20", "emc=0", "smc=on"},
		fits: func(r ovs.Running) string {
			if slices.Contains(r.Datapaths, ovs.Daemon) {
				return ""
			}
			return "no bridge of it is of datapath type netdev, and the kernel's datapath has no such caches"
		},
	},
}
