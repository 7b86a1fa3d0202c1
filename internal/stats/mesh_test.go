package stats

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/venturi-net/venturi/internal/testenv/plain"
)

// meshModel makes meshes.
type meshModel struct {
	name          string
	nodes, passes int
	noise         func(*rand.Rand) float64
	node, pair    float64 // how much the nodes and pairs differ, beside the noise
	noisy         bool    // node 0 has five times the noise
	missing       float64 // the share of values that are not there
	margin        float64
	zones         int // pairs between zones are a third slower; 0: there are none
}

// sample makes a mesh. slow gives the effects that are planted.
func (m meshModel) sample(r *rand.Rand, slow func(a, b int) float64) Mesh {
	out := Mesh{Nodes: m.nodes}
	nodes, pairs := make([]float64, m.nodes), make([]float64, PairCount(m.nodes))
	for a := range nodes {
		nodes[a] = m.node * r.NormFloat64()
	}
	for i := range pairs {
		pairs[i] = m.pair * r.NormFloat64()
	}
	for a := range m.nodes {
		for b := a + 1; b < m.nodes && m.zones > 0; b++ {
			group := 0
			if a%m.zones != b%m.zones {
				group = 1
			}
			out.Groups = append(out.Groups, group)
		}
	}
	for range m.passes {
		pass, drift := make([]float64, len(pairs)), 0.3*r.NormFloat64()
		for a := range m.nodes {
			for b := a + 1; b < m.nodes; b++ {
				i, noise := PairIndex(m.nodes, a, b), m.noise(r)
				if m.noisy && a == 0 {
					noise *= 5
				}
				pass[i] = 3 + drift + nodes[a] + nodes[b] + pairs[i] + noise + slow(a, b)
				if out.Groups != nil {
					pass[i] += 0.3 * float64(out.Groups[i])
				}
				if r.Float64() < m.missing {
					pass[i] = math.NaN()
				}
			}
		}
		out.Passes = append(out.Passes, pass)
	}
	return out
}

func noneSlow(int, int) float64 { return 0 }

var meshModels = []meshModel{
	{name: "normal", nodes: 12, passes: 5, noise: normal},
	{name: "a tenth spoiled", nodes: 12, passes: 5, noise: spoiled},
	{name: "a noisy node", nodes: 12, passes: 5, noise: normal, noisy: true},
	{name: "nodes and pairs differ", nodes: 12, passes: 5, noise: normal, pair: 0.01, node: 0.01, margin: 0.05},
	{name: "six nodes", nodes: 6, passes: 15, noise: heavy},
	{name: "eight nodes", nodes: 8, passes: 9, noise: normal},
	{name: "three passes", nodes: 12, passes: 3, noise: normal},
	{name: "even passes", nodes: 9, passes: 4, noise: normal},
	{name: "t3", nodes: 12, passes: 5, noise: heavy},
	{name: "a tenth missing", nodes: 12, passes: 5, noise: heavy, missing: 0.1},
	{name: "zones", nodes: 12, passes: 5, noise: normal, zones: 3},
}

// skipUnlessLong leaves what takes minutes to the line of scripts/test for meshes.
func skipUnlessLong(t *testing.T) { plain.NeedsLong(t) }

// usualMeshes is how many of the models are tried without the long tests.
const usualMeshes = 4

// Where no node and no pair is slow, one is named in at most 5 % of all meshes, whatever the noise.
func TestMeshFalseAlarms(t *testing.T) {
	plain.SkipShort(t)
	const meshes = 1000
	for i, m := range meshModels {
		t.Run(m.name, func(t *testing.T) {
			if i >= usualMeshes {
				skipUnlessLong(t)
			}
			t.Parallel()
			nodes, pairs := 0, 0
			either := share(meshes, func(r *rand.Rand) bool {
				e := m.sample(r, noneSlow).Effects(MeshTest{Margin: m.margin, Error: 0.05, Resamples: 99, Seed: r.Uint64()})
				node, pair := slowNumbers(e.Nodes) != nil, slowNumbers(e.Pairs) != nil
				if node {
					nodes++
				}
				if pair {
					pairs++
				}
				return node || pair
			})
			t.Logf("%s: false alarms in %.1f %% of %d meshes: nodes %d, pairs %d", m.name, 100*either, meshes, nodes, pairs)
			if limit := 0.05 + 3*math.Sqrt(0.05*0.95/meshes); either > limit {
				t.Errorf("false alarms in %.1f %% of the meshes", 100*either)
			}
		})
	}
}

// slowNumbers are the numbers of what is slow.
func slowNumbers(effects []MeshEffect) (numbers []int) {
	for i, e := range effects {
		if e.Slow {
			numbers = append(numbers, i)
		}
	}
	return numbers
}

