package analysis

import (
	"slices"

	"github.com/venturi-net/venturi/internal/stats"
	"github.com/venturi-net/venturi/result"
)

// Spread is how evenly the flows of a path shared what it carried.
type Spread struct {
	// Jain is Jain's fairness index: 1 where all flows carry the same, 1/n where one carries
	// all. It is of each series, and the median over them.
	Jain float64 `json:"jain"`
	// Lowest and Highest are what the flow with least and that with most carried, to the mean of
	// all: medians likewise.
	Lowest  float64 `json:"lowest"`
	Highest float64 `json:"highest"`
}

// spread sums what each flow carried in a series, since its sockets live as long; nil: there is
// one flow, or it is not known.
func (d *armData) spread() *Spread {
	bySeries := map[int][]float64{}
	for _, s := range d.slices {
		for i, n := range perFlow(s) {
			if i == len(bySeries[s.Series]) {
				bySeries[s.Series] = append(bySeries[s.Series], 0)
			}
			bySeries[s.Series][i] += float64(n)
		}
	}
	var jain, least, most []float64
	for _, flows := range bySeries {
		sum, squares := 0.0, 0.0
		for _, n := range flows {
			sum += n
			squares += n * n
		}
		if n := float64(len(flows)); n > 1 && sum > 0 {
			jain = append(jain, sum*sum/(n*squares))
			least, most = append(least, slices.Min(flows)*n/sum), append(most, slices.Max(flows)*n/sum)
		}
	}
	if len(jain) == 0 {
		return nil
	}
	return &Spread{stats.Median(jain), stats.Median(least), stats.Median(most)}
}

func perFlow(s *result.Slice) []int64 {
	switch {
	case s.Stream != nil:
		return s.Stream.PerFlow
	case s.Latency != nil:
		return s.Latency.PerFlow
	}
	return nil
}
