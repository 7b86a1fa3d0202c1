package journal

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/venturi-net/venturi/internal/setting"
)

// testdata/v1/journal was written by an earlier version, whose process was killed
// twice. Its keys are the format on disk: any later version reads and undoes it.
func TestUndoesJournalOfEarlierVersion(t *testing.T) {
	root, o := fixture(t, map[string]string{"/etc/a": "four\n", "/etc/b": "old\n", "/etc/d": "D\n"})
	d := newDevice()
	d.cells = map[string]string{"chan": "4", "coal": "8", "fixed": "1", "mtu": "1500", "q0": "0", "q1": "0", "q2": "0", "q3": "0", "ring": "504"}
	o.Settings = setting.NewSettings(append(setting.Backends(root), d.store())...)
	text, err := os.ReadFile("testdata/v1/journal")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(o.Folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(o.Folder, logName), text, 0o600); err != nil {
		t.Fatal(err)
	}
	j := open(t, o)
	h := j.History()
	if len(h.Txns) != 5 || len(h.Damaged) > 0 || len(h.Inconsistent) > 0 {
		t.Errorf("%d transactions, damaged %v, strange %v", len(h.Txns), h.Damaged, h.Inconsistent)
	}
	if made := j.h.entry(8).Old.Mode; made == nil || *made != (setting.FileMode{Mode: "0640"}) {
		t.Errorf("the removed file is made with %v", made)
	}
	outcomes, err := j.Undo(nil, UndoOptions{})
	if err != nil {
		t.Fatal(err)
	}
	root0 := os.Geteuid() == 0
	for _, out := range outcomes {
		if out.Err != nil && (root0 || out.Entry.ID != 8) { // that file is root's
			t.Errorf("write %d: %v", out.Entry.ID, out.Err)
		}
	}
	want := map[int]EntryState{1: Superseded, 2: Superseded, 3: Undone, 4: Undone, 5: Undone, 6: Undone, 7: Undone, 8: Undone, 9: Undone, 100: Vanished, 101: Vanished}
	for _, e := range j.h.entries {
		if e.State != want[e.ID] && (root0 || e.ID != 8) {
			t.Errorf("write %d is %s, want %s", e.ID, e.State, want[e.ID])
		}
	}
	if got := d.String(); got != "chan=2 coal=8 fixed=1 mtu=1500 q0=f q1=3 ring=256" {
		t.Errorf("the device has %s", got)
	}
	for name, text := range map[string]string{"a": "one\n", "b": "old\n", "d": "d\n", "gone": "x"} {
		if name == "gone" && !root0 {
			continue
		}
		if got := contents(t, root, "/etc/"+name); got != text {
			t.Errorf("%s holds %q, want %q", name, got, text)
		}
	}
}
