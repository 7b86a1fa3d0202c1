package journal

import (
	"errors"
	"testing"

	"github.com/venturi-net/venturi/internal/setting"
)

// What became of a write whose process was killed is settled as soon as somebody
// opens the journal: what changes around it after that is somebody else's.
func TestDoubtIsSettled(t *testing.T) {
	for _, c := range []struct {
		name   string
		at     CrashPoint        // where the process is killed
		before map[string]string // what somebody else does before the journal is opened
		after  map[string]string // and after that
		state  EntryState        // then
		undone EntryState        // after undo; InDoubt: it is refused
		holds  map[string]string
	}{
		{"written", PointWritten, nil, map[string]string{"mtu": "9000", "q0": "7"}, Applied, Undone, map[string]string{"ring": "256", "coal": "4", "mtu": "9000", "q0": "7"}},
		{"written, and changed where it had an effect", PointWritten, nil, map[string]string{"coal": "5"}, Applied, Undone, map[string]string{"ring": "256", "coal": "5"}},
		{"not written", PointRecorded, nil, map[string]string{"ring": "512", "mtu": "9000"}, Failed, Failed, map[string]string{"ring": "512", "mtu": "9000", "coal": "4"}},
		{"not written, and changed around", PointRecorded, map[string]string{"mtu": "9000"}, nil, InDoubt, InDoubt, map[string]string{"ring": "256", "mtu": "9000", "coal": "4"}},
		{"changed by somebody else", PointWritten, map[string]string{"ring": "128"}, nil, InDoubt, InDoubt, map[string]string{"ring": "128", "coal": "8"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, shm(t))
			w.dev.values["coal"] = "4"
			w.o.OnPoint = func(p CrashPoint) {
				if p == c.at {
					panic(killed{})
				}
			}
			dead, err := w.process(func(j *Journal) error {
				_, err := beginTx(t, j).Set("", setting.Write{Setting: deviceSetting("ring"), Value: setting.Text("512")})
				return err
			})
			if !dead || err != nil {
				t.Fatal(err)
			}
			w.o.OnPoint = nil
			somebody := func(does map[string]string) {
				for key, value := range does {
					w.dev.values[key] = value
				}
			}
			somebody(c.before)
			open(t, w.o).Close() // such as another command does
			if h, err := ReadHistory(w.o.Folder); err != nil || h.Txns[0].Entries[0].State != c.state {
				t.Errorf("it is %s, %v", h.Txns[0].Entries[0].State, err)
			}
			somebody(c.after)
			j := open(t, w.o)
			outcomes, err := j.Undo(nil, UndoOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range outcomes {
				if conflict := new(ConflictError); errors.As(o.Err, &conflict) != (c.undone == InDoubt) {
					t.Errorf("undo: %v", o.Err)
				}
			}
			if e := j.History().Txns[0].Entries[0]; e.State != c.undone {
				t.Errorf("in the end it is %s", e.State)
			}
			for key, value := range c.holds {
				if w.dev.values[key] != value {
					t.Errorf("%s is %s, want %s", key, w.dev.values[key], value)
				}
			}
		})
	}
}
