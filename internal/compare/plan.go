package compare

import (
	"github.com/venturi-net/venturi/internal/experiment"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/stats"
	"github.com/venturi-net/venturi/result"
)

// Plan lays the run out as it would be carried out, but for what only a lab can
// tell: the arms have names and paths, and no addresses. Of the machine it asks
// which cores there are, and what a path leaves for it to choose (datapath=auto);
// whether it can carry the plan out it does not ask.
func (q Request) Plan() (*result.Plan, error) {
	q = q.withDefaults()
	if err := q.check(); err != nil {
		return nil, err
	}
	paths, err := q.pathArms()
	if err != nil {
		return nil, err
	}
	arms := make([]result.Arm, len(paths))
	for i, a := range paths {
		arms[i] = result.Arm{Name: a.Name, Path: a.Driver.Name}
	}
	arms, _ = q.withRoles(arms)
	return q.plan(arms)
}

// withRoles makes the arms of a run from its paths: the first is the baseline,
// behind it comes its copy, and at the end the tools, which use its ends. of
// says of which path each arm is.
func (q Request) withRoles(paths []result.Arm) (arms []result.Arm, of []int) {
	add := func(path int, arm result.Arm) { arms, of = append(arms, arm), append(of, path) }
	for i, arm := range paths {
		if i > 0 {
			add(i, arm)
			continue
		}
		arm.Role = result.RoleBaseline
		add(i, arm)
		if q.hasCopy() {
			arm.Name, arm.Role = arm.Name+copySuffix, result.RoleCopy
			add(i, arm)
		}
	}
	for _, t := range q.Tools {
		arm := paths[0]
		arm.Name, arm.Path = t+":"+arm.Name, t
		add(0, arm)
	}
	return arms, of
}

// plan lays the run out, but for the arms' addresses, which the lab gives.
func (q Request) plan(arms []result.Arm) (*result.Plan, error) {
	cells, err := q.cells()
	if err != nil {
		return nil, err
	}
	p := &result.Plan{
		Arms: arms, Cells: cells, Seed: q.Seed, Margin: q.Margin, Precision: q.Precision,
		Confidence: experiment.DefaultConfidence, Budget: q.Budget, Services: q.Services,
		Series: q.Series, Rounds: q.Rounds, SharedCores: true,
	}
	if len(q.Tools) > 0 {
		orElse(&p.Series, toolSeries)
		p.Rounds = 1
	}
	orElse(&p.Series, experiment.DefaultSeries)
	orElse(&p.Rounds, experiment.DefaultRounds)
	if err := experiment.Fit(p, Slow(), q.Series > 0, q.Rounds > 0 || len(q.Tools) > 0); err != nil {
		return nil, err
	}
	if p.Precision > 0 {
		p.Looks = stats.Looks(p.Series)
	}
	cpus, err := host.AllowedCPUs()
	if err != nil {
		return nil, err
	}
	p.ClientCPU, p.ServerCPU = ChooseCPUs(cpus)
	return p, nil
}

// Slow is by how much longer this machine takes than a real one for what is
// beside the timed parts of a run: 1, or more when its CPU is emulated.
func Slow() int {
	if host.Emulated() {
		return experiment.EmulationSlowdown
	}
	return 1
}

// ChooseCPUs pins client and server to different cores where there are two: it is
// the most stable arrangement, and the one in which two machines differ least
// from two namespaces.
func ChooseCPUs(allowed []int) (client, server int) {
	switch len(allowed) {
	case 0:
		return -1, -1
	case 1:
		return allowed[0], allowed[0]
	}
	return allowed[0], allowed[1]
}
