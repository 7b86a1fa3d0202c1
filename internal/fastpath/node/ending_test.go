package node

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/fastpath/kernel"
	"github.com/venturi-net/venturi/internal/netcfg"
)

// A process that says that it is ending is waited for, as it may have a thousand programs to detach; one
// that says nothing is killed.
func TestStopProcess(t *testing.T) {
	defer func(before time.Duration) { stopTimeout = before }(stopTimeout)
	stopTimeout = 200 * time.Millisecond
	for _, c := range []struct {
		takes  string // seconds
		ending bool
	}{{"2", true}, {"1000", false}} {
		f := filesIn(t.TempDir())
		lock, err := kernel.LockFolder(t.Context(), f.folder)
		must(t, err)
		cmd := exec.Command("sleep", c.takes)
		cmd.ExtraFiles = []*os.File{lock}
		must(t, cmd.Start())
		must(t, lock.Close()) // the process holds it now
		must(t, netcfg.ReplaceJSON(f.process, cmd.Process.Pid))
		if c.ending {
			must(t, netcfg.ReplaceJSON(f.ending, true))
		}
		must(t, f.stopProcess())
		if err := cmd.Wait(); (err == nil) != c.ending {
			t.Errorf("it is ending: %v; it has ended: %v", c.ending, err)
		}
	}
}

// Daemons that end are said to, and others are not.
func TestServeSaysEnding(t *testing.T) {
	f := filesIn(t.TempDir())
	ending := func() bool {
		_, err := os.Stat(f.ending)
		return err == nil
	}
	for range 2 { // a shadow comes first
		ctx, cancel := context.WithCancel(t.Context())
		before, after := false, false
		must(t, f.serve(ctx, func(ctx context.Context) error {
			before = ending()
			cancel()
			<-ctx.Done()
			after = ending()
			return nil
		}, func() {}))
		if before || !after {
			t.Errorf("it is said to end: before %v, after %v", before, after)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
