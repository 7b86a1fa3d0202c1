package journal

import (
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/setting"
)

// failingReads is a backend whose reads fail while there is an error.
func failingReads(b setting.Backend, with *error) setting.Backend {
	read := b.Read
	b.Read = func(s setting.Setting) (setting.Value, error) {
		if *with != nil {
			return setting.Value{}, *with
		}
		return read(s)
	}
	return b
}

// The machine refuses to take an old value back. Only what that entry touches
// waits for it, until it is given up.
func TestUndoRefused(t *testing.T) {
	root, o := fixture(t, map[string]string{"/a": "one"})
	w := newWorld(t, o.Folder)
	fail := error(nil)
	backend := failingReads(w.dev.backend(), &fail)
	o.Settings = setting.NewSettings(append(setting.Backends(root), backend)...)
	j := open(t, o)
	set(t, beginTx(t, j), "/a", "two")
	if _, err := beginTx(t, j).Set("", setting.Write{Setting: deviceSetting("ring"), Value: setting.Text("512")}); err != nil {
		t.Fatal(err)
	}
	w.dev.fail = 1
	w.dev.failMode = func(d *device, key, value string) error {
		d.fail = 1
		if key == "ring" {
			return errInjected
		}
		d.set(key, value)
		return nil
	}
	for range 2 {
		outcomes, err := j.Undo([]int{2}, UndoOptions{})
		if err != nil || len(outcomes) != 1 || !errors.Is(outcomes[0].Err, errInjected) {
			t.Fatalf("%v, %v", outcomes, err)
		}
		j.Close()
		j = open(t, o)
	}
	set(t, beginTx(t, j), "/a", "three")
	if outcomes, err := j.Undo([]int{1, 3}, UndoOptions{}); err != nil || len(outcomes) != 2 || contents(t, root, "/a") != "one" {
		t.Errorf("what has nothing to do with it: %v, %v", outcomes, err)
	}
	_, err := beginTx(t, j).Set("", setting.Write{Setting: deviceSetting("coal"), Value: setting.Text("16")})
	if !errors.Is(err, errInjected) || !strings.Contains(err.Error(), "undo 2 --leave") {
		t.Errorf("a setting around it: %v", err)
	}
	fail = unix.EBUSY
	outcomes, err := j.Undo(nil, UndoOptions{Leave: true})
	if err != nil || len(outcomes) != 1 || !errors.Is(outcomes[0].Err, fail) || strings.Contains(outcomes[0].Err.Error(), "--leave") {
		t.Errorf("given up while it cannot be read: %v, %v", outcomes, err)
	}
	fail = nil
	outcomes, err = j.Undo(nil, UndoOptions{Leave: true})
	if err != nil || len(outcomes) != 1 || outcomes[0].Err != nil || outcomes[0].Entry.State != Abandoned || w.dev.values["ring"] != "512" {
		t.Errorf("given up: %v, %v; the ring is %s", outcomes, err, w.dev.values["ring"])
	}
	if _, err := beginTx(t, j).Set("", setting.Write{Setting: deviceSetting("coal"), Value: setting.Text("16")}); err != nil {
		t.Errorf("a setting around it, then: %v", err)
	}
}

// The first undo that is refused is given up at once, if that was said.
func TestRefusedAndLeft(t *testing.T) {
	_, o := fixture(t, nil)
	w := newWorld(t, o.Folder)
	j := open(t, w.o)
	if _, err := beginTx(t, j).Set("", setting.Write{Setting: deviceSetting("mtu"), Value: setting.Text("9000")}); err != nil {
		t.Fatal(err)
	}
	w.dev.fail = 1
	w.dev.failMode = func(d *device, _, _ string) error {
		d.fail = 1
		return errInjected
	}
	outcomes, err := j.Undo(nil, UndoOptions{Leave: true})
	if err != nil || len(outcomes) != 1 || outcomes[0].Err != nil || outcomes[0].Entry.State != Abandoned {
		t.Errorf("%v, %v", outcomes, err)
	}
}

