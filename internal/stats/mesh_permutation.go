package stats

import (
	"math"
	"math/rand/v2"
	"slices"
)

// noisyNode is how many times the usual noise a node must have to count as noisier, by so many
// values of so many passes: more than chance gives. To follow chance would make what it left out
// look slow.
func noisyNode(values, passes int) float64 {
	const most, perValue = 3, 1.17 // standard errors; that of the logarithm of a median of absolute deviations
	return 1 + most*perValue/math.Sqrt(float64(values)*float64(passes-1)/float64(passes))
}

// noise gives that of every pair in one pass: of the noisier of its two nodes, because a pair by
// itself has too few values.
func (f *meshFit) noise() []float64 {
	ofNode, counts, known := make([]float64, f.nodes), make([]int, f.nodes), []float64(nil)
	for a, pairs := range f.ofNode {
		f.work = f.work[:0]
		for _, i := range pairs {
			for _, pass := range f.passes {
				f.work = appendKnown(f.work, math.Abs(pass[i]-f.medians[i]))
			}
		}
		ofNode[a], counts[a] = madSigma*medianOrNaN(f.work), len(f.work)
		known = appendKnown(known, ofNode[a])
	}
	usual := max(fitAccuracy, medianOrNaN(known))
	for a, of := range ofNode {
		if !(of > usual*noisyNode(counts[a], len(f.passes))) { // also where nothing was measured
			ofNode[a] = usual
		}
	}
	out := make([]float64, len(f.pairs))
	for i, p := range f.pairs {
		out[i] = max(ofNode[p.a], ofNode[p.b])
	}
	return out
}

// spread gives that of the effects of pairs among count nodes: what is left of their noise over
// all passes, and what they differ by beside it.
func (f *meshFit) spread(open []int, count int) []float64 {
	out := f.noise()
	for i, v := range out {
		out[i] = v * v * math.Pi / 2 / float64(len(f.passes)) // the variance of a median
	}
	noise, absolute := make([]float64, 0, len(open)), make([]float64, 0, len(open))
	for _, i := range open {
		noise, absolute = append(noise, out[i]), append(absolute, math.Abs(f.residual(i)))
	}
	whole := madSigma * medianOrNaN(absolute)
	beside := max(0, whole*whole*fitLoss(count)-medianOrNaN(noise))
	for i := range out {
		out[i] = math.Sqrt(out[i] + beside)
	}
	return out
}

// fitLoss is by how much larger the variance of the effects of pairs is than what a fit of
// count nodes leaves of it. The effect of a pair that the fit leaves out as too far off is larger
// by as much.
func fitLoss(count int) float64 { return float64(count-1) / float64(count-3) }

// testPairs compares the effect of each pair with the largest that noise alone gives, if the
// values of every pass are dealt out to the pairs at random. What is slow is taken out, and the
// rest is tested again.
func (f *meshFit) testPairs(t MeshTest, out *MeshEffects) {
	noise, open := f.noise(), f.open(f.all())
	for len(open) > 0 {
		largest := f.largestPairs(open, noise, t)
		out.SlowPair = t.Margin + quantileUp(largest, 1-t.Error)*f.usual(open, noise)
		var rest []int
		for _, i := range open {
			e := &out.Pairs[i]
			e.P = exceeding(largest, (e.Excess-t.Margin)/noise[i])
			if e.Slow = e.P <= t.Error; !e.Slow {
				rest = append(rest, i)
			}
		}
		if len(rest) == len(open) {
			return
		}
		open = rest
	}
}

// largestPairs gives the largest effect of some pairs, by their noise, under each permutation.
func (f *meshFit) largestPairs(open []int, noise []float64, t MeshTest) []float64 {
	passes, rng := make([]meshPass, len(f.passes)), rand.New(rand.NewPCG(t.Seed, uint64(len(open))))
	for p, pass := range f.passes {
		for k, i := range open {
			if v := pass[i] - f.expected(f.pairs[i]); !math.IsNaN(v) {
				passes[p].pairs, passes[p].values = append(passes[p].pairs, k), append(passes[p].values, v/noise[i])
			}
		}
	}
	loss := math.Sqrt(fitLoss(f.nodes))
	dealt, counts := make([]float64, len(open)*len(passes)), make([]int, len(open))
	return resample(t.Resamples, func() float64 {
		clear(counts)
		for _, pass := range passes {
			shuffle(rng, pass.values)
			for n, k := range pass.pairs {
				dealt[k*len(passes)+counts[k]] = pass.values[n]
				counts[k]++
			}
		}
		most := math.Inf(-1)
		for k, n := range counts {
			if n > 0 {
				most = max(most, medianOf(dealt[k*len(passes):k*len(passes)+n]))
			}
		}
		return loss * most
	})
}

// meshPass is the values of one pass, and the pairs that have them.
type meshPass struct {
	pairs  []int
	values []float64
}

func shuffle(rng *rand.Rand, x []float64) {
	rng.Shuffle(len(x), func(i, j int) { x[i], x[j] = x[j], x[i] })
}

