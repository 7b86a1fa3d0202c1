package tune

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/journal"
	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/testenv/plain"
	"github.com/venturi-net/venturi/internal/verr"
)

// trial makes a transaction with a lease, and gives what opens its journal.
func trial(t *testing.T, s *fakeHost, lease time.Duration) (open func() (*journal.Journal, error)) {
	t.Helper()
	open = func() (*journal.Journal, error) {
		return journal.Open(journal.Options{Folder: s.folder, Settings: s.m.Settings, Wait: time.Minute})
	}
	j, err := open()
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	held := false
	txn, _, err := Apply(t.Context(), j, s.m, []Assignment{assign("a", "one")}, TrialOptions{Lease: lease, Hold: func(int) error {
		held = s.values["a"] == "1" // before anything is written
		return nil
	}})
	if err != nil || txn != 1 || !held {
		t.Fatalf("transaction %d, %v; the holder was there before: %v", txn, err, held)
	}
	return open
}

func TestHoldUndoes(t *testing.T) {
	s := newFakeHost(t, map[string]string{"a": "1"})
	open := trial(t, s, time.Millisecond)
	if err := Hold(t.Context(), s.folder, 1, open); err != nil || s.values["a"] != "1" {
		t.Errorf("%v, %v", err, s.values)
	}
}

// What goes wrong is tried again, until it is undone.
func TestHoldTriesAgain(t *testing.T) {
	plain.SkipShort(t)
	t.Parallel() // it waits
	s := newFakeHost(t, map[string]string{"a": "1"})
	open := trial(t, s, time.Millisecond)
	opened := 0
	read := s.backends[0].Read
	s.backends[0].Read = func(c setting.Setting) (setting.Value, error) {
		if opened == 2 {
			return setting.Value{}, &host.InactiveError{Why: "its device is down"}
		}
		return read(c)
	}
	s.m.Settings = setting.NewSettings(s.backends...)
	err := Hold(t.Context(), s.folder, 1, func() (*journal.Journal, error) {
		if opened++; opened == 1 {
			return nil, verr.New(verr.Busy, "cannot open it", "somebody has it", "wait")
		}
		return open()
	})
	if err != nil || s.values["a"] != "1" || opened != 3 {
		t.Errorf("%v, %v; opened %d times", err, s.values, opened)
	}
}

// Somebody else's value stands: that is not tried again.
func TestHoldMeetsSomebodyElse(t *testing.T) {
	s := newFakeHost(t, map[string]string{"a": "1"})
	open := trial(t, s, time.Millisecond)
	s.values["a"] = "theirs"
	var conflict *journal.ConflictError
	if err := Hold(t.Context(), s.folder, 1, open); !errors.As(err, &conflict) || s.values["a"] != "theirs" {
		t.Errorf("%v, %v", err, s.values)
	}
}

// A trial that the machine's start has ended is undone by the next who changes it;
// one of this start is left to its holder.
func TestEndExpired(t *testing.T) {
	s := newFakeHost(t, map[string]string{"a": "1", "b": "2"})
	for i, boot := range []string{"another", ""} {
		j, err := journal.Open(journal.Options{Folder: s.folder, Settings: s.m.Settings, Boot: boot})
		if err != nil {
			t.Fatal(err)
		}
		w := []Assignment{assign("a", "one"), assign("b", "two")}[i]
		if _, _, err := Apply(t.Context(), j, s.m, []Assignment{w}, TrialOptions{Lease: time.Millisecond, Hold: func(int) error { return nil }}); err != nil {
			t.Fatal(err)
		}
		j.Close()
	}
	j := s.open(t)
	for _, want := range [][]int{{1}, nil} {
		ended, outcomes, err := UndoExpired(j)
		if err != nil || !slices.Equal(ended, want) || len(outcomes) != len(want) {
			t.Fatalf("ended %v with %+v, %v; want %v", ended, outcomes, err, want)
		}
		if s.values["b"] != "two" || j.History().Txns[0].Open() {
			t.Errorf("left %v, %+v", s.values, j.History().Txns[0])
		}
	}
}

