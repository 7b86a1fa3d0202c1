package verify

import (
	"fmt"
	"io"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/internal/experiment"
	"github.com/venturi-net/venturi/internal/stats"
	"github.com/venturi-net/venturi/result"
)

// Limits of pairs of records, as shares: equal ones that are the same, and different ones of
// which the difference is found, at least.
const (
	minSamePairs  = 0.95
	minFoundPairs = 0.90
)

// pairName is what the later records of different pairs are called.
func (c Stats) pairName() string { return slowerName(c.PairEffect) + ", for a pair" }

// pairNeeds are two records of identical arms for each pair, and one with a slower arm
// that takes the place of the second.
func (c Stats) pairNeeds() []comparisons {
	return []comparisons{c.identical(2*c.Pairs, "--pairs"), {name: c.pairName(), count: c.Pairs, flag: "--pairs", effect: c.PairEffect, budget: c.PairBudget, perLoad: 1}}
}

// checkPairs compares records with each other, as venturi report does with two of them.
func (c Stats) checkPairs(w io.Writer, found outcomes) ([]Requirement, error) {
	equal, apart := Tally{}, Tally{}
	fmt.Fprintf(w, "margin %.2g %%\n", 100*experiment.DefaultMargin)
	for k := range c.Pairs {
		before := found[identicalName][2*k].rec
		for _, later := range []struct {
			name  string
			rec   *result.Record
			tally Tally
		}{{identicalName, found[identicalName][2*k+1].rec, equal}, {slowerName(c.PairEffect), found[c.pairName()][k].rec, apart}} {
			row, err := comparePair(before, later.rec)
			if err != nil {
				return nil, err
			}
			later.tally[row.Judged.Verdict]++
			fmt.Fprintf(w, "%3d/%d  %s  %-14s  %.4f [%.4f, %.4f]  %s\n", k+1, c.Pairs, before.Plan.Cells[0].Load, later.name,
				row.Ratio.Value, row.Ratio.Lo, row.Ratio.Hi, verdictText(row.Judged.Verdict))
		}
	}
	fmt.Fprintf(w, "pairs of equal records: %v\n%s in the later record: %v\n", equal, slowerName(c.PairEffect), apart)
	return []Requirement{
		atLeast("pairs of records of one machine that are the same", equal[stats.Equivalent], c.Pairs, minSamePairs),
		atLeast(fmt.Sprintf("pairs of which the later record is found %s", slowerName(c.PairEffect)), apart[stats.Slower], c.Pairs, minFoundPairs),
	}, nil
}

// comparePair is how the arm under test changed from one record to another.
func comparePair(before, after *result.Record) (analysis.ChangeRow, error) {
	a, b := *before, *after
	a.Plan.Margin, b.Plan.Margin = experiment.DefaultMargin, experiment.DefaultMargin
	change, err := analysis.Compare(&a, &b)
	if err != nil {
		return analysis.ChangeRow{}, err
	}
	for _, row := range change.Cells[0].Rows {
		if row.Path == testedArm {
			return row, nil
		}
	}
	return analysis.ChangeRow{}, fmt.Errorf("compare records: %s has no ratio", testedArm)
}