// resample gives what a number of draws come to, ascending.
func resample(n int, draw func() float64) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = draw()
	}
	slices.Sort(out)
	return out
}

// exceeding is the p-value of a statistic, by what chance alone gave, ascending.
func exceeding(chance []float64, statistic float64) float64 {
	below, _ := slices.BinarySearch(chance, statistic)
	return float64(len(chance)-below+1) / float64(len(chance)+1)
}

// quantileUp is the value that a statistic must be above to be as rare as 1-q; NaN: it takes
// more draws.
func quantileUp(chance []float64, q float64) float64 {
	rank := int(math.Ceil(q * float64(len(chance)+1)))
	if rank > len(chance) {
		return math.NaN()
	}
	return chance[max(rank, 1)-1]
}

// usual is the median of what some pairs have.
func (f *meshFit) usual(pairs []int, of []float64) float64 {
	f.work = f.work[:0]
	for _, i := range pairs {
		f.work = append(f.work, of[i])
	}
	return medianOrNaN(f.work)
}

// all are all nodes.
func (f *meshFit) all() []bool {
	active := make([]bool, f.nodes)
	for a := range active {
		active[a] = true
	}
	return active
}

// open gives the pairs of active nodes that were measured.
func (f *meshFit) open(active []bool) (pairs []int) {
	for i, p := range f.pairs {
		if active[p.a] && active[p.b] && !math.IsNaN(f.medians[i]) {
			pairs = append(pairs, i)
		}
	}
	return pairs
}

// testNodes compares the effect of each node with the largest that chance gives, if the effects
// of pairs are dealt out to the pairs at random: pairs differ, too, and not only by noise. What is
// slow is taken out with all its pairs, and the rest is fitted and tested again.
func (f *meshFit) testNodes(t MeshTest, out *MeshEffects) {
	active := f.all()
	for count := f.nodes; count >= MinMeshNodes; {
		f.fit(active)
		open := f.open(active)
		spread := f.spread(open, count)
		largest := f.largestNodes(open, spread, active, count, t)
		out.SlowNode = t.Margin + quantileUp(largest, 1-t.Error)*f.usual(open, spread)
		slow := 0
		own := f.nodeStatistics(active, func(a, i int) float64 { return (f.residual(i) + f.effects[a]) / spread[i] })
		for a, statistic := range own {
			if !active[a] {
				continue
			}
			e := &out.Nodes[a]
			e.Excess = f.effects[a]
			if math.IsNaN(statistic) {
				e.Excess = statistic
				continue
			}
			e.P = exceeding(largest, statistic-t.Margin/f.usual(f.ofNode[a], spread))
			if e.Slow = e.P <= t.Error; e.Slow {
				slow++
			}
		}
		if slow == 0 {
			return
		}
		for a := range active {
			active[a] = active[a] && !out.Nodes[a].Slow
		}
		count -= slow
	}
}

// nodeStatistics gives the median over the pairs of each active node with the others, less the
// median of all nodes; NaN: too little was measured.
func (f *meshFit) nodeStatistics(active []bool, value func(node, pair int) float64) []float64 {
	out, known := make([]float64, f.nodes), make([]float64, 0, f.nodes)
	for a, on := range active {
		f.work = f.work[:0]
		for _, i := range f.ofNode[a] {
			if p := f.pairs[i]; on && active[p.a] && active[p.b] && !math.IsNaN(f.medians[i]) {
				f.work = append(f.work, value(a, i))
			}
		}
		out[a] = math.NaN()
		if len(f.work) >= MinMeshNodes-1 {
			out[a] = medianOf(f.work)
		}
		known = appendKnown(known, out[a])
	}
	usual := medianOrNaN(known)
	for a := range out {
		out[a] -= usual
	}
	return out
}

// fewNodes makes up for what a fit takes of the largest effects where nodes are few. It was found
// by simulation: without it, eight nodes give four times the false alarms.
const fewNodes = 20

// largestNodes gives the largest effect of a node, by the spread of pairs, under each permutation.
func (f *meshFit) largestNodes(open []int, spread []float64, active []bool, count int, t MeshTest) []float64 {
	// A node's mean has the effects of all other nodes in it, which are lower by as much as its own
	// is higher: its effect is larger than its mean.
	loss := math.Sqrt(fitLoss(count)) * float64(count-1) / float64(count-2) * (1 + fewNodes/float64(count*count))
	values := make([]float64, 0, len(open))
	for _, i := range open {
		values = append(values, loss*f.residual(i)/spread[i])
	}
	dealt, rng := make([]float64, len(f.pairs)), rand.New(rand.NewPCG(t.Seed, uint64(count)<<32))
	return resample(t.Resamples, func() float64 {
		shuffle(rng, values)
		for n, i := range open {
			dealt[i] = values[n]
		}
		most := math.Inf(-1)
		for _, s := range f.nodeStatistics(active, func(_, i int) float64 { return dealt[i] }) {
			if s > most { // NaN is not
				most = s
			}
		}
		return most
	})
}
