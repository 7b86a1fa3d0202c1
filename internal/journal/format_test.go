package journal

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/setting"
)

// testdata/v1/journal was written by an earlier version, whose process was killed
// twice. Its keys are the format on disk: any later version reads and undoes it.
func TestUndoesJournalOfEarlierVersion(t *testing.T) {
	root, o := fixture(t, map[string]string{"/etc/a": "four\n", "/etc/b": "old\n", "/etc/d": "D\n"})
	d := newDevice()
	d.values = map[string]string{"chan": "4", "coal": "8", "fixed": "1", "mtu": "1500", "q0": "0", "q1": "0", "q2": "0", "q3": "0", "ring": "504"}
	o.Settings = setting.NewSettings(append(setting.Backends(root), d.backend())...)
	text, err := os.ReadFile("testdata/v1/journal")
	if err != nil {
		t.Fatal(err)
	}
	writeLog(t, o.Folder, text)
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

// What a later version wrote, and this one does not know, is no value and no scope: a journal with it is
// not changed, and the error names the version.
func TestRefusesJournalOfLaterVersion(t *testing.T) {
	for name, intent := range map[string]string{
		"a form of a value": `{"intent":{"txn":1,"entry":1,"cell":{"store":"file","key":"/etc/a"},"old":{"zstd":"KLUv/Q=="},"new":"two\n"}}`,
		"a kind of scope":   `{"intent":{"txn":1,"entry":1,"cell":{"store":"file","place":{"container":"c1"},"key":"/etc/a"},"old":"one\n","new":"two\n"}}`,
		"a kind of record":  `{"intent2":{"txn":1,"entry":1,"cell":{"store":"file","key":"/etc/a"},"old":"one\n","new":"two\n"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			root, o := fixture(t, map[string]string{"/etc/a": "two\n"})
			writeLog(t, o.Folder, sealed(laterBegin, intent, `{"done":{"entry":1,"found":"two\n"}}`, `{"end":{"txn":1}}`))
			if j, err := Open(o); err == nil || !strings.Contains(err.Error(), "venturi 7.1 wrote the record at byte") {
				t.Errorf("it is opened: %v, %v", j, err)
			}
			if got := contents(t, root, "/etc/a"); got != "two\n" {
				t.Errorf("the file holds %q", got)
			}
			h, err := ReadHistory(o.Folder)
			if err != nil || len(h.Damaged) != 1 || h.Damaged[0].Writer != "7.1" {
				t.Errorf("to be read: %+v, %v", h.Damaged, err)
			}
		})
	}
}

// A setting of a kind that this version does not know may outlive a reboot: its write stays open.
func TestLeavesUnknownSettingOpen(t *testing.T) {
	_, o := fixture(t, nil)
	writeLog(t, o.Folder, sealed(laterBegin, `{"intent":{"txn":1,"entry":1,"cell":{"store":"grub","key":"cmdline"},"old":"one","new":"two"}}`,
		`{"done":{"entry":1,"found":"two"}}`, `{"end":{"txn":1}}`))
	outcomes, err := open(t, o).Undo(nil, UndoOptions{})
	if err != nil || len(outcomes) != 1 || outcomes[0].Err == nil || !outcomes[0].Entry.State.Open() {
		t.Errorf("%+v, %v", outcomes, err)
	}
}

// laterBegin is of a transaction of another boot.
const laterBegin = `{"begin":{"txn":1,"time":"2027-01-01T00:00:00Z","boot":"earlier","who":"x","command":"venturi tune","version":"7.1"}}`

// sealed are lines of a log, each with the checksum of its text.
func sealed(lines ...string) (text []byte) {
	for _, l := range lines {
		text = append(text, seal([]byte(l))...)
	}
	return text
}

func writeLog(t *testing.T, folder string, text []byte) {
	t.Helper()
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, logName), text, 0o600); err != nil {
		t.Fatal(err)
	}
}
