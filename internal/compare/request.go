// Package compare carries a comparison out: it refuses what makes no sense,
// takes the lock, raises the lab, hands the plan to experiment, and takes the
// lab down, whatever happened. What the command line and the checks of the
// instrument itself ask for is a [Request].
package compare

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/venturi-net/venturi/internal/experiment"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/load"
	"github.com/venturi-net/venturi/internal/path"
	"github.com/venturi-net/venturi/internal/tool"
	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/result"
)

// Request is what a user asks for. The zero value of a field asks for its
// default; [Request.Resolve] makes of it what can be carried out.
type Request struct {
	Paths       []string // as path.Arms takes them; the host network comes first, named or not
	Names       []string // of the arms, one a path; none, or an empty one: as its driver
	Hosts       int      // machines in the lab; 0: two
	Loads       []string
	Sizes       string                 // of all Loads; see ParseSizes; empty: each load's own
	Flows       []int                  // of all Loads; none: one
	Threads     int                    // that these are dealt out to, at each end; 0: see CellSpec
	Cells       []CellSpec             // in place of Loads, Sizes, Flows and Rate, where loads differ in these
	Rate        float64                // of all Loads, per second; 0: each load's own
	Background  *result.BackgroundLoad // what runs beside all Loads; nil: nothing
	Curve       []float64              // shares of Background's maximum at which all Loads are measured; see ParseCurve
	Response    int                    // bytes of the answers to requests, of all Loads; 0: as many as the requests
	Batch       int
	Wire        string        // see lab.ParseWire
	Cores       string        // of a lab's machines; see lab.ParseCores
	BesideTools []string      // real tools to run beside the first path
	LoadTools   []string      // real tools that run every load once more, on every path
	ToolTime    time.Duration // for which a real tool runs at a time; 0: toolSlice
	Series      int
	Rounds      int
	Slice       time.Duration
	Budget      time.Duration

	Precision float64 // stop early when every interval is narrower; 0: never
	// UntilDecided goes on until every comparison has a verdict, Budget at most.
	UntilDecided bool
	// StopWhenDecided is UntilDecided where the rest of the request allows it. The run then
	// takes no longer than it would without.
	StopWhenDecided bool
	Margin          float64
	Seed            uint64
	Services        int
	Spin            map[int]time.Duration // by index into Paths; see load.Arm
	NoCopy          bool                  // leave the noise floor out
	NoHost          bool                  // compare with the first path instead of the host network
	// Baseline is the path that all others are compared with: one of Paths, or its name or
	// driver, or one more path. Empty: the host network, or the first path where all are
	// there already and there are several.
	Baseline string

	assumed bool // Loads are the defaults: those that do not fit are left out

	Remote  Remote
	Cluster *Cluster // nil: none

	Out     string // folder for the record
	Wait    bool   // for another run that measures
	Command []string
}

// Bounds of a run. That of Services is lab.MaxServices.
const (
	MaxSeries = 1000
	MaxRounds = 10000 // a series
	MaxFlows  = 1024
)

// Defaults of a run beside a real tool, which takes whole seconds.
const (
	toolSlice  = 2 * time.Second
	toolSeries = 10
	mostEnds   = 8192 // flows times arms: each is a thread, of which a Go program has 10000, and has ports
)

// withDefaults fills in what the user left open.
func (q Request) withDefaults() Request {
	if len(q.Curve) > 0 {
		q = q.withCurve()
	}
	if len(q.Loads) == 0 && len(q.Cells) == 0 {
		q.Loads, q.assumed = load.Default, true
	}
	if len(q.Cells) == 0 {
		for _, l := range q.Loads {
			q.Cells = append(q.Cells, q.cellSpec(l).points(q.Curve)...)
		}
	}
	if len(q.Remote.Machines) > 0 {
		set(&q.Paths, []string{baseline})
	}
	set(&q.Paths, []string{baseline, "routed", "vxlan"})
	switch {
	case q.NoHost || q.Cluster != nil:
	case q.Baseline != "":
		q.Paths, q.Names = pathFirst(q.Paths, q.Names, q.Baseline)
	case !q.allFound():
		q.Paths, q.Names = pathFirst(q.Paths, q.Names, baseline)
	}
	q.Margin = cmp.Or(q.Margin, experiment.DefaultMargin)
	q.BesideTools = dedup(q.BesideTools)
	q = q.withTool()
	if q.Seed == 0 {
		q.Seed = uint64(time.Now().UnixNano())
	}
	return q
}

