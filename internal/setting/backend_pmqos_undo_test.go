package setting_test

import (
	"fmt"
	"hash/crc32"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/journal"
	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/testenv"
)

// hold is the role of a holder of an earlier version.
func hold([]string) int {
	for { // an empty select would be taken for a deadlock
		time.Sleep(time.Hour)
	}
}

// An earlier version set cpu.dma_latency: its journal is undone by ending the holder,
// which is another version's program, and where there is none any more too.
func TestUndoesLatencyOfEarlierVersion(t *testing.T) {
	testenv.Program(t)
	for _, running := range []bool{true, false} {
		root, folder := t.TempDir(), t.TempDir()
		name := filepath.Join(root, "dev/cpu_dma_latency")
		testenv.Must(t, os.MkdirAll(filepath.Dir(name), 0o755))
		file, err := os.Create(name)
		testenv.Must(t, err)
		defer file.Close()
		settings := setting.NewSettings(setting.Backends(root)...)
		ended := make(chan error, 1)
		if running {
			other := filepath.Join(t.TempDir(), "other")
			own, err := os.ReadFile("/proc/self/exe")
			testenv.Must(t, err)
			testenv.Must(t, os.WriteFile(other, own, 0o755))
			cmd := exec.Command(other, "hold", "--file", name, "--number", "7")
			cmd.ExtraFiles = []*os.File{file}
			testenv.Must(t, cmd.Start())
			go func() { ended <- cmd.Wait() }()
		}
		held := setting.Setting{Backend: "held", Key: "/dev/cpu_dma_latency"}
		for start := time.Now(); running; time.Sleep(time.Millisecond) {
			v, err := settings.Read(held)
			testenv.Must(t, err)
			if v.Equal(setting.Text("7")) {
				break
			}
			if time.Since(start) > time.Minute {
				t.Fatal("the holder is not found")
			}
		}
		var text strings.Builder
		for _, line := range []string{
			`{"begin":{"txn":1,"time":"2026-11-25T03:49:55Z","boot":"this","who":"a test","command":"venturi knob set cpu.dma_latency 7","version":"0.9.0"}}`,
			`{"intent":{"txn":1,"entry":1,"knob":"cpu.dma_latency","cell":{"store":"held","key":"/dev/cpu_dma_latency"},"old":null,"new":"7"}}`,
			`{"done":{"entry":1,"found":"7"}}`,
			`{"end":{"txn":1}}`,
		} {
			fmt.Fprintf(&text, "%08x %s\n", crc32.Checksum([]byte(line), crc32.MakeTable(crc32.Castagnoli)), line)
		}
		testenv.Must(t, os.WriteFile(filepath.Join(folder, "journal"), []byte(text.String()), 0o600))
		j, err := journal.Open(journal.Options{Folder: folder, Settings: settings, Boot: "this", Sight: host.Sight{Whole: true, ID: "this"}})
		testenv.Must(t, err)
		outcomes, err := j.Undo(nil, journal.UndoOptions{})
		testenv.Must(t, err)
		testenv.Must(t, j.Close())
		if len(outcomes) != 1 || outcomes[0].Err != nil || outcomes[0].Entry.State != journal.Undone {
			t.Errorf("%+v", outcomes)
		}
		if running && <-ended == nil {
			t.Error("the holder was not killed, but ended")
		}
	}
}