// What nobody has to wait for any more ends the holder, long before the lease.
func TestHoldEnds(t *testing.T) {
	for name, act := range map[string]func(*testing.T, *fakeHost, *journal.Journal){
		"confirmed": func(t *testing.T, _ *fakeHost, j *journal.Journal) {
			if err := j.Confirm(1); err != nil {
				t.Fatal(err)
			}
		},
		"undone": func(t *testing.T, s *fakeHost, j *journal.Journal) {
			if _, err := j.Undo(nil, journal.UndoOptions{}); err != nil {
				t.Fatal(err)
			}
			s.values["a"] = "one"
		},
		"gone": func(t *testing.T, s *fakeHost, _ *journal.Journal) {
			if err := os.RemoveAll(s.folder); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFakeHost(t, map[string]string{"a": "1"})
			open := trial(t, s, time.Hour)
			j, err := open()
			if err != nil {
				t.Fatal(err)
			}
			act(t, s, j)
			j.Close()
			if err := Hold(t.Context(), s.folder, 1, open); err != nil || s.values["a"] != "one" {
				t.Errorf("%v, %v", err, s.values)
			}
			if _, err := os.Stat(s.folder); name == "gone" && err == nil {
				t.Error("the journal was made anew")
			}
		})
	}
}

// Nothing is undone because the holder ends.
func TestHoldIsStopped(t *testing.T) {
	s := newFakeHost(t, map[string]string{"a": "1"})
	open := trial(t, s, time.Hour)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := Hold(ctx, s.folder, 1, open); !errors.Is(err, context.Canceled) || s.values["a"] != "one" {
		t.Errorf("%v, %v", err, s.values)
	}
}

func TestTrials(t *testing.T) {
	s := newFakeHost(t, map[string]string{"a": "1"})
	open := trial(t, s, time.Hour)
	h, err := journal.ReadHistory(s.folder)
	if err != nil {
		t.Fatal(err)
	}
	trials, err := OpenLeases(h, s.folder)
	if err != nil || len(trials) != 1 || trials[0].Remaining <= 59*time.Minute || trials[0].HasHolder || trials[0].Rebooted {
		t.Fatalf("%+v, %v", trials, err)
	}
	h.Txns[0].Boot = "another"
	if trials, err = OpenLeases(h, s.folder); err != nil || !trials[0].Rebooted {
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
	if trials, err = OpenLeases(j.History(), s.folder); err != nil || len(trials) != 0 {
		t.Errorf("%+v, %v", trials, err)
	}
}

// A process that is called like the holder of a lease is one only if it is root's,
// or of the user who owns the journal.
func TestHeldByWhom(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root starts processes of others")
	}
	const bob, eve = 12345, 12346
	for _, c := range []struct {
		owner, uid int
		held       bool
	}{{0, 0, true}, {0, eve, false}, {bob, 0, true}, {bob, bob, true}, {bob, eve, false}} {
		folder := t.TempDir()
		if err := os.Chown(folder, c.owner, c.owner); err != nil {
			t.Fatal(err)
		}
		stop := pretend(t, folder, uint32(c.uid))
		if got, err := hasHolder(folder, 1); err != nil || got != c.held {
			t.Errorf("uid %d in the folder of uid %d: %v, %v; want %v", c.uid, c.owner, got, err, c.held)
		}
		stop()
	}
}

// pretend starts a process of some user that is called like the holder of the lease
// of transaction 1.
func pretend(t *testing.T, folder string, uid uint32) (stop func()) {
	t.Helper()
	args := HolderArgs(folder, 1)
	at, err := os.MkdirTemp("", "held-") // a test's own is closed to others
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(at) })
	if err := errors.Join(os.Chmod(at, 0o755), os.WriteFile(filepath.Join(at, args[0]), []byte("echo begun; read -r end\n"), 0o644)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", args...)
	cmd.Dir, cmd.SysProcAttr = at, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "begun\n" {
		t.Errorf("the process said %q, %v", line, err)
	}
	return func() {
		in.Close()
		_ = cmd.Wait() // read fails at the end of its input
	}
}

// What a writer that was killed has not finished is undone at once, long before its lease
// ends; while the writer is there, and what it has finished, is left alone.
func TestHoldUndoesTheUnfinished(t *testing.T) {
	t.Parallel() // it waits
	s := newFakeHost(t, map[string]string{"a": "1"})
	j := s.open(t)
	tx, err := j.BeginProof(time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Set(tx, s.m, assign("a", "one")); err != nil {
		t.Fatal(err)
	}
	open := func() (*journal.Journal, error) {
		return journal.Open(journal.Options{Folder: s.folder, Settings: s.m.Settings})
	}
	short, cancel := context.WithTimeout(t.Context(), 2*leasePoll)
	defer cancel()
	if err := Hold(short, s.folder, tx.ID(), open); !errors.Is(err, context.DeadlineExceeded) || s.values["a"] != "one" {
		t.Fatalf("beside the writer: %v, %v", err, s.values)
	}
	if err := j.Close(); err != nil { // as the end of its process does
		t.Fatal(err)
	}
	if err := Hold(t.Context(), s.folder, tx.ID(), open); err != nil || s.values["a"] != "1" {
		t.Errorf("without it: %v, %v", err, s.values)
	}
}
