package mesh

import (
	"cmp"
	"math"
	"slices"

	"github.com/venturi-net/venturi/internal/load"
	"github.com/venturi-net/venturi/internal/stats"
	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/result"
)

// ReportVersion is that of the JSON form of a report.
const ReportVersion = 1

// Survey is what was found. Ratios say how many times slower: 1.5 is half as long again, or two
// thirds of the rate.
type Survey struct {
	Version int          `json:"version"`
	Command []string     `json:"command"`
	Network string       `json:"network"` // between what was measured: "pods", "nodes", "machines"
	Nodes   []MemberView `json:"nodes"`
	Passes  int          `json:"passes"`
	Rounds  int          `json:"rounds"`
	TookNs  int64        `json:"took_ns"`
	Margin  float64      `json:"margin"`
	Error   float64      `json:"error_rate"`
	Loads   []LoadReport `json:"loads"`
	Lost    []LostNode   `json:"lost,omitempty"`
	Broken  []BrokenPair `json:"broken,omitempty"`
}

// MemberView is a node that was measured.
type MemberView struct {
	Name string `json:"name"`
	Zone string `json:"zone,omitempty"`
}

// LostNode is a node of which nothing, or not all, is known.
type LostNode struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

// BrokenPair is two nodes between which nothing passed.
type BrokenPair struct {
	From   string `json:"from"`
	To     string `json:"to"`
	Load   string `json:"load"`
	Reason string `json:"reason"`
}

// LoadReport is what one load gave.
type LoadReport struct {
	Load   string        `json:"load"`
	Metric result.Metric `json:"metric"`
	Median *float64      `json:"median"` // of the pairs; null: none was measured
	Nodes  []NodeEffect  `json:"nodes"`
	Pairs  []PairEffect  `json:"pairs"`
	// SlowNode and SlowPair are the least ratios that would have been named; null: nothing could
	// have been.
	SlowNode *float64 `json:"least_slow_node"`
	SlowPair *float64 `json:"least_slow_pair"`
}

// NodeEffect is by how much all pairs of a node are slower than those of the others.
type NodeEffect struct {
	Node  int     `json:"node"` // its number among the report's
	Ratio float64 `json:"ratio"`
	P     float64 `json:"p"` // adjusted for all tests of the report
	Slow  bool    `json:"slow"`
}

// PairEffect is a pair of nodes, from the end that sends to the other in the slower direction.
type PairEffect struct {
	From     int     `json:"from"`
	To       int     `json:"to"`
	Value    float64 `json:"value"`    // median over the passes, base units
	Expected float64 `json:"expected"` // of its nodes
	Ratio    float64 `json:"ratio"`    // slower than expected
	P        float64 `json:"p"`
	Slow     bool    `json:"slow"`
}

// Limits of the permutations: for a p-value that is small enough for three loads, and what a
// machine does in seconds.
const (
	leastResamples = 159
	mostResamples  = 999
	resampleBudget = 200_000_000 // values
)

// Report says what is slow.
func (s *Samples) Report(margin float64, seed uint64) *Survey {
	r := &Survey{Version: ReportVersion, Passes: s.Passes, Rounds: s.Rounds, TookNs: s.Took.Nanoseconds(), Margin: margin, Error: ErrorRate}
	for i, n := range s.Nodes {
		r.Nodes = append(r.Nodes, MemberView{n.Name, n.Zone})
		if why := s.lost[i]; why != nil {
			r.Lost = append(r.Lost, LostNode{n.Name, why.Error()})
		}
	}
	pairs := stats.PairCount(len(s.Nodes))
	test := stats.MeshTest{Margin: math.Log1p(margin), Error: ErrorRate / float64(len(s.Loads)), Seed: seed,
		Resamples: min(mostResamples, max(leastResamples, resampleBudget/max(1, pairs*s.Passes)))}
	for l, of := range s.Loads {
		r.Loads = append(r.Loads, s.loadReport(l, of, test))
	}
	s.addBroken(r)
	return r
}

// sign makes a logarithm of a figure larger where that is slower.
func sign(m result.Metric) float64 {
	if m.LowerIsBetter() {
		return 1
	}
	return -1
}

// loadReport judges one load.
func (s *Samples) loadReport(l int, of load.Load, test stats.MeshTest) LoadReport {
	n, toSlow := len(s.Nodes), sign(of.Metric)
	mesh := stats.Mesh{Nodes: n, Groups: s.groups()}
	for _, pass := range s.values[l] {
		slower := make([]float64, 0, stats.PairCount(n))
		for a := range n {
			for b := a + 1; b < n; b++ {
				slower = append(slower, slowerOf(toSlow*math.Log(pass[a*n+b]), toSlow*math.Log(pass[b*n+a])))
			}
		}
		mesh.Passes = append(mesh.Passes, slower)
	}
	e := mesh.Effects(test)
	ratio := func(excess float64) *float64 {
		if math.IsNaN(excess) {
			return nil
		}
		return new(math.Exp(excess))
	}
	out := LoadReport{Load: of.Name, Metric: of.Metric, SlowNode: ratio(e.SlowNode), SlowPair: ratio(e.SlowPair), Nodes: []NodeEffect{}, Pairs: []PairEffect{}}
	for a, x := range e.Nodes {
		if n >= stats.MinMeshNodes && !math.IsNaN(x.Excess) {
			out.Nodes = append(out.Nodes, NodeEffect{a, math.Exp(x.Excess), adjusted(x.P, len(s.Loads)), x.Slow})
		}
	}
	var values []float64
	for a := range n {
		for b := a + 1; b < n; b++ {
			x := e.Pairs[stats.PairIndex(n, a, b)]
			if math.IsNaN(x.Excess) {
				continue
			}
			p := PairEffect{From: a, To: b, Ratio: math.Exp(x.Excess), P: adjusted(x.P, len(s.Loads)), Slow: x.Slow}
			there, back := s.median(l, a, b), s.median(l, b, a)
			switch {
			case directions(of) == 1:
				p.Value = s.medianOfBoth(l, a, b)
			case math.IsNaN(there) || toSlow*back > toSlow*there:
				p.From, p.To, p.Value = b, a, back
			default:
				p.Value = there
			}
			p.Expected = p.Value / math.Pow(p.Ratio, toSlow)
			out.Pairs, values = append(out.Pairs, p), append(values, p.Value)
		}
	}
	if len(values) > 0 {
		out.Median = new(stats.Median(values))
	}
	return out
}