// What only would be rounded to the value that is there is not that value.
func TestRoundedIsNotTheSame(t *testing.T) {
	w := newWorld(t, shm(t))
	w.dev.values["ring"] = "504"
	tx := beginTx(t, open(t, w.o))
	for asked, written := range map[string]bool{"500": true, "504": false} {
		e, err := tx.Set("", setting.Write{Setting: deviceSetting("ring"), Value: setting.Text(asked)})
		if err != nil || (e != nil) != written {
			t.Errorf("asked for %s, where 504 is: %+v, %v", asked, e, err)
		}
	}
}

// replacing is the backend of a device that can look and write in one step.
func (d *device) replacing() setting.Backend {
	backend := d.backend()
	backend.Replace = func(s setting.Setting, old, v setting.Value) error {
		if d.values[s.Key] != old.String() {
			return setting.ErrChanged
		}
		return backend.Write(s, v)
	}
	return backend
}

// Somebody else changes a value just before it is written, or just after: where the kind of
// setting can tell, their value stands.
func TestReplaceLeavesOthers(t *testing.T) {
	for point, state := range map[CrashPoint]EntryState{PointRecorded: Failed, PointWritten: InDoubt} {
		w := newWorld(t, shm(t))
		w.o.Settings = setting.NewSettings(w.dev.replacing())
		w.o.OnPoint = func(p CrashPoint) {
			if p == point {
				w.dev.values["mtu"] = "1400"
			}
		}
		j := open(t, w.o)
		if _, err := beginTx(t, j).Set("", setting.Write{Setting: deviceSetting("mtu"), Value: setting.Text("9000")}); err == nil || w.dev.values["mtu"] != "1400" {
			t.Errorf("changed when it was %s: %v; it holds %s", point, err, w.dev.values["mtu"])
		}
		if e := j.History().Txns[0].Entries[0]; e.State != state {
			t.Errorf("changed when it was %s: it is %s", point, e.State)
		}
	}
}

// Somebody else changes a value while a write that went wrong is to be taken back.
func TestGiveBackLeavesOthers(t *testing.T) {
	w := newWorld(t, shm(t))
	backend, after := w.dev.backend(), 0
	w.o.OnPoint = func(p CrashPoint) {
		if p == PointWritten {
			after = 1
		}
	}
	read := backend.Read
	backend.Read = func(s setting.Setting) (setting.Value, error) {
		if after++; after == 3 { // the second after the write
			w.dev.values["fixed"] = "9"
		}
		return read(s)
	}
	w.o.Settings = setting.NewSettings(backend)
	j := open(t, w.o)
	after = -100
	_, err := beginTx(t, j).Set("", setting.Write{Setting: deviceSetting("fixed"), Value: setting.Text("2")})
	conflict := new(ConflictError)
	if !errors.Is(err, errIgnored) || !errors.As(err, &conflict) || w.dev.values["fixed"] != "9" {
		t.Errorf("%v; it holds %s", err, w.dev.values["fixed"])
	}
	if e := j.History().Txns[0].Entries[0]; e.State != InDoubt {
		t.Errorf("it is %s", e.State)
	}
}

