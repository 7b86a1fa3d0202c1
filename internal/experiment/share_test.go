package experiment

import (
	"math"
	"slices"
	"testing"

	"github.com/venturi-net/venturi/internal/load"
	"github.com/venturi-net/venturi/result"
)

// withShare is a run of a ping beside half of what each arm carries.
func withShare(a *agents, series int) (*Run, *result.Record) {
	r, rec := newRun(a, series)
	rec.Plan.Cells = []result.Cell{
		{Name: "ping/56", Load: "ping", Size: 56, Flows: 1, Metric: result.RoundTrip,
			Background: &result.BackgroundLoad{Load: "udp_bw", Size: 1, Flows: 1, Share: 0.5, Maximum: "udp_bw/1", Cores: SameCores}},
		{Name: "udp_bw/1", Load: "udp_bw", Size: 1, Flows: 1, Metric: result.Messages},
	}
	return r, rec
}

// carries makes an arm carry so many messages a second in each series.
func (a *agents) carries(rates map[string][]float64) {
	a.slice = func(p load.Plan, arm int, s *load.SliceResult) {
		if p.Load != "udp_bw" {
			return
		}
		nth := len(slices.DeleteFunc(slices.Clone(a.plans), func(p load.Plan) bool { return p.Load != "udp_bw" })) - 1
		rate := rates[p.Arms[arm].Name][nth]
		s.Latency, s.Stream = nil, &result.Stream{SentMessages: 2e6, RecvMessages: 1e6, RateMessages: int64(rate), RateNs: 1e9}
	}
}

// Every arm has the share of what it carried itself, in the same series, which is measured first.
func TestShares(t *testing.T) {
	a := &agents{t: t, served: map[uint64]bool{}}
	a.carries(map[string][]float64{"host": {1e5, 2e5}, "host.copy": {1e5, 2e5}, "vxlan": {5e4, 6e4}})
	r, rec := withShare(a, 2)
	if err := r.Do(t.Context(), rec); err != nil {
		t.Fatal(err)
	}
	if len(a.plans) != 4 {
		t.Fatalf("%d plans", len(a.plans))
	}
	for series, want := range [][]float64{{5e4, 5e4, 2.5e4}, {1e5, 1e5, 3e4}} {
		p := a.plans[2*series+1]
		if p.Load != "ping" || a.plans[2*series].Load != "udp_bw" {
			t.Fatalf("series %d runs %s, then %s", series, a.plans[2*series].Load, p.Load)
		}
		for i, arm := range p.Arms {
			if math.Abs(arm.BackgroundRate-want[i]) > 1 {
				t.Errorf("series %d: %s beside %v/s, want %v", series, arm.Name, arm.BackgroundRate, want[i])
			}
		}
	}
}

// An arm without a maximum is left out where a share of it was asked for, and nowhere else.
func TestNoMaximum(t *testing.T) {
	a := &agents{t: t, served: map[uint64]bool{}}
	a.carries(map[string][]float64{"host": {1e5}, "host.copy": {1e5}, "vxlan": {0}})
	r, rec := withShare(a, 1)
	if err := r.Do(t.Context(), rec); err != nil {
		t.Fatal(err)
	}
	failed := 0
	for _, s := range rec.Slices {
		if s.Cell == "ping/56" && s.Arm == "vxlan" && s.Failed != "" {
			failed++
		} else if s.Failed != "" || s.Cell == "ping/56" && s.Arm == "vxlan" {
			t.Errorf("slice %+v", s)
		}
	}
	if failed != 1 || len(rec.Warnings) != 1 {
		t.Errorf("%d failed slices, warnings %v", failed, rec.Warnings)
	}
}

// A run that goes on with some cells measures their maximum on.
func TestWithMaximums(t *testing.T) {
	r, _ := withShare(&agents{t: t}, 1)
	if got := r.withMaximums([]string{"ping/56"}); !slices.Equal(got, []string{"ping/56", "udp_bw/1"}) {
		t.Errorf("%v", got)
	}
	if got := r.withMaximums(nil); got != nil {
		t.Errorf("all cells became %v", got)
	}
}
