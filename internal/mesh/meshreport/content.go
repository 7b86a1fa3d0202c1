package meshreport

import (
	"fmt"
	"strings"
	"time"

	"github.com/venturi-net/venturi/internal/mesh"
	"github.com/venturi-net/venturi/internal/report/unit"
	"github.com/venturi-net/venturi/internal/report/view"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/internal/stats"
)

// mostRows is how many rows a list of pairs has.
const mostRows = 20

// content is a report as text. Its title is the answer.
func content(r *mesh.Survey) *view.Content {
	v := &view.Content{Title: answer(r), Facts: facts(r)}
	for _, b := range []view.Block{slowNodes(r), slowPairs(r), missingNodes(r), brokenBlock(r), loads(r)} {
		if len(b.Rows) > 0 {
			v.Blocks = append(v.Blocks, b)
		}
	}
	if why := undecided(r); why != "" {
		v.Remarks = append(v.Remarks, why)
	}
	return v
}

// answer says what is slow, in one sentence.
func answer(r *mesh.Survey) string {
	nodes, pairs := map[int]bool{}, map[[2]int]bool{}
	for _, l := range r.Loads {
		for _, n := range l.SlowNodes() {
			nodes[n.Node] = true
		}
		for _, p := range l.SlowPairs() {
			pairs[[2]int{min(p.From, p.To), max(p.From, p.To)}] = true
		}
	}
	var found []string
	if len(nodes) > 0 {
		found = append(found, view.Plural(len(nodes), "slow node", "slow nodes"))
	}
	if len(pairs) > 0 {
		found = append(found, view.Plural(len(pairs), "slow pair", "slow pairs"))
	}
	if len(r.Broken) > 0 {
		found = append(found, view.Plural(len(brokenPairs(r)), "pair without traffic", "pairs without traffic"))
	}
	switch {
	case len(found) > 0:
	case undecided(r) != "":
		found = []string{"measured, not judged"}
	default:
		found = []string{"no slow node and no slow pair"}
	}
	text := fmt.Sprintf("%s: %s", view.Plural(len(r.Nodes), "node", "nodes"), strings.Join(found, ", "))
	if len(r.Lost) > 0 {
		text += fmt.Sprintf("; %s not measured", view.Plural(len(r.Lost), "node", "nodes"))
	}
	return text
}

// undecided is why nothing could have been named; empty: it could.
func undecided(r *mesh.Survey) string {
	for _, l := range r.Loads {
		if l.SlowNode != nil || l.SlowPair != nil {
			return ""
		}
	}
	if len(r.Nodes) < stats.MinMeshNodes {
		return fmt.Sprintf("It takes %d nodes to tell a slow node from a slow pair.", stats.MinMeshNodes)
	}
	return fmt.Sprintf("It takes %d passes to tell a slow pair from noise.", stats.MinMeshPasses)
}

func facts(r *mesh.Survey) [][2]string {
	return [][2]string{
		{"measured", fmt.Sprintf("between %s, %s in %s, %s", sanitize.Text(r.Network), view.Plural(r.Passes, "pass", "passes"), view.Plural(r.Rounds, "round", "rounds"), time.Duration(r.TookNs).Round(time.Second))},
		{"slow", fmt.Sprintf("more than %s slower than the rest leads to expect; anything is named wrongly in at most %s of all runs", unit.Percent(r.Margin), unit.Percent(r.Error))},
	}
}

func name(r *mesh.Survey, node int) string {
	n := r.Nodes[node]
	if n.Zone == "" {
		return sanitize.Text(n.Name)
	}
	return sanitize.Text(n.Name + " (" + n.Zone + ")")
}

// times writes by how much something is slower: 1.50x.
func times(ratio float64) string { return fmt.Sprintf("%.2fx", ratio) }

