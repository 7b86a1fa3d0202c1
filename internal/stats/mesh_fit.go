package stats

import (
	"math"
	"slices"
)

// meshPair is a pair, with its nodes and its group.
type meshPair struct{ a, b, group int }

// meshFit is a mesh that is being fitted.
type meshFit struct {
	nodes   int
	pairs   []meshPair
	passes  [][]float64 // without what all pairs of a pass have in common
	medians []float64   // of each pair over the passes; NaN: too little was measured
	levels  []float64
	effects []float64
	weights []float64 // of each pair in the fit
	ofNode  [][]int   // the numbers of each node's pairs
	ofGroup [][]int
	work    []float64
}

func newMeshFit(m Mesh) *meshFit {
	f := &meshFit{nodes: m.Nodes, ofNode: make([][]int, m.Nodes), effects: make([]float64, m.Nodes), medians: make([]float64, PairCount(m.Nodes))}
	groups := 1
	for a := range m.Nodes {
		for b := a + 1; b < m.Nodes; b++ {
			i := len(f.pairs)
			p := meshPair{a: a, b: b}
			if m.Groups != nil {
				p.group = m.Groups[i]
			}
			groups = max(groups, p.group+1)
			f.pairs = append(f.pairs, p)
			f.ofNode[a], f.ofNode[b] = append(f.ofNode[a], i), append(f.ofNode[b], i)
		}
	}
	f.levels, f.weights, f.ofGroup = make([]float64, groups), make([]float64, len(f.pairs)), make([][]int, groups)
	for i, p := range f.pairs {
		f.ofGroup[p.group] = append(f.ofGroup[p.group], i)
	}
	f.setMedians(m.Passes)
	for _, pass := range m.Passes {
		f.work = f.work[:0]
		for i, v := range pass {
			f.work = appendKnown(f.work, v-f.medians[i])
		}
		common, own := 0.0, make([]float64, len(pass))
		if len(f.work) > 0 {
			common = medianOf(f.work)
		}
		for i, v := range pass {
			own[i] = v - common
		}
		f.passes = append(f.passes, own)
	}
	f.setMedians(f.passes)
	return f
}

// setMedians gives each pair its median, if it was measured in half of the passes.
func (f *meshFit) setMedians(passes [][]float64) {
	for i := range f.medians {
		f.work = f.work[:0]
		for _, pass := range passes {
			f.work = appendKnown(f.work, pass[i])
		}
		f.medians[i] = math.NaN()
		if 2*len(f.work) >= len(passes) && len(f.work) > 0 {
			f.medians[i] = medianOf(f.work)
		}
	}
}

// appendKnown appends a value that was measured.
func appendKnown(x []float64, v float64) []float64 {
	if math.IsNaN(v) {
		return x
	}
	return append(x, v)
}

// medianOf is [Median], and sorts x.
func medianOf(x []float64) float64 {
	slices.Sort(x)
	return medianSorted(x)
}

// Limits of a fit.
const (
	mostSweeps  = 30
	fitAccuracy = 1e-9
)

// Constants of robust statistics: what makes a standard deviation of a median of absolute
// deviations, and how many of these Tukey's biweight takes a value into account.
const (
	madSigma = 1.4826
	biweight = 4.685
)

// expected is what the levels and effects of nodes give for a pair.
func (f *meshFit) expected(p meshPair) float64 {
	return f.levels[p.group] + f.effects[p.a] + f.effects[p.b]
}

// residual is by how much a pair is slower than expected; NaN: too little was measured.
func (f *meshFit) residual(pair int) float64 { return f.medians[pair] - f.expected(f.pairs[pair]) }

// fit sets the levels and the effects of the active nodes, whose median is 0: by medians, over
// and over, and then by means of the pairs that are not far from these. The effects of all other
// nodes stay.
func (f *meshFit) fit(active []bool) {
	for i, p := range f.pairs {
		f.weights[i] = 0
		if active[p.a] && active[p.b] && !math.IsNaN(f.medians[i]) {
			f.weights[i] = 1
		}
	}
	for a, on := range active {
		if on {
			f.effects[a] = 0
		}
	}
	f.sweep(active, f.weightedMedian)
	f.work = f.work[:0]
	count := 0
	for i, w := range f.weights {
		if w > 0 {
			f.work = append(f.work, math.Abs(f.residual(i)))
		}
	}
	for _, on := range active {
		if on {
			count++
		}
	}
	if len(f.work) <= count {
		return
	}
	slices.Sort(f.work)
	// A fit by medians goes through as many pairs as there are nodes, and says nothing of the noise there.
	scale := biweight * max(fitAccuracy, madSigma*medianSorted(f.work[count:]))
	for i, w := range f.weights {
		if w > 0 {
			u := min(1, math.Abs(f.residual(i))/scale)
			f.weights[i] = (1 - u*u) * (1 - u*u)
		}
	}
	f.sweep(active, f.weightedMean)
}

// sweep sets one level or effect after the other, until none moves.
func (f *meshFit) sweep(active []bool, center func(pairs []int, base func(meshPair) float64) float64) {
	for range mostSweeps {
		moved := 0.0
		for g, pairs := range f.ofGroup {
			f.levels[g] = center(pairs, func(p meshPair) float64 { return f.effects[p.a] + f.effects[p.b] })
		}
		for a, on := range active {
			if !on {
				continue
			}
			effect := center(f.ofNode[a], func(p meshPair) float64 { return f.expected(p) - f.effects[a] })
			if math.IsNaN(effect) {
				effect = 0 // nothing of it was measured
			}
			moved = max(moved, math.Abs(effect-f.effects[a]))
			f.effects[a] = effect
		}
		f.center(active)
		if moved < fitAccuracy {
			break
		}
	}
}

// weightedMedian is the median of some pairs with a weight, above what base gives.
func (f *meshFit) weightedMedian(pairs []int, base func(meshPair) float64) float64 {
	f.work = f.work[:0]
	for _, i := range pairs {
		if f.weights[i] > 0 {
			f.work = append(f.work, f.medians[i]-base(f.pairs[i]))
		}
	}
	return medianOrNaN(f.work)
}

// weightedMean is the mean of some pairs by their weights, above what base gives.
func (f *meshFit) weightedMean(pairs []int, base func(meshPair) float64) float64 {
	sum, weights := 0.0, 0.0
	for _, i := range pairs {
		if w := f.weights[i]; w > 0 {
			sum, weights = sum+w*(f.medians[i]-base(f.pairs[i])), weights+w
		}
	}
	if weights == 0 {
		return f.weightedMedian(pairs, base)
	}
	return sum / weights
}

// center moves what the active nodes have in common from their effects to the levels.
func (f *meshFit) center(active []bool) {
	f.work = f.work[:0]
	for a, on := range active {
		if on {
			f.work = append(f.work, f.effects[a])
		}
	}
	common := medianOrNaN(f.work)
	for a, on := range active {
		if on {
			f.effects[a] -= common
		}
	}
	for g := range f.levels {
		f.levels[g] += 2 * common
	}
}

func medianOrNaN(x []float64) float64 {
	if len(x) == 0 {
		return math.NaN()
	}
	return medianOf(x)
}
