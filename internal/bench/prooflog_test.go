package bench

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/compare"
	"github.com/venturi-net/venturi/internal/search"
	"github.com/venturi-net/venturi/internal/tune"
	"github.com/venturi-net/venturi/internal/verr"
)

// recorded are checks whose record holds so many proofs of a fault.
func recorded(t *testing.T, n int) Proofs {
	t.Helper()
	c := DefaultProofs()
	c.Faults, c.Build, c.Record = []string{"csum"}, "v1", t.TempDir()+"/proofs"
	r, err := c.openLog()
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		f := ProofRecord{Build: c.Build, Fault: "csum", Budget: c.Budget, MDE: c.MDE, Seed: c.Seed, Nth: i, Counts: Counts{Hits: 1, Placebos: 9, Untried: 1}, Summary: "kept: mend"}
		if err := r.add(f); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// What a record holds counts, and is not made again: no lab is raised for it.
func TestRecordedProofsCount(t *testing.T) {
	c := recorded(t, 10)
	var out bytes.Buffer
	if err := c.Check(t.Context(), &out, compare.Host{}); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	for _, want := range []string{"csum   3/10", "(recorded)", "hits: 10, misses: 0", "0 of 90 placebos that were judged; 10 were not tried"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
}

// Proofs that were made otherwise are not mixed with these.
func TestRecordOfAnotherBuild(t *testing.T) {
	for name, change := range map[string]func(*Proofs){
		"build":  func(c *Proofs) { c.Build = "v2" },
		"budget": func(c *Proofs) { c.Budget++ },
		"effect": func(c *Proofs) { c.MDE = 0.5 },
		"seed":   func(c *Proofs) { c.Seed++ },
	} {
		c := recorded(t, 1)
		change(&c)
		if _, err := c.openLog(); verr.Code(err) != verr.Usage || !strings.Contains(err.Error(), "line 1") {
			t.Errorf("%s: %v", name, err)
		}
	}
	c := recorded(t, 1)
	if err := os.WriteFile(c.Record, []byte("{\"build\":\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := c.openLog(); verr.Code(err) != verr.Failed || !strings.Contains(err.Error(), "line 1") {
		t.Errorf("cut: %v", err)
	}
}

// Of each placebo that was kept the report says for what, and how sure.
func TestTellFalseAlarm(t *testing.T) {
	effects := []search.Effect{{Metric: "latency", Value: 0.9, Lo: 0.85, Hi: 0.95}, {Metric: "packets", Value: 1, Open: true}}
	p := &tune.ProofResult{Result: &search.Result{Set: []string{"placebo x"}, Rows: []search.Row{
		{Knob: "placebo x", Verdict: search.VerdictProven, Metric: "latency", Effects: effects},
		{Knob: "placebo y", Verdict: search.VerdictNotTried, Reason: "time was up"},
		{Knob: fixName, Verdict: search.VerdictNotShown, Effects: effects},
	}}}
	got := summarizeProof(p, nil)
	for _, want := range []string{"FALSE ALARM placebo x: latency 0.900 [0.850, 0.950];", "placebo y not tried: time was up", "not shown; latency 0.900 [0.850, 0.950]; packets 1.000"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %s", want, got)
		}
	}
}
