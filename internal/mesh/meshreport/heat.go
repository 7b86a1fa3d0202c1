package meshreport

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/venturi-net/venturi/internal/mesh"
	"github.com/venturi-net/venturi/internal/report/chart"
	"github.com/venturi-net/venturi/internal/report/figure"
	"github.com/venturi-net/venturi/internal/report/unit"
	"github.com/venturi-net/venturi/internal/report/view"
	"github.com/venturi-net/venturi/internal/sanitize"
)

// mostDrawn is how many nodes a heat map has: of more, those that are farthest from the rest.
const mostDrawn = 120

// drawings are a heat map of each load.
func drawings(r *mesh.Survey) (all []figure.Drawing) {
	for _, l := range r.Loads {
		if l.Median == nil {
			continue
		}
		all = append(all, heatMap(r, l))
	}
	return all
}

// heatMap shows every pair by its ratio to the median of all.
func heatMap(r *mesh.Survey, l mesh.LoadReport) figure.Drawing {
	nodes := drawnNodes(r, l)
	c := chart.Matrix{Steps: []float64{0.05, 0.1, 0.25, 0.5}, Keys: [2]string{"faster", "slower"}, Texts: chart.Texts{
		Title: sanitize.Text(l.Load) + ": every pair of nodes",
		Desc:  "How much slower or faster each pair is than the median, " + unit.Value(l.Metric, *l.Median) + ". A slow node is a line, a slow pair is a square."}}
	if len(nodes) < len(r.Nodes) {
		c.Desc += fmt.Sprintf(" Of %d nodes, the %d are shown that are farthest from the rest.", len(r.Nodes), len(nodes))
	}
	place := make(map[int]int, len(nodes))
	for at, node := range nodes {
		place[node] = at
		c.Names = append(c.Names, name(r, node))
		c.Titles = append(c.Titles, make([]string, len(nodes)))
		row := make([]float64, len(nodes))
		for i := range row {
			row[i] = math.NaN()
		}
		c.Values = append(c.Values, row)
	}
	for _, p := range l.Pairs {
		i, shown := place[p.From]
		j, both := place[p.To]
		if !shown || !both {
			continue
		}
		slower := math.Log(p.Value / *l.Median)
		if !l.Metric.LowerIsBetter() {
			slower = -slower
		}
		title := fmt.Sprintf("%s to %s: %s, %s of what its nodes lead to expect", c.Names[i], c.Names[j], unit.Value(l.Metric, p.Value), times(p.Ratio))
		if p.Slow {
			title += ", slow"
		}
		c.Values[i][j], c.Values[j][i] = slower, slower
		c.Titles[i][j], c.Titles[j][i] = title, title
	}
	return figure.Drawing{Texts: c.Texts, Chart: c, Table: nodeTable(r, l)}
}

// drawnNodes are the nodes that a heat map shows, by zone and name.
func drawnNodes(r *mesh.Survey, l mesh.LoadReport) (nodes []int) {
	far := make([]float64, len(r.Nodes))
	for _, n := range l.Nodes {
		far[n.Node] = math.Abs(math.Log(n.Ratio))
	}
	for _, p := range l.Pairs {
		if p.Slow {
			far[p.From], far[p.To] = math.Inf(1), math.Inf(1)
		}
	}
	for i := range r.Nodes {
		nodes = append(nodes, i)
	}
	slices.SortStableFunc(nodes, func(a, b int) int { return cmp.Compare(far[b], far[a]) })
	nodes = nodes[:min(mostDrawn, len(nodes))]
	slices.SortFunc(nodes, func(a, b int) int {
		return cmp.Or(cmp.Compare(r.Nodes[a].Zone, r.Nodes[b].Zone), cmp.Compare(r.Nodes[a].Name, r.Nodes[b].Name))
	})
	return nodes
}

// nodeTable lists the nodes, the slowest first.
func nodeTable(r *mesh.Survey, l mesh.LoadReport) view.Block {
	b := view.Block{Columns: []view.Column{view.Label("node"), view.Number("slower", 0), view.Label("")}}
	nodes := slices.Clone(l.Nodes)
	slices.SortStableFunc(nodes, func(a, b mesh.NodeEffect) int { return cmp.Compare(b.Ratio, a.Ratio) })
	for i, n := range nodes {
		if i == mostRows {
			break
		}
		mark := ""
		if n.Slow {
			mark = "slow"
		}
		b.Rows = append(b.Rows, []string{name(r, n.Node), times(n.Ratio), mark})
	}
	return b
}
