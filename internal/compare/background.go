package compare

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/venturi-net/venturi/internal/experiment"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/load"
	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/result"
)

// ParseBeside reads what is to run beside a load, LOAD, LOAD@RATE or LOAD@SHARE%, with the
// load's own size of messages, and on which cores; empty texts: nothing, on the same. Errors
// are for a user.
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
	if strings.HasSuffix(rate, "%") {
		b.Share, err = parseLoadShare(rate)
		b.Maximum = maximumOf(b)
		return b, err
	}
	if b.Rate, err = load.ParseRate(rate); err != nil {
		return nil, err
	}
	return b, l.CheckRate(b.Rate, b.Size, b.Flows)
}

// parseLoadShare reads a share of what a path carries: 50%, or 50.
func parseLoadShare(text string) (float64, error) {
	percent, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(text), "%")), 64)
	if err != nil || !(percent > 0 && percent <= 100) {
		return 0, verr.New(verr.Usage, fmt.Sprintf("cannot run a stream at %q of its maximum rate", text),
			"a share is above 0 and at most 100 %", "write it as udp_bw@50%")
	}
	return percent / 100, nil
}

// maximumOf names the cell that measures what each path carries of the stream.
func maximumOf(b *result.BackgroundLoad) string {
	return load.CellName(result.Cell{Load: b.Load, Size: b.Size, Flows: b.Flows})
}

// maximumSpec asks for that cell.
func maximumSpec(b *result.BackgroundLoad) CellSpec {
	return CellSpec{Load: b.Load, Sizes: strconv.Itoa(b.Size), Flows: []int{b.Flows}}
}

// ParseCurve reads the points of a curve of latency against load, in percent of the
// background's maximum: 0,25,50,75,90. Errors are for a user.
func ParseCurve(points []string) ([]float64, error) {
	var shares []float64
	for _, text := range points {
		share := 0.0
		if zero := strings.TrimSuffix(strings.TrimSpace(text), "%"); zero != "0" {
			var err error
			if share, err = parseLoadShare(text); err != nil {
				return nil, verr.New(verr.Usage, fmt.Sprintf("cannot draw a curve through %q", text),
					"a point is a share of the maximum, from 0 to 100 %", "write the points as --curve 0,25,50,75,90")
			}
		}
		shares = append(shares, share)
	}
	slices.Sort(shares)
	shares = slices.Compact(shares)
	if len(points) > 0 && len(shares) < 2 {
		return nil, verr.New(verr.Usage, "cannot draw a curve through one point", "a curve has two points or more",
			"write the points as --curve 0,25,50,75,90, or give --beside a share: udp_bw@50%")
	}
	return shares, nil
}

// withCurve makes of each cell those of its curve, and fills in what a curve is drawn of
// where the user has not said: probe beside udp_bw.
func (q Request) withCurve() Request {
	if len(q.Loads) == 0 {
		q.Loads = []string{"probe"}
	}
	if q.Background == nil {
		q.Background, _ = ParseBeside("udp_bw", experiment.SameCores) // it has no error
	}
	return q
}

// points are the specs of a curve's cells; the spec itself where there is none.
func (s CellSpec) points(shares []float64) []CellSpec {
	if len(shares) == 0 {
		return []CellSpec{s}
	}
	var out []CellSpec
	for _, share := range shares {
		point := s
		point.Curve = maximumOf(s.Background)
		if s.Background.Cores == experiment.OtherCores {
			point.Curve += " on other cores"
		}
		point.Background = nil
		if share > 0 {
			b := *s.Background
			b.Share, b.Maximum = share, maximumOf(&b)
			point.Background = &b
		}
		out = append(out, point)
	}
	return out
}

// checkCurve refuses a curve whose stream has a rate of its own.
func (q Request) checkCurve() error {
	b := q.Background
	if len(q.Curve) == 0 || b == nil || b.Rate == 0 && b.Share == 0 {
		return nil
	}
	return verr.New(verr.Usage, "cannot draw a curve beside a stream with a rate", "the points of --curve are its rates",
		"leave the rate out: --beside "+b.Load)
}

// checkBeside refuses loads that nothing can run beside, and cores that are not there.
func (q Request) checkBeside(l load.Load, b *result.BackgroundLoad) error {
	if b == nil {
		return nil
	}
	if err := l.CheckBeside(); err != nil {
		return err
	}
	if len(q.BesideTools) > 0 {
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
	if len(q.Remote.Machines) > 2 {
		return verr.New(verr.Usage, "cannot compare with --probe-core other", "it needs a path between two machines", "choose --probe-core same, or name two machines")
	}
	if q.onOtherMachines() || q.Cores != "" {
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
	if !ownBackground(p) {
		return other, nil
	}
	if s.inCluster && s.machines[0].cpu >= 0 {
		if err := s.checkNodeCores(); err != nil {
			return other, err
		}
	}
	candidates := [2][]int{}
	if s.sharedCores {
		allowed, err := s.sharedCPUs()
		if err != nil {
			return other, err
		}
		candidates[0], candidates[1] = dealCores(allowed)
	} else {
		for i, m := range s.machines[:2] {
			candidates[i] = slices.Concat(m.cores, m.agent.CPUs()) // the user's choice first
		}
	}
	for i, m := range s.machines[:2] {
		var ok bool
		if other[i], ok = (affinity{m.cpu, candidates[i]}).spare(); !ok {
			return other, verr.New(verr.Usage, "cannot compare with --probe-core other",
				"machine "+m.name+" has a core for the load, but none for the background stream", "choose --probe-core same")
		}
	}
	return other, nil
}

// sharedCPUs are the cores that both ends share: those of this machine, or of the one that has both nodes.
func (s *Session) sharedCPUs() ([]int, error) {
	if s.inCluster {
		return s.machines[0].agent.CPUs(), nil
	}
	return host.AllowedCPUs()
}

// checkNodeCores refuses a stream with cores of its own on a node that has both ends, and not two
// cores for each.
func (s *Session) checkNodeCores() error {
	both := s.sharedCores || slices.Contains(slices.Collect(maps.Values(s.servers.agentOf)), 0)
	if n := len(s.machines[0].agent.CPUs()); both && n < 4 {
		return verr.New(verr.Usage, "cannot compare with --probe-core other",
			fmt.Sprintf("the load and the background stream need two cores each on node %s, which has %d", s.machines[0].name, n),
			"choose --probe-core same, or paths between two nodes")
	}
	return nil
}
