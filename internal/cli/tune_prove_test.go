package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/journal"
	"github.com/venturi-net/venturi/internal/prooflab"
	"github.com/venturi-net/venturi/internal/search"
	"github.com/venturi-net/venturi/internal/tune"
	"github.com/venturi-net/venturi/internal/verr"
)

// The machine's own network is touched only where it is named.
func TestProofMayTouch(t *testing.T) {
	for _, c := range []struct {
		path string
		host bool
		want int
	}{
		{"vxlan", false, verr.OK},
		{"attach:from=ns:a,to=pid:1", false, verr.OK},
		{"attach:from=self,to=ns:a", false, verr.Usage},
		{"attach:from=ns:a,to=self", false, verr.Usage},
		{"attach:from=self,to=ns:a", true, verr.OK},
	} {
		p := proving{path: c.path}
		if err := p.mayTouch(c.host); verr.Code(err) != c.want {
			t.Errorf("%s, host %v: %v", c.path, c.host, err)
		}
	}
}

// What no lab takes down is undone by itself when the proof is killed.
func TestProofLease(t *testing.T) {
	for _, c := range []struct {
		path string
		more tune.Targets
		want time.Duration
	}{
		{"vxlan", tune.Targets{}, 0},
		{"vxlan", tune.Targets{Host: true}, 6 * time.Minute},
		{"attach:from=ns:a,to=ns:b", tune.Targets{}, 6 * time.Minute},
	} {
		p := proving{path: c.path, budget: time.Minute}
		if got := p.lease(&Env{}, c.more); got.Lease != c.want || (got.Hold != nil) != (c.want > 0) {
			t.Errorf("%s, %+v: %v", c.path, c.more, got.Lease)
		}
	}
}

// A proof has the journal for long: it does not begin while something is on trial.
func TestNoProofBesideTrial(t *testing.T) {
	h := journal.History{Txns: []*journal.Txn{{ID: 3, Lease: &journal.Lease{Until: 1 << 60}, Entries: []*journal.Entry{{State: journal.Applied}}}}}
	if err := tune.CheckNoLease(h, t.TempDir()); verr.Code(err) != verr.Busy {
		t.Errorf("%v", err)
	}
	h.Txns[0].Entries[0].State = journal.Undone
	if err := tune.CheckNoLease(h, t.TempDir()); err != nil {
		t.Errorf("%v", err)
	}
}

// A budget that cannot be enough is refused before anything is built.
func TestProofBudget(t *testing.T) {
	profile, err := tune.FindProfile("balanced")
	if err != nil {
		t.Fatal(err)
	}
	for budget, want := range map[time.Duration]int{time.Minute: verr.Usage, 6 * time.Minute: verr.OK} {
		pair, err := prooflab.PairTime(prooflab.Request("vxlan", ""))
		if err != nil {
			t.Fatal(err)
		}
		err = profile.CheckBudget(budget, pair, tune.Targets{})
		if verr.Code(err) != want || want == verr.Usage && !strings.Contains(err.Error(), "give at least --budget 4m") {
			t.Errorf("%s: %v", budget, err)
		}
	}
}

// What was not tried is told with its reason, and as such to machines too.
func TestProvedReport(t *testing.T) {
	result := &search.Result{Pairs: 60, Noise: []search.Noise{{Metric: "latency"}}, Set: []string{}, Rows: []search.Row{
		{Knob: "a", Verdict: search.VerdictNotShown, Pairs: 8, Effects: []search.Effect{{Metric: "latency", Value: 1, Open: true}}},
		{Knob: "b", Verdict: search.VerdictNotTried, Reason: "time was up before its turn"},
	}}
	step := tune.Step{Name: "checksums", State: tune.NotShown}
	skipped := []tune.Skipped{
		{Step: step, Kind: tune.AlreadySet, Reason: "it is on already"},
		{Step: step, Kind: tune.Unfounded, Reason: "only when it drops", Observed: "drops 0"}, // which has a row
	}
	for asJSON, want := range map[bool][]string{
		false: {"a       not shown", "b       not tried: time was up before its turn\n", "left out (each, and why: --all):\n    1  it is so already\n\nnothing was proven"},
		true:  {`"version": 2`, `"verdict": "not tried"`, `"why": "time was up before its turn"`},
	} {
		var out bytes.Buffer
		if err := new(proving).print(&out, tune.Profile{Name: "x"}, &tune.ProofResult{Result: result}, skipped, asJSON, false); err != nil {
			t.Fatal(err)
		}
		for _, text := range want {
			if !strings.Contains(out.String(), text) {
				t.Errorf("no %q in\n%s", text, &out)
			}
		}
	}
}

// An effect is more than nothing, and no more than all.
func TestEffectFlag(t *testing.T) {
	for text, want := range map[string]float64{"20%": 0.2, "0.05": 0.05, "100%": 1, "0": 0, "-3%": 0, "101%": 0, "5": 0, "NaN": 0, "inf": 0, "": 0} {
		var v share
		err := effect{&v}.Set(text)
		if (err == nil) != (want > 0) || float64(v) != want {
			t.Errorf("%q: %v, %v", text, v, err)
		}
	}
}
