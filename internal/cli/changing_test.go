package cli

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/display"
	"github.com/venturi-net/venturi/internal/journal"
	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/tune"
	"github.com/venturi-net/venturi/internal/verr"
)

func TestOverdue(t *testing.T) {
	for _, c := range []struct {
		trial tune.Lease
		want  string // in the reason; empty: it is not overdue
	}{
		{tune.Lease{Remaining: time.Minute, HasHolder: true}, ""},
		{tune.Lease{Remaining: -time.Millisecond, HasHolder: true}, ""}, // it is at it
		{tune.Lease{Remaining: -time.Minute, HasHolder: true}, "goes on trying"},
		{tune.Lease{Remaining: time.Minute}, "1m0s left, and the process"},
		{tune.Lease{Remaining: -time.Hour}, "ended 1h0m0s ago"},
		{tune.Lease{Remaining: time.Minute, Rebooted: true}, "rebooted"},
	} {
		if why := display.Overdue(c.trial); (why == "") != (c.want == "") || !strings.Contains(why, c.want) {
			t.Errorf("%+v: %q, want %q", c.trial, why, c.want)
		}
	}
}

// A trial that the machine's last start ended is told of, loudly.
func TestTellTroubleAfterReboot(t *testing.T) {
	var out bytes.Buffer
	h := journal.History{Txns: []*journal.Txn{{ID: 5, Boot: "another", Lease: &journal.Lease{Until: 1 << 60}, Entries: []*journal.Entry{{State: journal.Applied}}}}}
	if err := display.WarnJournal(&out, h, t.TempDir()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"transaction 5", "rebooted", "venturi undo 5", "venturi confirm 5"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q does not say %q", &out, want)
		}
	}
}

// What was on trial when the machine was rebooted is undone by the next command
// that changes something, which says so.
func TestOpenToChangeAfterReboot(t *testing.T) {
	folder, file := t.TempDir(), filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(file, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	j, err := journal.Open(journal.Options{Folder: folder, Settings: thisMachine().Settings, Boot: "another"})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	tx, err := j.Begin(time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Set("test", setting.Write{Setting: setting.Setting{Backend: "file", Key: file}, Value: setting.Text("new")}); err != nil {
		t.Fatal(err)
	}
	if err := tx.End(); err != nil {
		t.Fatal(err)
	}
	env, out := &Env{Getenv: func(name string) string { return map[string]string{journal.FolderVariable: folder}[name] }}, new(bytes.Buffer)
	env.Stderr = out

	ctx, stop := context.WithCancelCause(t.Context())
	stop(errSignal)
	if _, err := waitForJournal(ctx, env); !errors.Is(err, errSignal) {
		t.Errorf("waited with the error %v", err)
	}
	j.Close()
	j, err = openToChange(env, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if text, err := os.ReadFile(file); err != nil || string(text) != "old" || !strings.Contains(out.String(), "lease of transaction 1 ended") || strings.Contains(out.String(), "nothing undoes it") {
		t.Errorf("%q, %v; said %s", text, err, out)
	}
}

// Who changes something is told of a proof that was killed: that what it tried
// stands, and then that it was undone, until something else is changed.
func TestTellProofs(t *testing.T) {
	folder, file := t.TempDir(), filepath.Join(t.TempDir(), "values.yaml")
	env := &Env{Getenv: func(name string) string { return map[string]string{journal.FolderVariable: folder}[name] }}
	told := func(want, not string, do func(j *journal.Journal) error) {
		t.Helper()
		out := new(bytes.Buffer)
		env.Stderr = out
		j, err := openToChange(env, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer j.Close()
		if said := out.String(); !strings.Contains(said, want) || strings.Contains(said, not) || want == "" && said != "" {
			t.Errorf("said %q, want %q and not %q", said, want, not)
		}
		if err := do(j); err != nil {
			t.Error(err)
		}
	}
	told("", "proof", func(j *journal.Journal) error {
		tx, err := j.BeginProof(time.Hour)
		if err != nil {
			return err
		}
		_, err = tx.Set("test", setting.Write{Setting: setting.Setting{Backend: "file", Key: file}, Value: setting.Text("tried")})
		return err
	})
	told("still stands (transaction 1)", "confirm", func(j *journal.Journal) error {
		for _, args := range [][]string{nil, {"1"}} {
			txn, err := toConfirm(j.History(), args)
			if err == nil {
				err = j.Confirm(txn)
			}
			if e := new(verr.Error); !errors.As(err, &e) || e.Code != verr.Usage || args != nil && !strings.Contains(e.Reason, "proof") {
				t.Errorf("confirm %v: %v", args, err)
			}
		}
		_, err := j.Undo([]int{1}, journal.UndoOptions{})
		return err
	})
	told("was undone (transaction 1)", "stands", func(j *journal.Journal) error {
		_, err := j.Begin(0)
		return err
	})
	told("", "proof", func(*journal.Journal) error { return nil })
}

// Who waits for the journal is told of who has it.
func TestWaitForJournal(t *testing.T) {
	folder := t.TempDir()
	j, err := journal.Open(journal.Options{Folder: folder, Settings: thisMachine().Settings, User: "alice", Command: "venturi tune --prove"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := j.Begin(0); err != nil {
		t.Fatal(err)
	}
	out := new(bytes.Buffer)
	env := &Env{Stderr: out, Getenv: func(name string) string { return map[string]string{journal.FolderVariable: folder}[name] }}
	time.AfterFunc(700*time.Millisecond, func() { j.Close() })
	again, err := waitForJournal(t.Context(), env)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if !strings.Contains(out.String(), "transaction 1 of alice, venturi tune --prove") {
		t.Errorf("said %s", out)
	}
}

func TestBrief(t *testing.T) {
	for _, c := range []struct {
		v    setting.Value
		want string
	}{
		{setting.Value{}, "(absent)"},
		{setting.Text("\n"), "(empty)"},
		{setting.Text("4096\t131072\t6291456\n"), "4096 131072 6291456"},
		{setting.Text("rx=1\ntx=2\n"), "rx=1; tx=2"},
		{setting.Text(strings.Repeat("x", 100)), `100 bytes, "` + strings.Repeat("x", 30) + `"...`},
	} {
		if got := display.Brief(c.v); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
