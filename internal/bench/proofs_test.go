package bench

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/testenv/comparetest"

	"github.com/venturi-net/venturi/internal/compare"
	"github.com/venturi-net/venturi/internal/journal"
	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/prooflab"
	"github.com/venturi-net/venturi/internal/search"
	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/tune"
	"github.com/venturi-net/venturi/internal/verr"
)

// proofs are checks with a journal of their own.
func proofs(t *testing.T) Proofs {
	t.Helper()
	testenv.Root(t)
	c := DefaultProofs()
	c.Machine = knob.Machine{Settings: setting.NewSettings(tune.Backends("")...)}
	j, err := journal.Open(journal.Options{Folder: t.TempDir() + "/j", Settings: c.Machine.Settings, User: "a test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	c.Journal, c.LastCPU = j, 1
	return c
}

// Each fault can be planted where it is to be, its mending changes what was planted,
// all placebos can be tried there, and nothing stays.
func TestFaultsCanBePlanted(t *testing.T) {
	c := proofs(t)
	for _, f := range Faults(c.LastCPU) {
		if f.WholeMachine {
			continue // of a virtual machine
		}
		t.Run(f.Name, func(t *testing.T) {
			p, err := prooflab.Open(t.Context(), prooflab.Request(f.Path, f.Wire), comparetest.Host(t))
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := p.Close(); err != nil {
					t.Error(err)
				}
			}()
			targets, err := p.Targets(tune.Targets{})
			if err != nil {
				t.Fatal(err)
			}
			tx, err := c.Journal.Begin(0)
			if err != nil {
				t.Fatal(err)
			}
			for _, value := range []string{f.Bad, f.Good} {
				assignments, err := f.assignments(c.Machine, targets, value)
				if err != nil {
					t.Fatal(err)
				}
				written := 0
				for _, w := range assignments {
					entries, err := tune.Set(tx, c.Machine, w)
					if err != nil {
						if f.Knob == "tcp.cc" && verr.Code(err) == verr.Missing {
							t.Skip(err)
						}
						t.Fatal(err)
					}
					written += len(entries)
				}
				if written == 0 {
					t.Errorf("%s %s on %d targets changes nothing", f.Knob, value, len(assignments))
				}
			}
			all, err := placeboCandidates(c.Machine, targets)
			if err != nil || len(all) != len(placebos) {
				t.Fatalf("%d placebos, %v", len(all), err)
			}
			for _, placebo := range all {
				for _, w := range placebo.Assignments {
					if entries, err := tune.Set(tx, c.Machine, w); err != nil || len(entries) == 0 {
						t.Errorf("%s on %s: %d writes, %v", placebo.Name, w.Target, len(entries), err)
					}
				}
			}
			if err := tx.End(); err != nil {
				t.Error(err)
			}
			outcomes, err := c.Journal.Undo([]int{tx.ID()}, journal.UndoOptions{})
			for _, o := range outcomes {
				err = errors.Join(err, o.Err)
			}
			if err != nil || len(outcomes) == 0 {
				t.Errorf("%d undone, %v", len(outcomes), err)
			}
		})
	}
}

// A short proof goes through all its steps, or says what it lacks; nothing is
// claimed of what it finds.
func TestShortProof(t *testing.T) {
	c := proofs(t)
	c.Faults, c.Repeat, c.Budget, c.MDE = []string{"csum"}, 1, 4*time.Second, 100
	var out bytes.Buffer
	err := c.Check(t.Context(), &out, comparetest.Host(t))
	if err == nil || !strings.Contains(err.Error(), "budget") && !strings.Contains(err.Error(), "limits were missed") {
		t.Errorf("%v\n%s", err, &out)
	}
	for _, txn := range c.Journal.History().Txns {
		if txn.Open() {
			t.Errorf("transaction %d is open", txn.ID)
		}
	}
}

func TestProofsRefuse(t *testing.T) {
	for name, c := range map[string]Proofs{
		"unknown fault": {Faults: []string{"gremlins"}, Repeat: 1},
		"whole machine": {Faults: []string{"backlog"}, Repeat: 1},
		"none repeated": {Faults: []string{"csum"}},
	} {
		if err := c.Check(t.Context(), &bytes.Buffer{}, compare.Host{}); verr.Code(err) != verr.Usage {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCountOfProofs(t *testing.T) {
	rows := []search.Row{{Knob: fixName, Verdict: search.VerdictProven}, {Knob: "a", Verdict: search.VerdictProven}, {Knob: "b", Verdict: search.VerdictNotShown}, {Knob: "c", Verdict: search.VerdictNotTried}}
	got := countOf(&tune.ProofResult{Result: &search.Result{Rows: rows, Set: []string{"a", fixName}}}, false)
	if want := (Counts{Hits: 1, Alarms: 1, Placebos: 2, Untried: 1}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got, want := countOf(nil, true), (Counts{Misses: 1, Refused: 1}); got != want {
		t.Errorf("refused: %+v, want %+v", got, want)
	}
}
