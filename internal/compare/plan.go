package compare

import (
	"github.com/venturi-net/venturi/internal/experiment"
	"github.com/venturi-net/venturi/internal/machine"
	"github.com/venturi-net/venturi/internal/path"
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
	paths, err := path.Arms(q.Paths, q.Names)
	if err != nil {
		return nil, err
	}
	arms := make([]result.Arm, 0, q.armCount())
	for i, a := range paths {
		arms = append(arms, result.Arm{Name: a.Name, Path: a.Driver.Name})
		if i == 0 && q.hasCopy() {
			arms = append(arms, result.Arm{Name: a.Name + copySuffix, Path: a.Driver.Name, Role: result.RoleCopy})
		}
	}
	arms[0].Role = result.RoleBaseline
	for _, t := range q.With {
		arms = append(arms, result.Arm{Name: t + ":" + arms[0].Name, Path: t})
	}
	return q.plan(arms)
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
	if len(q.With) > 0 {
		orElse(&p.Series, toolSeries)
		p.Rounds = 1
	}
	orElse(&p.Series, experiment.DefaultSeries)
	orElse(&p.Rounds, experiment.DefaultRounds)
	if err := experiment.Fit(p, q.Series > 0, q.Rounds > 0 || len(q.With) > 0); err != nil {
		return nil, err
	}
	if p.Precision > 0 {
		p.Looks = stats.Looks(p.Series)
	}
	cpus, err := machine.AllowedCPUs()
	if err != nil {
		return nil, err
	}
	p.ClientCPU, p.ServerCPU = chooseCPUs(cpus)
	return p, nil
}

// chooseCPUs pins the two ends to different cores where there are two: it is
// the most stable arrangement, and the one in which two machines differ least
// from two namespaces.
func chooseCPUs(allowed []int) (client, server int) {
	switch len(allowed) {
	case 0:
		return -1, -1
	case 1:
		return allowed[0], allowed[0]
	}
	return allowed[0], allowed[1]
}
