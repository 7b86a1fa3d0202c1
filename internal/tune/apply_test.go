package tune

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/journal"
	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/verr"
)

// fakeHost is a machine whose settings are words on a shelf, with a journal.
type fakeHost struct {
	values   map[string]string
	backends []setting.Backend
	m        knob.Machine
	folder   string
	onWrite  func(key string) error // told of each write before it happens
}

func newFakeHost(t *testing.T, words map[string]string) *fakeHost {
	t.Helper()
	s := &fakeHost{values: words, folder: t.TempDir(), onWrite: func(string) error { return nil }}
	s.backends = []setting.Backend{{
		Name: "shelf",
		Read: func(c setting.Setting) (setting.Value, error) {
			w, ok := s.values[c.Key]
			if !ok {
				return setting.Value{}, os.ErrNotExist
			}
			return setting.Text(w), nil
		},
		Write: func(c setting.Setting, v setting.Value) error {
			if err := s.onWrite(c.Key); err != nil {
				return err
			}
			s.values[c.Key] = string(v.Data)
			return nil
		},
	}}
	s.m = knob.Machine{Settings: setting.NewSettings(s.backends...)}
	return s
}

func (s *fakeHost) open(t *testing.T) *journal.Journal {
	t.Helper()
	j, err := journal.Open(journal.Options{Folder: s.folder, Settings: s.m.Settings, User: "a test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	return j
}

// word is a knob that is one word on the shelf. It takes no empty one.
type word struct{ key, effective string }

func (w word) setting() setting.Setting { return setting.Setting{Backend: "shelf", Key: w.key} }

func (w word) Get(m knob.Machine, _ knob.Target) (knob.Reading, error) {
	v, err := m.Settings.Read(w.setting())
	return knob.Reading{Value: v.String(), Effective: w.effective}, err
}

func (w word) Plan(_ knob.Machine, _ knob.Target, value string) ([]setting.Write, error) {
	if value == "" {
		return nil, errors.New("a word wants letters")
	}
	return []setting.Write{{Setting: w.setting(), Value: setting.Text(value)}}, nil
}

func assign(key, value string) Assignment {
	return Assignment{Knob: knob.Entry{Facts: knob.Facts{Name: key}, Knob: word{key: key}}, Value: value}
}

func TestApply(t *testing.T) {
	s := newFakeHost(t, map[string]string{"a": "1", "b": "2", "c": "3"})
	j := s.open(t)
	txn, entries, err := Apply(t.Context(), j, s.m, []Assignment{assign("a", "one"), assign("b", "2"), assign("c", "three")}, TrialOptions{})
	if err != nil || txn != 1 || len(entries) != 2 {
		t.Fatalf("transaction %d with %d writes, %v", txn, len(entries), err)
	}
	if want := map[string]string{"a": "one", "b": "2", "c": "three"}; !maps.Equal(s.values, want) {
		t.Errorf("%v, want %v", s.values, want)
	}
	if h := j.History(); len(h.Txns) != 1 || !h.Txns[0].Ended {
		t.Errorf("%+v", h.Txns)
	}
	// What has its value already is no transaction.
	txn, entries, err = Apply(t.Context(), j, s.m, []Assignment{assign("a", "one")}, TrialOptions{})
	if err != nil || txn != 0 || len(entries) != 0 || len(j.History().Txns) != 1 {
		t.Errorf("transaction %d with %d writes, %v", txn, len(entries), err)
	}
}

// Whatever goes wrong, nothing is left changed, and the error says why.
func TestApplyAllOrNothing(t *testing.T) {
	ineffective := assign("b", "two")
	ineffective.Knob.Knob = word{key: "b", effective: "2"}
	cases := []struct {
		name        string
		assignments []Assignment
		upset       func(s *fakeHost, stop context.CancelFunc) // before it begins
		txns        int
		why         string
	}{
		{"the plan is refused", []Assignment{assign("a", "one"), assign("b", "")}, nil, 0, "wants letters"},
		{"a write fails", []Assignment{assign("a", "one"), assign("b", "two")}, func(s *fakeHost, _ context.CancelFunc) {
			s.onWrite = func(key string) error {
				if key == "b" && s.values["b"] == "2" {
					return errors.New("no room")
				}
				return nil
			}
		}, 1, "no room"},
		{"one has no effect", []Assignment{assign("a", "one"), ineffective}, nil, 1, "2 is in effect"},
		{"a later one disturbs an earlier", []Assignment{assign("a", "one"), assign("b", "two")}, func(s *fakeHost, _ context.CancelFunc) {
			s.onWrite = func(key string) error {
				if key == "b" && s.values["a"] == "one" {
					s.values["a"] = "1"
				}
				return nil
			}
		}, 1, "after the other settings"},
		{"it is interrupted", []Assignment{assign("a", "one"), assign("b", "two")}, func(s *fakeHost, stop context.CancelFunc) {
			s.onWrite = func(string) error { stop(); return nil }
		}, 1, "context canceled"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := newFakeHost(t, map[string]string{"a": "1", "b": "2"})
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			if c.upset != nil {
				c.upset(s, stop)
			}
			j := s.open(t)
			_, _, err := Apply(ctx, j, s.m, c.assignments, TrialOptions{})
			if err == nil || !strings.Contains(err.Error(), c.why) {
				t.Errorf("error %v, want one with %q", err, c.why)
			}
			if want := map[string]string{"a": "1", "b": "2"}; !maps.Equal(s.values, want) {
				t.Errorf("%v, want %v", s.values, want)
			}
			h := j.History()
			if len(h.Txns) != c.txns {
				t.Fatalf("%d transactions, want %d", len(h.Txns), c.txns)
			}
			for _, txn := range h.Txns {
				if txn.Open() || !txn.Ended {
					t.Errorf("transaction %+v is open", txn)
				}
			}
		})
	}
}

// Where taking back fails too, the error says how to try again.
func TestApplyCannotTakeBack(t *testing.T) {
	s := newFakeHost(t, map[string]string{"a": "1", "b": "2"})
	s.onWrite = func(key string) error {
		if s.values["a"] == "one" {
			return errors.New("no room")
		}
		return nil
	}
	j := s.open(t)
	_, _, err := Apply(t.Context(), j, s.m, []Assignment{assign("a", "one"), assign("b", "two")}, TrialOptions{})
	if err == nil || !strings.Contains(err.Error(), "venturi undo 1") || verr.Code(err) != verr.Failed {
		t.Errorf("%v", err)
	}
	s.onWrite = func(string) error { return nil }
	if outcomes, err := j.Undo(nil, journal.UndoOptions{}); err != nil || len(outcomes) == 0 || s.values["a"] != "1" {
		t.Errorf("%v, %v, %v", outcomes, err, s.values)
	}
}

// A trial whose holder cannot be started changes nothing.
func TestApplyWithoutHolder(t *testing.T) {
	s := newFakeHost(t, map[string]string{"a": "1"})
	j := s.open(t)
	_, _, err := Apply(t.Context(), j, s.m, []Assignment{assign("a", "one")}, TrialOptions{Lease: time.Hour, Hold: func(int) error { return errors.New("no process") }})
	if err == nil || !strings.Contains(err.Error(), "no process") || s.values["a"] != "1" || len(j.History().Txns[0].Entries) != 0 {
		t.Errorf("%v, %v", err, s.values)
	}
}

// Two settings of one file are two changes of it, in the plan too.
func TestRehearse(t *testing.T) {
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "f"), []byte("a\nb\nc\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	backends := setting.Backends(root)
	m := knob.Machine{Settings: setting.NewSettings(backends...)}
	planned, err := DryRun(m, []Assignment{
		{Knob: knob.Entry{Facts: knob.Facts{Name: "first"}, Knob: line{"a", "A"}}, Value: "x"},
		{Knob: knob.Entry{Facts: knob.Facts{Name: "second"}, Knob: line{"c", "C"}}, Value: "x"},
	})
	if err != nil {
		t.Fatal(err)
	}
	total := Total(planned)
	if len(planned) != 2 || len(total) != 1 {
		t.Fatalf("%+v", planned)
	}
	want := "--- file /f\n+++ file /f\n@@ -1,3 +1,3 @@\n-a\n+A\n b\n-c\n+C\n"
	if got := total[0].Diff(); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if text, err := os.ReadFile(filepath.Join(root, "f")); err != nil || string(text) != "a\nb\nc\n" {
		t.Errorf("the file holds %q, %v", text, err)
	}
}

// line is a knob that makes one line of a file another one.
type line struct{ from, to string }

func (l line) Get(knob.Machine, knob.Target) (knob.Reading, error) { return knob.Reading{}, nil }

func (l line) Plan(m knob.Machine, _ knob.Target, _ string) ([]setting.Write, error) {
	s := setting.Setting{Backend: "file", Key: "/f"}
	v, err := m.Settings.Read(s)
	return []setting.Write{{Setting: s, Value: setting.Text(strings.Replace(string(v.Data), l.from+"\n", l.to+"\n", 1))}}, err
}

func TestDiff(t *testing.T) {
	absent := setting.Value{}
	for _, c := range []struct {
		backend  string
		old, new setting.Value
		want     string
	}{
		{"sysctl", setting.Text("1\n"), setting.Text("2"), "@@ -1,1 +1,1 @@\n-1\n+2\n"},
		{"file", absent, setting.Text("x\n"), "@@ -0,0 +1,1 @@\n+x\n"},
		{"file", setting.Text("x\n"), setting.Text("x"), "@@ -1,1 +1,1 @@\n-x\n+x\n\\ No newline at end of file\n"},
	} {
		got := Change{setting.Setting{Backend: c.backend, Key: "k"}, c.old, c.new}.Diff()
		if want := "--- " + c.backend + " k\n+++ " + c.backend + " k\n" + c.want; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