// adjusted is a p-value of one of several loads, by Bonferroni.
func adjusted(p float64, loads int) float64 { return min(1, p*float64(loads)) }

// slowerOf is the larger of two values, of which one or both may be missing.
func slowerOf(a, b float64) float64 {
	if math.IsNaN(a) {
		return b
	}
	if math.IsNaN(b) {
		return a
	}
	return max(a, b)
}

// median is that of the passes in one direction.
func (s *Samples) median(l, from, to int) float64 {
	var values []float64
	for _, pass := range s.values[l] {
		if v := pass[from*len(s.Nodes)+to]; !math.IsNaN(v) {
			values = append(values, v)
		}
	}
	return stats.Median(values)
}

// medianOfBoth is that of a load which each pass measures in one direction, either of which stands for
// the pair.
func (s *Samples) medianOfBoth(l, a, b int) float64 {
	var values []float64
	for _, pass := range s.values[l] {
		for _, v := range []float64{pass[a*len(s.Nodes)+b], pass[b*len(s.Nodes)+a]} {
			if !math.IsNaN(v) {
				values = append(values, v)
			}
		}
	}
	return stats.Median(values)
}

// groups are those of pairs whose level is expected to be the same: within a zone, and between two.
func (s *Samples) groups() (groups []int) {
	for a := range s.Nodes {
		for b := a + 1; b < len(s.Nodes); b++ {
			group := 0
			if s.Nodes[a].Zone != s.Nodes[b].Zone {
				group = 1
			}
			groups = append(groups, group)
		}
	}
	return groups
}

// addBroken adds the pairs between which nothing passed, and in their place the nodes of which no
// pair was measured.
func (s *Samples) addBroken(r *Survey) {
	measured, reasons := map[int]bool{}, map[int]string{}
	for _, l := range r.Loads {
		for _, p := range l.Pairs {
			measured[p.From], measured[p.To] = true, true
		}
	}
	for l, failures := range s.failures {
		var pairs []nodePair
		for p := range failures {
			pairs = append(pairs, p)
		}
		slices.SortFunc(pairs, func(a, b nodePair) int { return cmp.Or(a.a-b.a, a.b-b.b) })
		for _, p := range pairs {
			if s.lost[p.a] != nil || s.lost[p.b] != nil {
				continue
			}
			why := failures[p].reason
			for _, node := range []int{p.a, p.b} {
				if !measured[node] && reasons[node] == "" {
					reasons[node] = why
				}
			}
			never := math.IsNaN(s.median(l, p.a, p.b)) && (failures[p].times >= hopeless || math.IsNaN(s.median(l, p.b, p.a)))
			if measured[p.a] && measured[p.b] && never {
				r.Broken = append(r.Broken, BrokenPair{s.Nodes[p.a].Name, s.Nodes[p.b].Name, s.Loads[l].Name, why})
			}
		}
	}
	for i, n := range s.Nodes {
		if why := reasons[i]; why != "" && s.lost[i] == nil {
			r.Lost = append(r.Lost, LostNode{n.Name, "no traffic between it and any other node: " + why})
		}
	}
}

// SlowNodes are those of a load, the slowest first.
func (l LoadReport) SlowNodes() (slow []NodeEffect) {
	for _, n := range l.Nodes {
		if n.Slow {
			slow = append(slow, n)
		}
	}
	slices.SortStableFunc(slow, func(a, b NodeEffect) int { return cmp.Compare(b.Ratio, a.Ratio) })
	return slow
}

// SlowPairs are those of a load, the slowest first.
func (l LoadReport) SlowPairs() (slow []PairEffect) {
	for _, p := range l.Pairs {
		if p.Slow {
			slow = append(slow, p)
		}
	}
	slices.SortStableFunc(slow, func(a, b PairEffect) int { return cmp.Compare(b.Ratio, a.Ratio) })
	return slow
}

// ExitCode tells a script whether something is slow or broken, or else whether nodes are missing.
func (r *Survey) ExitCode() int {
	for _, l := range r.Loads {
		if len(l.SlowNodes()) > 0 || len(l.SlowPairs()) > 0 {
			return verr.Findings
		}
	}
	switch {
	case len(r.Broken) > 0:
		return verr.Findings
	case len(r.Lost) > 0:
		return verr.Partial
	}
	return verr.OK
}
