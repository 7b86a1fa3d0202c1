package meshreport

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/mesh"
	"github.com/venturi-net/venturi/result"
)

// sample is a mesh of so many nodes with a slow node, a slow pair, a broken pair and a lost node,
// whose names are those of an attacker.
func sample(nodes int) *mesh.Survey {
	r := &mesh.Survey{Version: mesh.ReportVersion, Command: []string{"kubectl-venturi", "mesh"}, Network: "pods", Passes: 7, Rounds: 70, TookNs: 61e9, Margin: 0.05, Error: 0.05,
		Lost:   []mesh.LostNode{{Name: "lost\x1b[31m", Reason: "the node is not ready"}},
		Broken: []mesh.BrokenPair{{From: "n1", To: "n2", Load: "tcp_lat", Reason: "no answer"}, {From: "n2", To: "n1", Load: "tcp_lat", Reason: "no answer"}}}
	for i := range nodes {
		r.Nodes = append(r.Nodes, mesh.MemberView{Name: fmt.Sprint("n", i), Zone: fmt.Sprint("z", i%2)})
	}
	r.Nodes[4].Name = "<script>alert(1)</script>"
	for _, load := range []string{"tcp_lat", "tcp_bw"} {
		l := mesh.LoadReport{Load: load, Metric: result.OneWay, Median: new(30_000.0), SlowNode: new(1.09), SlowPair: new(1.21)}
		if load == "tcp_bw" {
			l.Metric, l.Median = result.Bandwidth, new(9e9)
		}
		for a := range nodes {
			n := mesh.NodeEffect{Node: a, Ratio: 1, P: 1}
			if a == 4 && load == "tcp_lat" {
				n.Ratio, n.P, n.Slow = 1.5, 0.004, true
			}
			l.Nodes = append(l.Nodes, n)
			for b := a + 1; b < nodes; b++ {
				p := mesh.PairEffect{From: a, To: b, Value: *l.Median, Expected: *l.Median, Ratio: 1, P: 1}
				if a == 3 && b == 5 && load == "tcp_bw" {
					p.Value, p.Ratio, p.P, p.Slow = 3e9, 3, 0.01, true
				}
				l.Pairs = append(l.Pairs, p)
			}
		}
		r.Loads = append(r.Loads, l)
	}
	return r
}

func write(t *testing.T, r *mesh.Survey, format string) string {
	t.Helper()
	var out bytes.Buffer
	if err := Write(&out, r, format, 0); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// Every format says what is slow and what is missing; the answer comes first.
func TestFormats(t *testing.T) {
	r := sample(8)
	for _, format := range Formats() {
		text := write(t, r, format)
		for _, want := range []string{"z0", "n5", "no answer", "the node is not ready"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s does not say %q:\n%s", format, want, text)
			}
		}
		if strings.Contains(text, "\x1b") {
			t.Errorf("%s has what a terminal would obey", format)
		}
	}
	text := write(t, r, "table")
	if first, _, _ := strings.Cut(text, "\n"); first != "8 nodes: 1 slow node, 1 slow pair, 1 pair without traffic; 1 node not measured" {
		t.Errorf("the answer is %q", first)
	}
	for _, want := range []string{"1.50x", "0.004", "3.00 Gb/s", "9.00 Gb/s", "3.00x", "30.0 us", "1.09x", "1.21x"} {
		if !strings.Contains(text, want) {
			t.Errorf("the table does not say %q:\n%s", want, text)
		}
	}
	if err := Write(&bytes.Buffer{}, r, "pdf", 100); err == nil {
		t.Error("there is no such format")
	}
}

// A page has a heat map of each load, with a square for each two nodes, and no markup of others.
func TestPage(t *testing.T) {
	page := write(t, sample(8), "html")
	if n := strings.Count(page, "<svg"); n != 4 { // for a wide and a narrow screen
		t.Errorf("%d figures", n)
	}
	if n := strings.Count(page, ", slow</title>"); n != 4 {
		t.Errorf("%d squares are slow", n)
	}
	if n := strings.Count(page, "of what its nodes lead to expect"); n != 2*2*8*7 {
		t.Errorf("%d squares", n)
	}
	if strings.Contains(page, "<script>") {
		t.Error("the page has markup of others")
	}
	if large := write(t, sample(200), "html"); !strings.Contains(large, "Of 200 nodes, the 120 are shown") || !strings.Contains(large, ", slow</title>") {
		t.Error("of many nodes, those that matter are not shown")
	}
}

// What is not slow, and what could not be judged, is said so.
func TestNothingSlow(t *testing.T) {
	r := sample(8)
	r.Broken, r.Lost = nil, nil
	for l := range r.Loads {
		for i := range r.Loads[l].Nodes {
			r.Loads[l].Nodes[i].Slow = false
		}
		for i := range r.Loads[l].Pairs {
			r.Loads[l].Pairs[i].Slow = false
		}
	}
	if text := write(t, r, "table"); !strings.HasPrefix(text, "8 nodes: no slow node and no slow pair\n") {
		t.Errorf("%s", text)
	}
	r.Loads[0].SlowNode, r.Loads[0].SlowPair, r.Loads[1].SlowNode, r.Loads[1].SlowPair = nil, nil, nil, nil
	if text := write(t, r, "table"); !strings.HasPrefix(text, "8 nodes: measured, not judged\n") || !strings.Contains(text, "It takes 3 passes") {
		t.Errorf("%s", text)
	}
	r.Loads[0].Median, r.Loads[0].Pairs, r.Loads[1] = nil, nil, r.Loads[0]
	for _, format := range Formats() {
		write(t, r, format)
	}
}
