package tune

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/journal"
)

// trial makes a transaction with a lease, and gives what opens its journal.
func trial(t *testing.T, s *shelf, lease time.Duration) (open func() (*journal.Journal, error)) {
	t.Helper()
	open = func() (*journal.Journal, error) {
		return journal.Open(journal.Options{Folder: s.folder, Cells: s.m.Cells, Wait: time.Minute})
	}
	j, err := open()
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	held := false
	txn, _, err := Apply(t.Context(), j, s.m, s.stores, []Wish{wish("a", "one")}, Trial{Lease: lease, Hold: func(int) error {
		held = s.words["a"] == "1" // before anything is written
		return nil
	}})
	if err != nil || txn != 1 || !held {
		t.Fatalf("transaction %d, %v; the holder was there before: %v", txn, err, held)
	}
	return open
}

func TestHoldUndoes(t *testing.T) {
	s := newShelf(t, map[string]string{"a": "1"})
	open := trial(t, s, time.Millisecond)
	if err := Hold(t.Context(), s.folder, 1, open); err != nil || s.words["a"] != "1" {
		t.Errorf("%v, %v", err, s.words)
	}
}

// What nobody has to wait for any more ends the holder, long before the lease.
func TestHoldEnds(t *testing.T) {
	for name, act := range map[string]func(*testing.T, *shelf, *journal.Journal){
		"confirmed": func(t *testing.T, _ *shelf, j *journal.Journal) {
			if err := j.Confirm(1); err != nil {
				t.Fatal(err)
			}
		},
		"undone": func(t *testing.T, s *shelf, j *journal.Journal) {
			if _, err := j.Undo(nil, journal.How{}); err != nil {
				t.Fatal(err)
			}
			s.words["a"] = "one"
		},
		"gone": func(t *testing.T, s *shelf, _ *journal.Journal) {
			if err := os.RemoveAll(s.folder); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShelf(t, map[string]string{"a": "1"})
			open := trial(t, s, time.Hour)
			j, err := open()
			if err != nil {
				t.Fatal(err)
			}
			act(t, s, j)
			j.Close()
			if err := Hold(t.Context(), s.folder, 1, open); err != nil || s.words["a"] != "one" {
				t.Errorf("%v, %v", err, s.words)
			}
			if _, err := os.Stat(s.folder); name == "gone" && err == nil {
				t.Error("the journal was made anew")
			}
		})
	}
}

// Nothing is undone because the holder ends.
func TestHoldIsStopped(t *testing.T) {
	s := newShelf(t, map[string]string{"a": "1"})
	open := trial(t, s, time.Hour)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := Hold(ctx, s.folder, 1, open); !errors.Is(err, context.Canceled) || s.words["a"] != "one" {
		t.Errorf("%v, %v", err, s.words)
	}
}

func TestTrials(t *testing.T) {
	s := newShelf(t, map[string]string{"a": "1"})
	open := trial(t, s, time.Hour)
	h, err := journal.Look(s.folder)
	if err != nil {
		t.Fatal(err)
	}
	trials, err := Trials(h, s.folder)
	if err != nil || len(trials) != 1 || trials[0].Left <= 59*time.Minute || trials[0].Held || trials[0].Rebooted {
		t.Fatalf("%+v, %v", trials, err)
	}
	h.Txns[0].Boot = "another"
	if trials, err = Trials(h, s.folder); err != nil || !trials[0].Rebooted {
		t.Errorf("%+v, %v", trials, err)
	}
	j, err := open()
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if err := j.Confirm(1); err != nil {
		t.Fatal(err)
	}
	if trials, err = Trials(j.History(), s.folder); err != nil || len(trials) != 0 {
		t.Errorf("%+v, %v", trials, err)
	}
}