// dedup leaves each value where it comes first.
func dedup[T comparable](values []T) []T {
	var out []T
	for _, v := range values {
		if !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	return out
}

// hasCopy tells whether the first path gets a copy, for the noise floor. A real
// tool's run has none: its question is agreement, which needs no floor.
func (q Request) hasCopy() bool { return !q.NoCopy && len(q.BesideTools) == 0 }

func (q Request) armCount() int {
	n := len(q.Paths) + len(q.BesideTools)
	if q.hasCopy() {
		n++
	}
	return n
}

// baseline is the driver of the path that all others are compared with, and
// copySuffix is what the name of its copy ends with.
const (
	baseline   = "host"
	copySuffix = ".copy"
)

// allFound tells whether there are several paths, and all of them are there already.
func (q Request) allFound() bool {
	return len(q.Paths) > 1 && q.Remote.Dev == "" && !slices.ContainsFunc(q.Paths, func(spec string) bool {
		driver := driverOf(spec)
		return driver != "attach" && (driver != baseline || len(q.Remote.Machines) == 0)
	})
}

// foundHere tells whether all paths are there already on this host, the baseline too.
func (q Request) foundHere() bool {
	return !q.NoHost && len(q.Paths) > 1 && len(q.Remote.Machines) == 0 && len(q.BesideTools) == 0 &&
		!slices.ContainsFunc(q.Paths, func(spec string) bool { return driverOf(spec) != "attach" })
}

func driverOf(spec string) string {
	driver, _, _ := strings.Cut(spec, ":")
	return driver
}

// pathFirst makes a path the first one: the one that is so called, or has that driver, or a
// further one. Names stay with their paths.
func pathFirst(paths, names []string, wanted string) (p, n []string) {
	p, n = slices.Clone(paths), make([]string, len(paths))
	copy(n, names)
	at := slices.IndexFunc(p, func(spec string) bool { return spec == wanted })
	for i, spec := range p {
		called := n[i] == wanted || slices.Contains(strings.Split(strings.TrimPrefix(spec, "attach:"), ","), "name="+wanted) ||
			strings.HasPrefix(spec, "attach:"+wanted+",")
		if at < 0 && called {
			at = i
		}
	}
	if at < 0 {
		at = slices.IndexFunc(p, func(spec string) bool { return driverOf(spec) == wanted })
	}
	first, name := wanted, ""
	if at >= 0 {
		first, name = p[at], n[at]
		p, n = slices.Delete(p, at, at+1), slices.Delete(n, at, at+1)
	}
	return slices.Insert(p, 0, first), slices.Insert(n, 0, name)
}

func set[T any](field *[]T, value []T) {
	if len(*field) == 0 {
		*field = value
	}
}

// check refuses numbers that make no sense. Paths, loads and sizes have checks of their own.
func (q Request) check() error {
	bad := func(flag string, value any, why, do string) error {
		return verr.New(verr.Usage, fmt.Sprintf("cannot compare with --%s %v", flag, value), why, do)
	}
	for _, spec := range q.Cells {
		for _, f := range spec.Flows {
			if f*q.armCount() > mostEnds {
				return bad("flows", f, fmt.Sprintf("%d paths with as many flows each are more than %d threads", q.armCount(), mostEnds),
					"choose fewer flows or fewer paths")
			}
			if f < 1 || f > MaxFlows {
				return bad("flows", f, fmt.Sprintf("a run has 1 to %d flows", MaxFlows), "choose a number in that range")
			}
		}
	}
	switch {
	case q.Series < 0 || q.Series > MaxSeries:
		return bad("series", q.Series, fmt.Sprintf("a run has 1 to %d series", MaxSeries), "6 to 12 are usual")
	case q.Rounds < 0 || q.Rounds > MaxRounds:
		return bad("rounds", q.Rounds, fmt.Sprintf("a series has 1 to %d rounds", MaxRounds), "12 to 60 are usual")
	case q.Slice != 0 && (q.Slice < 5*time.Millisecond || q.Slice > time.Minute):
		return bad("slice", q.Slice, "a slice takes 5ms to 1m", "25ms suits latency, 50ms streams")
	case q.Budget < 0 || q.Budget > 24*time.Hour:
		return bad("budget", q.Budget, "a run takes at most 24h; 0s chooses the default", "60s to 300s are usual")
	case q.Margin <= 0 || q.Margin >= 0.5:
		return bad("margin", load.FormatShare(q.Margin), "the margin is a share between 0 and 50 %", "3% is the default")
	case q.UntilDecided && (q.Precision > 0 || q.Series > 0 || q.Rounds > 0):
		return verr.New(verr.Usage, "cannot combine --until-decided with a fixed plan",
			"--series, --rounds and --precision already define the end of a run", "leave these out, or give --until-decided=false")
	case q.UntilDecided && len(q.BesideTools) > 0:
		return verr.New(verr.Usage, "cannot combine --until-decided with --with",
			"runs with a real tool give no verdict on a path", "leave out --with or --until-decided")
	case q.Precision < 0 || q.Precision >= 0.5:
		return bad("precision", load.FormatShare(q.Precision), "the half-width of an interval is a share between 0 and 50 %", "1% is narrow, 3% is usual")
	case q.Services < 0 || q.Services > lab.MaxServices:
		return bad("services", q.Services, fmt.Sprintf("a lab carries 0 to %d Services", lab.MaxServices), "1000 is a usual cluster")
	case q.ToolTime != 0 && len(q.toolNames()) == 0:
		return bad("tool-time", q.ToolTime, "it is for real tools, and none is named", "add --tool iperf3 or --with qperf, or leave it out")
	case q.ToolTime != 0 && (q.ToolTime < tool.MinDuration || q.ToolTime > time.Minute || q.ToolTime%time.Second != 0):
		return bad("tool-time", q.ToolTime, "a real tool runs for whole seconds, 2s to 1m", "2s is the default, and 10s what write-ups use")
	case q.ToolTime != 0 && len(q.BesideTools) > 0 && q.Slice != 0:
		return bad("tool-time", q.ToolTime, "beside --with, --slice says for how long tools and loads run", "leave one of them out")
	case len(q.BesideTools) > 0 && q.Slice%time.Second != 0:
		return bad("slice", q.Slice, "a real tool runs for whole seconds", "use --slice 2s or more beside --with")
	}
	if err := q.checkCurve(); err != nil {
		return err
	}
	return q.checkTools()
}

// checkToolEnds: tools run on the machines, between the ends of the first path.
func (q Request) checkToolEnds() error {
	d, err := path.Lookup(driverOf(q.Paths[0]))
	if err != nil || !d.InVMs {
		return err
	}
	return verr.New(verr.Usage, fmt.Sprintf("cannot run %s beside %s", strings.Join(q.BesideTools, " and "), q.Paths[0]),
		"tools run on the machines, but this path ends in virtual machines", "put another path first, or leave --with out")
}

// checkTools refuses what a tool beside the loads cannot do as they do.
func (q Request) checkTools() error {
	if len(q.BesideTools) == 0 {
		return nil
	}
	if err := q.checkToolEnds(); err != nil {
		return err
	}
	cells, err := q.cells()
	if err != nil {
		return err
	}
	for _, name := range q.BesideTools {
		t, err := tool.Find(name)
		if err != nil {
			return err
		}
		refuse := func(flag, with, why string) error {
			return verr.New(verr.Usage, "cannot run "+name+" with "+with, why+", to compare like with like", "leave --"+flag+" out beside --with")
		}
		for _, c := range cells {
			if err := t.Carries(c.Load, c.Size); err != nil {
				return err
			}
			if c.Response > 0 {
				return refuse("response", "responses of another size", "it runs with equal sizes in both directions")
			}
			if l, err := load.Find(c.Load); err == nil && c.Rate != l.Rate {
				return refuse("rate", "a rate", "it runs at full speed")
			}
			if c.Flows > 1 {
				return refuse("flows", "several flows", "it runs with one flow")
			}
		}
	}
	return nil
}
