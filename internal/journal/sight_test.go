package journal

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/setting"
)

// Where less is in sight than when a value was written, it is not gone, and a file of its name is
// another one: the write stays open, for an undo in the right place.
func TestUndoOutOfSight(t *testing.T) {
	const (
		sysctl  = `{"store":"sysctl","place":{"netns":{"path":"/run/netns/nothere","inode":1}},"key":"net/core/somaxconn"}`
		missing = `{"store":"kernel","key":"/sys/nothere"}`
		file    = `{"store":"file","key":"/etc/nothere"}`
		unit    = `{"store":"unit-config","key":"nothere.service /etc/nothere"}`
		tuned   = `{"store":"tuned"}`
		held    = `{"store":"held","key":"/dev/nothere"}` // absent where no process holds it
	)
	machine, container, other := host.Sight{Whole: true, ID: "m"}, host.Sight{ID: "c"}, host.Sight{ID: "o"}
	for _, c := range []struct {
		wrote, looks host.Sight
		cell         string
		how          UndoOptions
		state        EntryState
		boot         string // of who looks, if it is another
	}{
		{machine, machine, sysctl, UndoOptions{}, Vanished, ""},
		{machine, container, sysctl, UndoOptions{}, Applied, ""},
		{machine, container, sysctl, UndoOptions{Force: true}, Applied, ""},
		{machine, container, sysctl, UndoOptions{Leave: true}, Abandoned, ""},
		{container, machine, sysctl, UndoOptions{}, Vanished, ""},
		{container, container, sysctl, UndoOptions{}, Vanished, ""},
		{other, container, sysctl, UndoOptions{}, Applied, ""},
		{machine, machine, missing, UndoOptions{}, Vanished, ""},
		{machine, container, missing, UndoOptions{}, Applied, ""},
		{machine, machine, file, UndoOptions{}, Undone, ""},
		{container, container, file, UndoOptions{}, Undone, ""},
		{machine, container, file, UndoOptions{}, Applied, ""},
		{machine, container, file, UndoOptions{Force: true}, Applied, ""},
		{machine, container, file, UndoOptions{Leave: true}, Abandoned, ""},
		{container, machine, file, UndoOptions{}, Applied, ""},
		{machine, machine, unit, UndoOptions{}, Undone, ""},
		{machine, container, unit, UndoOptions{}, Applied, ""},
		{machine, machine, tuned, UndoOptions{}, Undone, ""},
		{machine, container, tuned, UndoOptions{}, Applied, ""},
		{machine, machine, held, UndoOptions{}, Undone, ""},
		{machine, container, held, UndoOptions{}, Applied, ""},
		{machine, machine, sysctl, UndoOptions{}, Vanished, "another"},
		{machine, container, sysctl, UndoOptions{}, Applied, "another"},
		{machine, container, sysctl, UndoOptions{Leave: true}, Abandoned, "another"},
	} {
		t.Run(fmt.Sprintf("%s by %s in %s %v", c.cell, c.wrote.ID, c.looks.ID+c.boot, c.how), func(t *testing.T) {
			root, o := fixture(t, nil)
			o.Sight = c.wrote
			j := open(t, o)
			if _, err := j.Begin(0); err != nil {
				t.Fatal(err)
			}
			j.Close()
			begin, err := os.ReadFile(filepath.Join(o.Folder, logName))
			if err != nil {
				t.Fatal(err)
			}
			written := sealed(`{"intent":{"txn":1,"entry":1,"cell":`+c.cell+`,"old":null,"new":"two"}}`, `{"done":{"entry":1,"found":"two"}}`)
			o.Folder, o.Sight, o.Boot = filepath.Join(t.TempDir(), "journal"), c.looks, cmp.Or(c.boot, o.Boot)
			if err := os.MkdirAll(filepath.Join(root, "dev"), 0o755); err != nil {
				t.Fatal(err)
			}
			put(t, root, "/dev/nothere", "")
			writeLog(t, o.Folder, append(begin, written...))
			j = open(t, o)
			outcomes, err := j.Undo(nil, c.how)
			if err != nil || len(outcomes) != 1 {
				t.Fatalf("%v, %v", outcomes, err)
			}
			if out := outcomes[0]; out.Entry.State != c.state || (out.Err == nil) != (c.state != Applied) {
				t.Errorf("it is %s (%s), %v", out.Entry.State, out.Entry.Reason, out.Err)
			}
			if c.cell != file || c.state != Applied {
				return
			}
			_, err = beginTx(t, j).Set("", setting.Write{Setting: setting.Setting{Backend: "file", Key: "/etc/nothere"}, Value: setting.Text("three")})
			if _, missing := os.Stat(root + "/etc/nothere"); err == nil || missing == nil {
				t.Errorf("another file of the name can be set: %v", err)
			}
		})
	}
}

// Who opens a journal says nothing of what is in sight: that is looked at.
func TestSightIsAsked(t *testing.T) {
	_, o := fixture(t, nil)
	o.Sight = host.Sight{}
	if got, want := open(t, o).options.Sight, (host.Reader{}).Sight(); got != want || got.ID == "" {
		t.Errorf("%+v, want %+v", got, want)
	}
}
