package journal

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/verr"
)

func kernelFile(name string) setting.Setting { return setting.Setting{Backend: "kernel", Key: name} }

func put(t *testing.T, root, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// With a reboot the kernel's values are gone; files are not.
func TestAnotherBoot(t *testing.T) {
	root, o := fixture(t, map[string]string{"/etc/a": "one", "/sys/a": "1"})
	j := open(t, o)
	tx := beginTx(t, j)
	set(t, tx, "/etc/a", "two")
	if _, err := tx.Set("a.knob", setting.Write{Setting: kernelFile("/sys/a"), Value: setting.Text("2")}); err != nil {
		t.Fatal(err)
	}
	j.Close()
	o.Boot = "another"
	j = open(t, o)
	outcomes, err := j.Undo(nil, UndoOptions{})
	if err != nil || len(outcomes) != 2 {
		t.Fatalf("%v, %v", outcomes, err)
	}
	for _, out := range outcomes {
		want := map[string]EntryState{"file": Undone, "kernel": Vanished}[out.Entry.Setting.Backend]
		if out.Err != nil || out.Entry.State != want {
			t.Errorf("%s is %s (%s), %v", out.Entry.Setting, out.Entry.State, out.Entry.Reason, out.Err)
		}
	}
	if a, b := contents(t, root, "/etc/a"), contents(t, root, "/sys/a"); a != "one" || b != "2" {
		t.Errorf("the file holds %q; what the new kernel shows was %q, and nobody's to change", a, b)
	}
}

// What somebody else changed since is reported and left alone, unless it is said
// what to do with it.
func TestConflict(t *testing.T) {
	for _, c := range []struct {
		name, holds string
		how         UndoOptions
		state       EntryState
	}{
		{"left alone", "theirs", UndoOptions{}, Applied},
		{"overwritten", "one", UndoOptions{Force: true}, Undone},
		{"left for good", "theirs", UndoOptions{Leave: true}, Abandoned},
	} {
		t.Run(c.name, func(t *testing.T) {
			root, o := fixture(t, map[string]string{"/a": "one"})
			j := open(t, o)
			set(t, beginTx(t, j), "/a", "two")
			put(t, root, "/a", "theirs")
			outcomes, err := j.Undo(nil, c.how)
			if err != nil || len(outcomes) != 1 {
				t.Fatalf("%v, %v", outcomes, err)
			}
			out := outcomes[0]
			conflict := new(ConflictError)
			if errors.As(out.Err, &conflict) != (c.state == Applied) || out.Entry.State != c.state || contents(t, root, "/a") != c.holds {
				t.Errorf("%s, %v; it holds %q", out.Entry.State, out.Err, contents(t, root, "/a"))
			}
			if c.state == Applied && !strings.Contains(out.Err.Error(), "somebody else") {
				t.Errorf("it says %v", out.Err)
			}
		})
	}
}

// Somebody else wrote between two of our writes: the later one goes back to
// theirs, and the earlier one is not forced onto them.
func TestSomebodyBetween(t *testing.T) {
	for _, only := range [][]int{nil, {1}} {
		root, o := fixture(t, map[string]string{"/a": "one"})
		j := open(t, o)
		set(t, beginTx(t, j), "/a", "two")
		put(t, root, "/a", "theirs")
		set(t, beginTx(t, j), "/a", "three")
		outcomes, err := j.Undo(only, UndoOptions{})
		if err != nil {
			t.Fatal(err)
		}
		first := outcomes[len(outcomes)-1]
		conflict := new(ConflictError)
		if first.Entry.Txn != 1 || !errors.As(first.Err, &conflict) || !conflict.Now.Equal(setting.Text("theirs")) {
			t.Errorf("undo %v: %+v", only, first)
		}
		want := "theirs"
		if only != nil {
			want = "three"
		}
		if got := contents(t, root, "/a"); got != want {
			t.Errorf("undo %v: it holds %q, want %q", only, got, want)
		}
		if _, err := j.Undo(nil, UndoOptions{Force: true}); err != nil || contents(t, root, "/a") != "one" {
			t.Errorf("undo %v, then all by force: it holds %q, %v", only, contents(t, root, "/a"), err)
		}
	}
}

// Transactions are undone in any order: what is undone beneath another one
// stays until that is.
func TestUndoInTheMiddle(t *testing.T) {
	for _, c := range []struct {
		order []int
		holds []string
	}{
		{[]int{1, 2, 3}, []string{"four", "four", "one"}},
		{[]int{2, 1, 3}, []string{"four", "four", "one"}},
		{[]int{2, 3, 1}, []string{"four", "two", "one"}},
		{[]int{3, 1, 2}, []string{"three", "three", "one"}},
		{[]int{3, 2, 1}, []string{"three", "two", "one"}},
		{[]int{1, 3, 2}, []string{"four", "three", "one"}},
	} {
		root, o := fixture(t, map[string]string{"/a": "one"})
		j := open(t, o)
		for _, text := range []string{"two", "three", "four"} {
			set(t, beginTx(t, j), "/a", text)
		}
		for i, id := range c.order {
			j.Close()
			j = open(t, o) // all that it needs is on disk
			outcomes, err := j.Undo([]int{id}, UndoOptions{})
			if err != nil || len(outcomes) != 1 || outcomes[0].Err != nil {
				t.Fatalf("%v: undo %d: %+v, %v", c.order, id, outcomes, err)
			}
			if got := contents(t, root, "/a"); got != c.holds[i] {
				t.Errorf("%v: after undo %d it holds %q, want %q", c.order, id, got, c.holds[i])
			}
		}
		if outcomes, err := j.Undo(nil, UndoOptions{}); err != nil || len(outcomes) != 0 {
			t.Errorf("%v: there is more to undo: %v, %v", c.order, outcomes, err)
		}
	}
}

// A write that has no effect is taken back and closed, and says so.
func TestIgnored(t *testing.T) {
	w := newWorld(t, shm(t))
	j := open(t, w.o)
	_, err := beginTx(t, j).Set("", setting.Write{Setting: deviceSetting("fixed"), Value: setting.Text("2")})
	if !errors.Is(err, errIgnored) {
		t.Errorf("%v", err)
	}
	if e := j.History().Txns[0].Entries[0]; e.State != Failed {
		t.Errorf("it is %s", e.State)
	}
}

// A trial ends with its lease or with the boot, and not when it was confirmed.
func TestLease(t *testing.T) {
	_, o := fixture(t, map[string]string{"/a": "one"})
	j := open(t, o)
	var ids []int
	for _, lease := range []time.Duration{time.Nanosecond, time.Hour, time.Nanosecond, 0} {
		tx, err := j.Begin(lease)
		if err != nil {
			t.Fatal(err)
		}
		set(t, tx, "/a", lease.String()+string(rune('a'+tx.ID())))
		if err := tx.End(); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, tx.ID())
	}
	if err := j.Confirm(ids[2]); err != nil {
		t.Fatal(err)
	}
	half, err := j.Begin(time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	proof, err := j.BeginProof(time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	set(t, proof, "/a", "tried")
	if err := proof.End(); err != nil {
		t.Fatal(err)
	}
	for id, code := range map[int]int{99: verr.Usage, ids[3]: verr.Usage, half.ID(): verr.Failed, proof.ID(): verr.Usage} {
		if err := j.Confirm(id); verr.Code(err) != code {
			t.Errorf("confirm %d: %v", id, err)
		}
	}
	if late, err := j.Expired(); err != nil || len(late) != 1 || late[0] != ids[0] {
		t.Errorf("expired are %v, %v", late, err)
	}
	j.Close()
	container := o
	container.Boot, container.Sight = "another", host.Sight{ID: "container"}
	j = open(t, container)
	if late, err := j.Expired(); err != nil || len(late) != 0 {
		t.Errorf("in a container with a boot id of its own, expired are %v, %v", late, err)
	}
	j.Close()
	o.Boot = "another"
	j = open(t, o)
	if late, err := j.Expired(); err != nil || len(late) != 3 || late[1] != ids[1] || late[2] != proof.ID() {
		t.Errorf("after a reboot, expired are %v, %v", late, err)
	}
	if _, err := j.Undo([]int{ids[0]}, UndoOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := j.Confirm(ids[0]); err == nil {
		t.Error("what was undone was confirmed")
	}
	if _, err := j.Undo([]int{99}, UndoOptions{}); verr.Code(err) != verr.Usage {
		t.Errorf("undo what is not there: %v", err)
	}
}

// A journal that does not say what a lease is for has trials only.
func TestLeaseWithoutKind(t *testing.T) {
	h := replay(slices.Concat(sealed(`{"begin":{"txn":1,"lease":{"length":1,"until":2}}}`), sealed(`{"begin":{"txn":2,"lease":{"length":1,"until":2,"kind":"proof"}}}`)))
	if h.txns[0].Lease.Kind != TrialLease || h.txns[0].OfProof() || !h.txns[1].OfProof() {
		t.Errorf("they are %+v and %+v", h.txns[0].Lease, h.txns[1].Lease)
	}
}
