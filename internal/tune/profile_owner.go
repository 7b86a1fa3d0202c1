package tune

import (
	"fmt"
	"slices"
	"strings"

	"github.com/venturi-net/venturi/internal/knob"
)

// owner is another program that sets what knobs set, again and again.
type owner struct {
	processes  []string // as the kernel calls them: 15 letters
	knobs      []string // that it owns; with * at the end, all that begin so
	disabledBy string   // a knob that ends this owner, when it is turned before
	behaviour  string
}

var owners = []owner{
	{
		processes: []string{"tuned", "openshift-tuned", "cluster-node-tu"},
		knobs:     []string{"cpu.*", "kernel.jitter", "vm.thp", "net.busy_poll"},
		behaviour: "it sets the values of its profile again when it starts or the profile changes: put this into its profile, or stop it",
	},
	{
		processes: []string{"bpftune"},
		knobs:     []string{"net.backlog", "net.budget", "net.flow_limit", "tcp.*", "udp.mem", "sock.mem"},
		behaviour: "it sets this from what it observes: let it, or stop it",
	},
	{
		processes:  []string{"irqbalance"},
		knobs:      []string{"irq.affinity"},
		disabledBy: "irq.balance",
		behaviour:  "it moves interrupts again within ten seconds: set irq.balance first",
	},
}

// dropUnowned takes out of the assignments what would end an owner while nothing sets in its
// place what it looks after.
func dropUnowned(assignments []Assignment, skipped []Skipped) (kept []Assignment, left []Skipped) {
	for _, w := range assignments {
		i := slices.IndexFunc(owners, func(o owner) bool { return o.disabledBy == w.Knob.Name })
		if i >= 0 && !owners[i].replaced(assignments, skipped) {
			left = append(left, Skipped{Step: *w.Step, Target: w.Target, Kind: Unmet,
				Reason: fmt.Sprintf("nothing else would set %s then: name the card with --dev", strings.Join(owners[i].knobs, ", "))})
			continue
		}
		kept = append(kept, w)
	}
	return kept, left
}

// replaced tells whether what this owner looks after is set without it.
func (o owner) replaced(assignments []Assignment, skipped []Skipped) bool {
	return slices.ContainsFunc(assignments, func(w Assignment) bool { return slices.Contains(o.knobs, w.Knob.Name) }) ||
		slices.ContainsFunc(skipped, func(s Skipped) bool { return s.Kind == AlreadySet && slices.Contains(o.knobs, s.Step.Knob) })
}

// tooSlow says why a proof, which turns its changes on and off many times a second,
// cannot try a knob: it ends a program that takes longer to act, or that program
// would move meanwhile what the proof sets. "" for all others.
func tooSlow(name string, assignments []Assignment) string {
	for _, o := range owners {
		ends := o.disabledBy != "" && slices.ContainsFunc(assignments, func(w Assignment) bool { return w.Knob.Name == o.disabledBy })
		switch {
		case ends && name == o.disabledBy:
			return fmt.Sprintf("%s takes seconds to act, and a proof changes faster than that: compare before and after, with --apply --trial", o.processes[0])
		case ends && slices.Contains(o.knobs, name):
			return fmt.Sprintf("%s would move it while the proof runs: set %s to off meanwhile", o.processes[0], o.disabledBy)
		}
	}
	return ""
}

// runningOwners are the owners that are there, with their pids.
type runningOwners map[string]int

func findOwners(m knob.Machine) runningOwners {
	var names []string
	for _, o := range owners {
		names = append(names, o.processes...)
	}
	return m.Running(names...)
}

// ownerOf says who else owns a knob, "" if nobody does.
func (r runningOwners) ownerOf(name string, assignments []Assignment) string {
	for _, o := range owners {
		if !slices.ContainsFunc(o.knobs, func(k string) bool {
			begin, all := strings.CutSuffix(k, "*")
			return k == name || all && strings.HasPrefix(name, begin)
		}) {
			continue
		}
		if slices.ContainsFunc(assignments, func(w Assignment) bool { return w.Knob.Name == o.disabledBy }) {
			continue
		}
		for _, process := range o.processes {
			if pid := r[process]; pid > 0 {
				return fmt.Sprintf("%s (pid %d) owns it: %s", process, pid, o.behaviour)
			}
		}
	}
	return ""
}
