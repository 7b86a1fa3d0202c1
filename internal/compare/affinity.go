package compare

import (
	"fmt"
	"slices"

	"github.com/venturi-net/venturi/internal/experiment"
	"github.com/venturi-net/venturi/internal/load"
	"github.com/venturi-net/venturi/internal/remote"
	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/result"
)

// affinity is where an end of the traffic runs.
type affinity struct {
	cpu   int   // all flows; -1: any core
	cores []int // the threads of --threads, in turn; none: all on cpu
}

var unpinned = affinity{cpu: -1}

// onCores is an affinity to some cores, the best first.
func onCores(cores []int) affinity {
	if len(cores) == 0 {
		return unpinned
	}
	return affinity{cpu: cores[0], cores: cores}
}

// ownCores orders the cores of a machine that has one end. The first takes most interrupts,
// and comes last.
func ownCores(allowed []int) []int {
	if len(allowed) < 2 {
		return allowed
	}
	return append(slices.Clone(allowed[1:]), allowed[0])
}

// dealCores gives both ends on one machine cores of their own, where there are two.
func dealCores(allowed []int) (client, server []int) {
	if len(allowed) < 2 {
		return allowed, allowed
	}
	for i, core := range allowed {
		if i%2 == 0 {
			client = append(client, core)
		} else {
			server = append(server, core)
		}
	}
	return client, server
}

// ChooseCPUs pins client and server to different cores where there are two: it is the most
// stable arrangement, and the one in which two machines differ least from two namespaces.
func ChooseCPUs(allowed []int) (client, server int) {
	c, s := dealCores(allowed)
	return onCores(c).cpu, onCores(s).cpu
}

// machineCores orders the cores of a machine that has one end: those that the user named, or else all.
func machineCores(m remote.Machine, allowed []int) ([]int, error) {
	if len(m.Cores) == 0 {
		return ownCores(allowed), nil
	}
	var named []int
	for _, core := range dedup(m.Cores) {
		if slices.Contains(allowed, core) {
			named = append(named, core)
		}
	}
	if len(named) > 0 {
		return named, nil
	}
	return nil, verr.New(verr.Usage, fmt.Sprintf("cannot use the cores %v of machine %s", m.Cores, m.Name),
		fmt.Sprintf("processes there may run on cores %v only", allowed), "choose from these, or leave the cores out")
}

// reserve takes a core out of an affinity, for a stream beside a load that has cores of its own.
func (a affinity) reserve() (rest affinity, cpu int) {
	cpu, ok := a.spare()
	if !ok {
		return a, a.cpu
	}
	at := slices.Index(a.cores, cpu)
	a.cores = slices.Delete(slices.Clone(a.cores), at, at+1)
	return a, cpu
}

// spare is the first core of an affinity that its flows are not on.
func (a affinity) spare() (cpu int, ok bool) {
	at := slices.IndexFunc(a.cores, func(core int) bool { return core != a.cpu })
	if at < 0 {
		return -1, false
	}
	return a.cores[at], true
}

// pinEnds gives both ends of a plan, and of what runs beside its load, their cores.
func pinEnds(plan *load.Plan, client, server affinity) {
	if plan.Background != nil {
		beside := *plan.Background
		own := beside.ClientCPU != plan.ClientCPU || beside.ServerCPU != plan.ServerCPU
		beside.ClientCPU, beside.ServerCPU = client.cpu, server.cpu
		if own {
			client, beside.ClientCPU = client.reserve()
			server, beside.ServerCPU = server.reserve()
		}
		plan.Background = &beside
	}
	plan.ClientCPU, plan.ServerCPU = client.cpu, server.cpu
	if plan.Threads > 1 {
		plan.ClientCPUs, plan.ServerCPUs = client.cores, server.cores
	}
}

// threadCPUs are the cores that the threads of each end are dealt out to: none of those that a
// stream beside the load has for itself.
func (s *Session) threadCPUs(p *result.Plan, other [2]int) (cpus [2][]int) {
	for i := range cpus {
		cores := s.machines[i].cores
		if ownBackground(p) {
			cores = slices.DeleteFunc(slices.Clone(cores), func(core int) bool {
				return core == other[i] || s.sharedCores && core == other[1-i]
			})
		}
		cpus[i] = cores
	}
	return cpus
}

// ownBackground tells whether a stream of the plan has cores of its own.
func ownBackground(p *result.Plan) bool {
	return slices.ContainsFunc(p.Cells, func(c result.Cell) bool {
		return c.Background != nil && c.Background.Cores == experiment.OtherCores
	})
}

// fewCores warns of machines on which threads share cores. The machines of a lab have those
// that the user gave them.
func (s *Session) fewCores(p *result.Plan, cpus [2][]int) (out []result.Warning) {
	threads := 0
	for _, c := range p.Cells {
		threads = max(threads, c.Threads)
	}
	if s.lab != nil {
		return nil
	}
	for i, m := range s.machines {
		cores := len(m.cores)
		switch {
		case m.cpu < 0:
			cores = len(m.agent.CPUs()) // its threads run on any
		case i < len(cpus):
			cores = len(cpus[i])
		}
		if cores >= threads {
			continue
		}
		shared := "one core"
		if cores > 1 {
			shared = fmt.Sprintf("%d cores", cores)
		}
		out = append(out, result.Warning{Code: "few-cores", Text: fmt.Sprintf("the %d threads of an end share %s of machine %s", threads, shared, m.name)})
	}
	return out
}
