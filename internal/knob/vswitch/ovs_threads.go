package vswitch

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/ovs"
)

// ovsThreads is how many threads the switch's daemon has.
var ovsThreads = knob.Entry{
	Facts: knob.Facts{
		Name:     "ovs.threads",
		Title:    "Threads of Open vSwitch that handle packets without a flow, and that revalidate flows",
		Values:   "handlers=4,revalidators=2, or one of them; a number alone is handlers; default removes the setting",
		Scope:    knob.ScopeSwitch,
		Helps:    []knob.Benefit{knob.Drops, knob.Latency},
		Risk:     "memory: a switch went from 10 to 96 handlers and ran out of it (ovn-kubernetes issue 3842)",
		Needs:    "handlers matter only where the kernel sends upcalls per port: since 2.16 it does so per core, with one handler per core whatever is set. Kube-OVN's start script sets both again",
		Grade:    knob.GradeB,
		Evidence: "negative: setting it had no effect, or the opposite (ovn-kubernetes issues 3842 and 3921)",
		Undo:     "the old values are written into the database; a key that was absent is removed again",
	},
	Knob: ovsSettings{
		parts: []ovsSetting{
			{"handlers", ovs.OtherConfig, "n-handler-threads", false, knob.Number(1, 512)},
			{"revalidators", ovs.OtherConfig, "n-revalidator-threads", false, knob.Number(1, 512)},
		},
		trials: []string{"revalidators=2", "revalidators=4"},
		effect: threadsInEffect,
	},
}

func threadsInEffect(t knob.Target, _ map[string]string) (map[string]string, string) {
	handlers, revalidators, err := ovs.Threads(t.Switch)
	if err != nil {
		return nil, "what is in effect could not be read: " + err.Error()
	}
	if handlers+revalidators == 0 {
		return nil, "the switch has no bridge yet, and so no threads"
	}
	note := fmt.Sprintf("there are %d handlers and %d revalidators", handlers, revalidators)
	if mode, err := ovs.DispatchModes(t.Switch); err == nil && mode != "" {
		note += "; " + strings.Join(strings.Fields(mode), " ")
	}
	return map[string]string{"handlers": strconv.Itoa(handlers), "revalidators": strconv.Itoa(revalidators)}, note
}
