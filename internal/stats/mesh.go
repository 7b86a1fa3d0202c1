package stats

import (
	"math"
	"slices"
)

// Mesh is measurements of all pairs of some nodes, repeated in passes. Values are logarithms,
// of which a larger one is slower.
//
// The model is a two-way layout: a value is the level of the pair's group, plus the effects of
// both nodes, plus the effect of the pair, plus noise. Levels and effects of nodes are fitted by
// medians, so that a few slow pairs bend neither. A slow node or pair is one whose effect is above
// a margin; the tests are permutation tests of the largest effect, which assume no shape of noise.
type Mesh struct {
	Nodes  int
	Passes [][]float64 // of each, a value by [PairIndex]; NaN: not measured
	Groups []int       // of each pair: those of one group have a level in common; nil: all have
}

// MeshTest says how a mesh is judged.
type MeshTest struct {
	Margin    float64 // effects up to it are not slow
	Error     float64 // that anything is named that is not slow; nodes and pairs together
	Resamples int
	Seed      uint64
}

// MeshEffect is by how much a node or a pair is slower than the rest of the mesh leads to expect.
type MeshEffect struct {
	Excess float64 // NaN: too little was measured
	P      float64 // adjusted for all tests of the mesh
	Slow   bool
}

// MeshEffects are those of a mesh.
type MeshEffects struct {
	Levels []float64 // by group; NaN: it has no pair
	Nodes  []MeshEffect
	Pairs  []MeshEffect // by [PairIndex]
	// SlowNode and SlowPair are the least effects that would have been named, of a node and a pair
	// with the usual noise; NaN: too little was measured.
	SlowNode, SlowPair float64
}

// MinMeshNodes is how many nodes it takes to tell the effect of a pair from those of its nodes: with
// four, one slow pair looks as if the opposite one were, and with five chance alone often does.
const MinMeshNodes = 6

// MinMeshPasses is how many passes it takes to tell a pair from its noise.
const MinMeshPasses = 3

// PairIndex is the number of the pair of two different nodes among the pairs of n.
func PairIndex(n, a, b int) int {
	a, b = min(a, b), max(a, b)
	return a*(2*n-a-1)/2 + b - a - 1
}

// PairCount is how many pairs n nodes have.
func PairCount(n int) int { return n * (n - 1) / 2 }

// Effects fits the mesh, and names what is slow.
func (m Mesh) Effects(t MeshTest) MeshEffects {
	f := newMeshFit(m)
	f.fit(f.all())
	out := MeshEffects{Levels: slices.Clone(f.levels), SlowNode: math.NaN(), SlowPair: math.NaN(),
		Nodes: make([]MeshEffect, m.Nodes), Pairs: make([]MeshEffect, PairCount(m.Nodes))}
	for a := range out.Nodes {
		out.Nodes[a] = MeshEffect{f.effects[a], 1, false}
	}
	for i := range f.pairs {
		out.Pairs[i] = MeshEffect{f.residual(i), 1, false}
	}
	if m.Nodes < MinMeshNodes || len(m.Passes) < MinMeshPasses {
		return out
	}
	t.Error /= 2 // a half for the nodes, a half for the pairs
	f.testPairs(t, &out)
	f.testNodes(t, &out)
	for _, effects := range [][]MeshEffect{out.Nodes, out.Pairs} {
		for i := range effects {
			effects[i].P = min(1, 2*effects[i].P)
		}
	}
	return out
}
