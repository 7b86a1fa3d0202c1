package compare

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/venturi-net/venturi/internal/experiment"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/load"
	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/result"
)

// ParseBeside reads what is to run beside a load, LOAD or LOAD@RATE, with the load's own
// size of messages, and on which cores; empty texts: nothing, on the same. Errors are for
// a user.
func ParseBeside(text, cores string) (*result.BackgroundLoad, error) {
	switch {
	case text == "" && cores == "":
		return nil, nil
	case text == "":
		return nil, verr.New(verr.Usage, "cannot compare with --probe-core alone", "it needs --beside",
			"add a background stream, such as --beside udp_bw@100k")
	}
	name, rate, limited := strings.Cut(text, "@")
	l, err := load.Find(name)
	if err == nil {
		err = l.CheckBackground()
	}
	if err != nil {
		return nil, err
	}
	b := &result.BackgroundLoad{Load: l.Name, Size: l.Size, Flows: 1, Cores: cmp.Or(cores, experiment.SameCores)}
	if !limited {
		return b, nil
	}
	if b.Rate, err = load.ParseRate(rate); err != nil {
		return nil, err
	}
	return b, l.CheckRate(b.Rate, b.Size, b.Flows)
}

// checkBeside refuses loads that nothing can run beside, and cores that are not there.
func (q Request) checkBeside(l load.Load, b *result.BackgroundLoad) error {
	if b == nil {
		return nil
	}
	if err := l.CheckBeside(); err != nil {
		return err
	}
	if len(q.Tools) > 0 {
		return verr.New(verr.Usage, "cannot run --beside together with --with", "a real tool runs alone, to compare like with like",
			"leave one of them out")
	}
	switch b.Cores {
	case experiment.SameCores:
		return nil
	case experiment.OtherCores:
	default:
		return verr.New(verr.Usage, fmt.Sprintf("cannot compare with --probe-core %s", b.Cores), "--probe-core takes same or other",
			"choose same or other")
	}
	if len(q.Remote.Machines) > 0 {
		return nil // their agents know
	}
	cpus, err := host.AllowedCPUs()
	if err != nil {
		return err
	}
	if len(cpus) < 4 {
		return verr.New(verr.Usage, "cannot compare with --probe-core other",
			fmt.Sprintf("the load and the background stream need two cores each, and this run has %d", len(cpus)),
			"choose --probe-core same, or use a machine with more cores")
	}
	return nil
}

// otherCPUs are cores of both machines that no end of a load is pinned to. Those of the
// load stand in where no stream of the plan asks for others. Error: one does, and a machine
// has no other.
func (s *Session) otherCPUs(p *result.Plan) (other [2]int, err error) {
	other = [2]int{s.machines[0].cpu, s.machines[1].cpu}
	asked := slices.ContainsFunc(p.Cells, func(c result.Cell) bool {
		return c.Background != nil && c.Background.Cores == experiment.OtherCores
	})
	if !asked {
		return other, nil
	}
	if s.sharedCores { // checkBeside has seen that there are four
		allowed, err := host.AllowedCPUs()
		if err == nil && len(allowed) >= 4 {
			other = [2]int{allowed[2], allowed[3]}
		}
		return other, err
	}
	for i, m := range s.machines {
		at := slices.IndexFunc(m.agent.CPUs(), func(cpu int) bool { return cpu != m.cpu })
		if at < 0 {
			return other, verr.New(verr.Usage, "cannot compare with --probe-core other",
				"machine "+m.name+" has one core for the load, and none for the background stream", "choose --probe-core same")
		}
		other[i] = m.agent.CPUs()[at]
	}
	return other, nil
}
