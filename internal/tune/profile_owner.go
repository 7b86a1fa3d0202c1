package tune

import (
	"fmt"
	"slices"
	"strings"

	"github.com/venturi-net/venturi/internal/knob"
)

// owner is another program that sets what knobs set, again and again.
type owner struct {
	processes []string // as the kernel calls them: 15 letters
	knobs     []string // that it owns; with * at the end, all that begin so
	without   string   // a knob that ends this owner, when it is turned before
	does      string
}

var owners = []owner{
	{
		processes: []string{"tuned", "openshift-tuned", "cluster-node-tu"},
		knobs:     []string{"cpu.*", "kernel.jitter", "vm.thp", "net.busy_poll"},
		does:      "it sets the values of its profile again when it starts or the profile changes: put this into its profile, or stop it",
	},
	{
		processes: []string{"bpftune"},
		knobs:     []string{"net.backlog", "net.budget", "net.flow_limit", "tcp.*", "udp.mem", "sock.mem"},
		does:      "it sets this by what it watches: let it, or stop it",
	},
	{
		processes: []string{"irqbalance"},
		knobs:     []string{"irq.affinity"},
		without:   "irq.balance",
		does:      "it moves interrupts again within ten seconds: turn irq.balance first",
	},
}

// abandoned takes out of the wishes what would end an owner while nothing sets in its
// place what it looks after.
func abandoned(wishes []Wish, skipped []Skipped) (kept []Wish, left []Skipped) {
	for _, w := range wishes {
		i := slices.IndexFunc(owners, func(o owner) bool { return o.without == w.Knob.Name })
		if i >= 0 && !owners[i].followed(wishes, skipped) {
			left = append(left, Skipped{Step: *w.Step, Target: w.Target, Reason: Unmet,
				Why: fmt.Sprintf("nothing else would set %s then: name the card, with --dev", strings.Join(owners[i].knobs, ", "))})
			continue
		}
		kept = append(kept, w)
	}
	return kept, left
}

// followed tells whether what this owner looks after is set without it.
func (o owner) followed(wishes []Wish, skipped []Skipped) bool {
	return slices.ContainsFunc(wishes, func(w Wish) bool { return slices.Contains(o.knobs, w.Knob.Name) }) ||
		slices.ContainsFunc(skipped, func(s Skipped) bool { return s.Reason == Already && slices.Contains(o.knobs, s.Step.Knob) })
}

// tooSlow says why a proof, which turns its changes on and off many times a second,
// cannot try a knob: it ends a program that takes longer to act, or that program
// would move meanwhile what the proof sets. "" for all others.
func tooSlow(name string, wishes []Wish) string {
	for _, o := range owners {
		ends := o.without != "" && slices.ContainsFunc(wishes, func(w Wish) bool { return w.Knob.Name == o.without })
		switch {
		case ends && name == o.without:
			return fmt.Sprintf("%s takes seconds to act, and a proof changes faster than that: compare before and after, with --apply --trial", o.processes[0])
		case ends && slices.Contains(o.knobs, name):
			return fmt.Sprintf("%s would move it while the proof runs: set %s to off for as long as that takes", o.processes[0], o.without)
		}
	}
	return ""
}

// running are the owners that are there, with their pids.
type running map[string]int

func othersOn(m knob.Machine) running {
	var names []string
	for _, o := range owners {
		names = append(names, o.processes...)
	}
	return m.Running(names...)
}

// of says who else owns a knob, "" if nobody does.
func (r running) of(name string, wishes []Wish) string {
	for _, o := range owners {
		if !slices.ContainsFunc(o.knobs, func(k string) bool {
			begin, all := strings.CutSuffix(k, "*")
			return k == name || all && strings.HasPrefix(name, begin)
		}) {
			continue
		}
		if slices.ContainsFunc(wishes, func(w Wish) bool { return w.Knob.Name == o.without }) {
			continue
		}
		for _, process := range o.processes {
			if pid := r[process]; pid > 0 {
				return fmt.Sprintf("%s (pid %d) owns it: %s", process, pid, o.does)
			}
		}
	}
	return ""
}
