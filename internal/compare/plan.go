package compare

import (
	"cmp"
	"time"

	"github.com/venturi-net/venturi/internal/experiment"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/path"
	"github.com/venturi-net/venturi/internal/stats"
	"github.com/venturi-net/venturi/result"
)

// withRoles makes the arms of a run from its paths: the first is the baseline,
// behind it comes its copy, and at the end the tools, which use its ends.
func (q Request) withRoles(paths []path.Arm) (arms []result.Arm, of []int) {
	add := func(path int, arm result.Arm) { arms, of = append(arms, arm), append(of, path) }
	for i, p := range paths {
		arm := result.Arm{Name: p.Name, Path: p.Driver.Name}
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
	for _, t := range q.BesideTools {
		add(0, result.Arm{Name: t + ":" + paths[0].Name, Path: t})
	}
	return arms, of
}

// A comparison in a cluster is to give its verdict in less than 90 seconds, unless it is told for how
// long to measure, or measures much. On two cores, 9 seconds go to start and remove its pods, or 12
// where much else runs.
const (
	clusterTime  = 70 * time.Second // that it measures, as foretold
	clusterLimit = 77 * time.Second // within which it ends, where all is slower than foretold
)

// plan lays the run out, but for what the testbed tells. of says of which path
// each arm is.
func (q Request) plan(paths []path.Arm) (p result.Plan, of []int, err error) {
	p, of, err = q.planAsAsked(paths)
	if err != nil || q.hasFixedPlan() {
		return p, of, err
	}
	if q.Cluster != nil && q.Budget == 0 {
		experiment.Shorten(&p, clusterTime, Slow())
		p.Budget = clusterLimit
		if experiment.Duration(&p, Slow()) > clusterTime {
			p.Budget = experiment.Duration(&p, Slow()) * 5 / 4
		}
	}
	if !q.StopWhenDecided {
		return p, of, nil
	}
	sooner := q
	sooner.UntilDecided = true
	sooner.Budget = cmp.Or(sooner.Budget, experiment.Duration(&p, Slow()))
	if decided, _, err := sooner.planAsAsked(paths); err == nil {
		p = decided // else the budget is too small for it
	}
	return p, of, nil
}

// hasFixedPlan tells whether the request says by itself when the run ends.
func (q Request) hasFixedPlan() bool {
	return q.UntilDecided || q.Series > 0 || q.Rounds > 0 || q.Precision > 0 || len(q.BesideTools) > 0
}

func (q Request) planAsAsked(paths []path.Arm) (p result.Plan, of []int, err error) {
	cells, err := q.cells()
	if err != nil {
		return p, nil, err
	}
	arms, of := q.withRoles(paths)
	p = result.Plan{
		Arms: arms, Cells: cells, Seed: q.Seed, Margin: q.Margin, Precision: q.Precision,
		Confidence: experiment.DefaultConfidence, Budget: q.Budget, UntilDecided: q.UntilDecided, Services: q.Services,
		Series: q.Series, Rounds: q.Rounds, SharedCores: !q.onOtherMachines(),
	}
	if len(q.BesideTools) > 0 {
		p.Series = cmp.Or(p.Series, toolSeries)
		p.Rounds = 1
	}
	if q.UntilDecided {
		p.Budget = cmp.Or(p.Budget, experiment.DefaultBudget)
	} else {
		p.Series = cmp.Or(p.Series, experiment.DefaultSeries)
		p.Rounds = cmp.Or(p.Rounds, experiment.DefaultRounds)
	}
	if err := experiment.Fit(&p, Slow(), q.Series > 0, q.Rounds > 0 || len(q.BesideTools) > 0); err != nil {
		return p, nil, err
	}
	if p.Precision > 0 {
		p.Looks = stats.Looks(p.Series)
	}
	p.ClientCPU, p.ServerCPU, err = q.pinning()
	return p, of, err
}

// onOtherMachines tells that the ends are on other machines than this one.
func (q Request) onOtherMachines() bool { return len(q.Remote.Machines) > 0 || q.Cluster != nil }

// pinning chooses the cores of client and server. Those of real machines are
// chosen when they are reached.
func (q Request) pinning() (client, server int, err error) {
	if q.onOtherMachines() {
		return -1, -1, nil
	}
	cpus, err := host.AllowedCPUs()
	if err != nil {
		return -1, -1, err
	}
	client, server = ChooseCPUs(cpus)
	return client, server, nil
}

// Slow is by how much longer this machine takes than a real one for what is
// beside the timed parts of a run: 1, or more when its CPU is emulated.
func Slow() int {
	if host.Emulated() {
		return experiment.EmulationSlowdown
	}
	return 1
}
