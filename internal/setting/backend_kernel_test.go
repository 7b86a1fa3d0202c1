package setting_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/venturi-net/venturi/internal/journal"
	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/testenv"
)

// What the kernel hides of a core that is offline it has again when that is online; of one
// that is online, it is gone.
func TestCoreThatIsOffline(t *testing.T) {
	const key = "/sys/devices/system/cpu/cpu3/power/energy_perf_bias"
	for online, state := range map[string]journal.EntryState{"0\n": journal.Applied, "1\n": journal.Vanished} {
		root := t.TempDir()
		file, switched := filepath.Join(root, key), filepath.Join(root, "/sys/devices/system/cpu/cpu3/online")
		testenv.Must(t, os.MkdirAll(filepath.Dir(file), 0o755))
		testenv.Must(t, os.WriteFile(file, []byte("6\n"), 0o644))
		testenv.Must(t, os.WriteFile(switched, []byte(online), 0o644))
		j, tx := openJournal(t, setting.NewSettings(setting.Backends(root)...))
		e, err := tx.Set("", setting.Write{Setting: setting.Setting{Backend: "kernel", Key: key}, Value: setting.Text("0\n")})
		testenv.Must(t, err)
		testenv.Must(t, os.Remove(file))
		outcomes, err := j.Undo(nil, journal.UndoOptions{})
		testenv.Must(t, err)
		if e.State != state || (outcomes[0].Err != nil) != e.State.Open() {
			t.Errorf("online is %q: it is %s, %v", online, e.State, outcomes[0].Err)
		}
		if !e.State.Open() {
			continue
		}
		testenv.Must(t, os.WriteFile(file, []byte("0\n"), 0o644))
		undoAll(t, j)
		if v, err := os.ReadFile(file); err != nil || string(v) != "6\n" {
			t.Errorf("online again, it holds %q, %v", v, err)
		}
	}
}