// Somebody else changes a value before any of the reads with which an old value is brought
// back, the last after it was written: where the kind of setting can tell, their value
// stands, and the entry stays open. With force, what was there before the write is replaced.
func TestRestoreLeavesOthers(t *testing.T) {
	undo := func(how UndoOptions) func(*Journal, *Tx, *Entry) error {
		return func(j *Journal, _ *Tx, _ *Entry) error {
			outcomes, err := j.Undo(nil, how)
			return errors.Join(err, outcomes[0].Err)
		}
	}
	for name, restore := range map[string]func(*Journal, *Tx, *Entry) error{
		"undo": undo(UndoOptions{}), "force": undo(UndoOptions{Force: true}),
		"toggle": func(_ *Journal, tx *Tx, e *Entry) error { return tx.Toggle(e, false) },
		"give back": func(_ *Journal, tx *Tx, _ *Entry) error {
			_, err := tx.Set("", setting.Write{Setting: deviceSetting("mtu"), Value: setting.Text("4000")})
			return err
		},
	} {
		for at := 1; ; at++ {
			w := newWorld(t, shm(t))
			backend, reads, changed := w.dev.replacing(), -100, false
			read, replace := backend.Read, backend.Replace
			backend.Read = func(s setting.Setting) (setting.Value, error) {
				if reads++; reads == at {
					w.dev.values["mtu"], changed = "1400", true
				}
				return read(s)
			}
			backend.Replace = func(s setting.Setting, old, v setting.Value) error {
				err := replace(s, old, v)
				if v.String() == "4000" {
					reads, err = 0, errInjected
				}
				return err
			}
			w.o.Settings = setting.NewSettings(backend)
			j := open(t, w.o)
			tx := beginTx(t, j)
			e, err := tx.Set("", setting.Write{Setting: deviceSetting("mtu"), Value: setting.Text("9000")})
			if err != nil {
				t.Fatal(err)
			}
			if name != "give back" {
				reads = 0
			}
			err = restore(j, tx, e)
			if !changed {
				if at != 5 {
					t.Errorf("%s: it reads %d times, want 4", name, at-1)
				}
				break
			}
			holds, want := w.dev.values["mtu"], "1400"
			if name == "force" && at < 4 {
				want = "1500"
			}
			if holds != want || (err != nil) != (want == "1400") || e.State.Open() != (want == "1400") {
				t.Errorf("%s, changed before read %d: it holds %s, want %s; %v; it is %s", name, at, holds, want, err, e.State)
			}
			if _, err := j.Undo(nil, UndoOptions{}); err != nil || w.dev.values["mtu"] != holds {
				t.Errorf("%s, changed before read %d: undone again, it holds %s, %v", name, at, w.dev.values["mtu"], err)
			}
		}
	}
}

// What only cannot be read now stays open, and is undone when it can be, or given up by the
// user's wish. What is gone is closed.
func TestUnreadableStaysOpen(t *testing.T) {
	inactive := &host.InactiveError{Why: "it is down"}
	for _, c := range []struct {
		err    error
		how    UndoOptions
		first  EntryState
		second string // what it holds after the next undo
	}{
		{unix.ENODEV, UndoOptions{}, Applied, "1500"},
		{unix.ENODEV, UndoOptions{Force: true}, Applied, "1500"},
		{inactive, UndoOptions{}, Applied, "1500"},
		{inactive, UndoOptions{Force: true}, Applied, "1500"},
		{inactive, UndoOptions{Leave: true}, Abandoned, "9000"},
		{unix.ENODEV, UndoOptions{Leave: true}, Abandoned, "9000"},
		{unix.EBUSY, UndoOptions{}, Applied, "1500"},
		{unix.EBUSY, UndoOptions{Leave: true}, Applied, "1500"},
		{unix.EPERM, UndoOptions{Leave: true}, Applied, "1500"},
		{errInjected, UndoOptions{Leave: true}, Applied, "1500"},
		{os.ErrNotExist, UndoOptions{}, Vanished, "9000"},
		{host.ErrGone, UndoOptions{}, Vanished, "9000"},
	} {
		w := newWorld(t, shm(t))
		fail := error(nil)
		backend := failingReads(w.dev.backend(), &fail)
		w.o.Settings = setting.NewSettings(backend)
		j := open(t, w.o)
		e, err := beginTx(t, j).Set("", setting.Write{Setting: deviceSetting("mtu"), Value: setting.Text("9000")})
		if err != nil {
			t.Fatal(err)
		}
		fail = c.err
		outcomes, err := j.Undo(nil, c.how)
		if err != nil || len(outcomes) != 1 || e.State != c.first {
			t.Fatalf("%v, %+v: it is %s, %v, %v", c.err, c.how, e.State, outcomes, err)
		}
		said, hint := outcomes[0].Err, c.err == inactive || c.err == unix.ENODEV
		if e.State.Open() != errors.Is(said, c.err) || e.State.Open() && hint != strings.Contains(said.Error(), "undo 1 --leave") {
			t.Errorf("%v, %+v: it says %v", c.err, c.how, said)
		}
		fail = nil
		if _, err := j.Undo(nil, UndoOptions{}); err != nil || w.dev.values["mtu"] != c.second || e.State.Open() {
			t.Errorf("%v, %+v: then it holds %s, and is %s, %v", c.err, c.how, w.dev.values["mtu"], e.State, err)
		}
	}
}
