package view

import (
	"testing"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/result"
)

// Of a network that no lab made, the heading says what was found.
func TestRulesFound(t *testing.T) {
	rec := &result.Record{Facts: []result.Facts{{Machine: "a", NetfilterRules: 7, Congestion: "bbr"}, {Machine: "b", NetfilterRules: 1}}}
	wire := func() string {
		for _, row := range Facts(rec, &analysis.Summary{}) {
			if row[0] == "wire" {
				return row[1]
			}
		}
		return ""
	}
	if got, want := wire(), "congestion control bbr; the network as it was found, 7 netfilter rules on a, 1 netfilter rule on b"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	rec.Facts[0].RulesHidden = true
	if got, want := wire(), "congestion control bbr; the network as it was found, an unknown number of netfilter rules on a, 1 netfilter rule on b"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	rec.Facts[0].RulesHidden = false
	rec.Plan.SharedCores, rec.Facts[1].NetfilterRules = true, 7
	if got, want := wire(), "congestion control bbr; the network as it was found, 7 netfilter rules"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
