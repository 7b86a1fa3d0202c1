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