func slowNodes(r *mesh.Survey) view.Block {
	b := view.Block{Name: "Slow nodes", Caption: "all pairs of the node are slower",
		Columns: []view.Column{view.Label("node"), view.Label("load"), view.Number("slower", 0), view.Number("p", 0)}}
	for _, l := range r.Loads {
		for _, n := range l.SlowNodes() {
			b.Rows = append(b.Rows, []string{name(r, n.Node), sanitize.Text(l.Load), times(n.Ratio), chance(n.P)})
		}
	}
	return b
}

// chance writes a p-value.
func chance(p float64) string { return fmt.Sprintf("%.3f", p) }

func slowPairs(r *mesh.Survey) view.Block {
	b := view.Block{Name: "Slow pairs", Caption: "slower than both nodes are to the others",
		Columns: []view.Column{view.Label("from"), view.Label("to"), view.Label("load"), view.Number("measured", 0), view.Number("expected", 0), view.Number("slower", 0), view.Number("p", 0)}}
	for _, l := range r.Loads {
		slow := l.SlowPairs()
		for i, p := range slow {
			if i == mostRows {
				b.Footer += fmt.Sprintf("%s: %d more, in the JSON report. ", sanitize.Text(l.Load), len(slow)-mostRows)
				break
			}
			b.Rows = append(b.Rows, []string{name(r, p.From), name(r, p.To), sanitize.Text(l.Load), unit.Value(l.Metric, p.Value), unit.Value(l.Metric, p.Expected), times(p.Ratio), chance(p.P)})
		}
	}
	return b
}

func missingNodes(r *mesh.Survey) view.Block {
	b := view.Block{Name: "Nodes that were not measured to the end", Columns: []view.Column{view.Label("node"), view.Label("why")}}
	for _, n := range r.Lost {
		b.Rows = append(b.Rows, []string{sanitize.Text(n.Name), sanitize.Text(n.Reason)})
	}
	return b
}

// brokenPairs are the pairs between which some load does not pass, each once.
func brokenPairs(r *mesh.Survey) map[[2]string]bool {
	pairs := map[[2]string]bool{}
	for _, p := range r.Broken {
		pairs[[2]string{min(p.From, p.To), max(p.From, p.To)}] = true
	}
	return pairs
}

func brokenBlock(r *mesh.Survey) view.Block {
	b := view.Block{Name: "Pairs without traffic", Columns: []view.Column{view.Label("from"), view.Label("to"), view.Label("load"), view.Label("why")}}
	for i, p := range r.Broken {
		if i == mostRows {
			b.Footer = fmt.Sprintf("%d more, in the JSON report.", len(r.Broken)-mostRows)
			break
		}
		b.Rows = append(b.Rows, []string{sanitize.Text(p.From), sanitize.Text(p.To), sanitize.Text(p.Load), sanitize.Text(p.Reason)})
	}
	return b
}

func loads(r *mesh.Survey) view.Block {
	b := view.Block{Name: "All pairs", Caption: "a slow one would have been named from so many times slower on",
		Columns: []view.Column{view.Label("load"), view.Number("pairs", 0), view.Number("median", 0), view.Number("fastest", 0), view.Number("slowest", 0), view.Number("slow node from", 0), view.Number("slow pair from", 0)}}
	for _, l := range r.Loads {
		if l.Median == nil {
			continue
		}
		fastest, slowest := l.Pairs[0].Value, l.Pairs[0].Value
		for _, p := range l.Pairs {
			fastest, slowest = min(fastest, p.Value), max(slowest, p.Value)
		}
		if !l.Metric.LowerIsBetter() {
			fastest, slowest = slowest, fastest
		}
		b.Rows = append(b.Rows, []string{sanitize.Text(l.Load), fmt.Sprint(len(l.Pairs)), unit.Value(l.Metric, *l.Median), unit.Value(l.Metric, fastest), unit.Value(l.Metric, slowest),
			orNoFigure(l.SlowNode), orNoFigure(l.SlowPair)})
	}
	return b
}

func orNoFigure(ratio *float64) string {
	if ratio == nil {
		return unit.NoFigure
	}
	return times(*ratio)
}