// A node and a pair that are planted are named, and hardly ever anything else is. Neither hides the other.
func TestMeshPower(t *testing.T) {
	plain.SkipShort(t)
	const (
		meshes   = 200
		slowNode = 4
		pairA    = 1
		pairB    = 7
	)
	for _, c := range []struct {
		name       string
		model      meshModel
		node, pair float64 // planted
	}{
		{"a node", meshModel{nodes: 12, passes: 5, noise: normal}, 0.15, 0},
		{"a pair", meshModel{nodes: 12, passes: 5, noise: normal}, 0, 0.2},
		{"both", meshModel{nodes: 12, passes: 5, noise: normal}, 0.15, 0.2},
		{"both, t3", meshModel{nodes: 12, passes: 7, noise: heavy}, 0.2, 0.3},
		{"both, a tenth spoiled", meshModel{nodes: 12, passes: 15, noise: spoiled}, 0.2, 0.3},
		{"both, nodes and pairs differ", meshModel{nodes: 16, passes: 5, noise: normal, node: 0.02, pair: 0.01}, 0.25, 0.3},
		{"both, zones", meshModel{nodes: 12, passes: 5, noise: normal, zones: 3}, 0.2, 0.25},
		{"both, a noisy node", meshModel{nodes: 12, passes: 7, noise: normal, noisy: true}, 0.2, 0.25},
		{"both, eight nodes", meshModel{nodes: 8, passes: 15, noise: normal}, 0.2, 0.25},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var wantNodes, wantPairs []int
			if c.node > 0 {
				wantNodes = []int{slowNode}
			}
			if c.pair > 0 {
				wantPairs = []int{PairIndex(c.model.nodes, pairA, pairB)}
			}
			estimate := 0.0
			right := share(meshes, func(r *rand.Rand) bool {
				e := c.model.sample(r, func(a, b int) (v float64) {
					if a == slowNode || b == slowNode {
						v += c.node
					}
					if a == pairA && b == pairB {
						v += c.pair
					}
					return v
				}).Effects(MeshTest{Margin: 0.05, Error: 0.05, Resamples: 199, Seed: r.Uint64()})
				estimate += e.Nodes[slowNode].Excess / meshes
				return slices.Equal(slowNumbers(e.Nodes), wantNodes) && slices.Equal(slowNumbers(e.Pairs), wantPairs)
			})
			t.Logf("%s: named what is slow and nothing else in %.1f %%; the node's effect is %.3f, found %.3f", c.name, 100*right, c.node, estimate)
			if right < 0.9 {
				t.Errorf("only in %.1f %% of the meshes", 100*right)
			}
			if math.Abs(estimate-c.node) > 0.02 {
				t.Errorf("the effect of the node is %.3f, found %.3f", c.node, estimate)
			}
		})
	}
}

// Several slow nodes do not hide each other, and those that were not measured are not judged.
func TestMeshSeveral(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	const absent = 9
	m := meshModel{nodes: 14, passes: 7, noise: normal}
	mesh := m.sample(r, func(a, b int) (v float64) {
		for _, node := range []int{a, b} {
			if node == 2 || node == 5 || node == 11 {
				v += 0.4
			}
		}
		return v
	})
	for _, pass := range mesh.Passes {
		for other := range m.nodes {
			if other != absent {
				pass[PairIndex(m.nodes, other, absent)] = math.NaN()
			}
		}
	}
	e := mesh.Effects(MeshTest{Margin: 0.05, Error: 0.05, Resamples: 499, Seed: 1})
	if got := slowNumbers(e.Nodes); !slices.Equal(got, []int{2, 5, 11}) {
		t.Errorf("slow nodes: %v", got)
	}
	if got := slowNumbers(e.Pairs); got != nil {
		t.Errorf("slow pairs: %v", got)
	}
	if !math.IsNaN(e.Nodes[absent].Excess) || !math.IsNaN(e.Pairs[PairIndex(m.nodes, 0, absent)].Excess) {
		t.Errorf("a node that was not measured: %+v", e.Nodes[absent])
	}
	if !(e.SlowNode > 0.05 && e.SlowNode < 0.2 && e.SlowPair > 0.05 && e.SlowPair < 0.2) {
		t.Errorf("it would have named nodes from %.3f on, pairs from %.3f on", e.SlowNode, e.SlowPair)
	}
}

// What is too small to be judged is measured, but nothing is named; nor does it fail where nothing was measured.
func TestMeshTooSmall(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	slowPair := func(a, b int) float64 { return float64(a + b) }
	for nodes := 2; nodes < MinMeshNodes; nodes++ {
		e := meshModel{nodes: nodes, passes: 5, noise: normal}.sample(r, slowPair).Effects(MeshTest{Error: 0.05, Resamples: 99})
		if slowNumbers(e.Nodes) != nil || slowNumbers(e.Pairs) != nil || !math.IsNaN(e.SlowPair) || math.IsNaN(e.Levels[0]) {
			t.Errorf("%d nodes: %+v", nodes, e)
		}
	}
	empty := meshModel{nodes: 8, passes: 4, noise: normal, missing: 1}.sample(r, noneSlow).Effects(MeshTest{Error: 0.05, Resamples: 99})
	if slowNumbers(empty.Nodes) != nil || slowNumbers(empty.Pairs) != nil || !math.IsNaN(empty.Levels[0]) {
		t.Errorf("nothing was measured: %+v", empty)
	}
}

// The pairs are numbered without gaps.
func TestPairIndex(t *testing.T) {
	const n = 7
	next := 0
	for a := range n {
		for b := a + 1; b < n; b++ {
			if PairIndex(n, a, b) != next || PairIndex(n, b, a) != next {
				t.Errorf("pair %d, %d is number %d, not %d", a, b, PairIndex(n, a, b), next)
			}
			next++
		}
	}
	if next != PairCount(n) {
		t.Errorf("%d pairs, not %d", next, PairCount(n))
	}
}
