package cli

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/testenv"
)

// TestTuningScripts runs those that change values: in namespaces that they
// make, and in files and a journal in their folder. Beside the commands of the other
// scripts they have:
//
//	netns NAME     make a network namespace, which goes with the script
//	holder         the holder of a trial of this script is there; with !: none is
//	kill9          kill it
//	sleep SECONDS  wait
func TestTuningScripts(t *testing.T) {
	testenv.Root(t)
	p := params("testdata/script/tuning")
	p.Setup = func(env *testscript.Env) error {
		folder := filepath.Join(env.WorkDir, "journal")
		env.Setenv("VENTURI_JOURNAL", folder)
		env.Defer(func() {
			for _, pid := range holders(folder) {
				_ = syscall.Kill(pid, syscall.SIGKILL) // it ends by itself a second later, too
			}
		})
		if err := os.Chmod(filepath.Dir(env.WorkDir), 0o755); err != nil { // for those without privileges
			return err
		}
		return setup(env)
	}
	p.Cmds["netns"] = func(ts *testscript.TestScript, _ bool, args []string) {
		ts.Check(ts.Exec("ip", "netns", "add", args[0]))
		ts.Defer(func() { ts.Check(ts.Exec("ip", "netns", "del", args[0])) })
	}
	p.Cmds["holder"] = func(ts *testscript.TestScript, neg bool, _ []string) {
		// One that has nothing to wait for any more notices within a second.
		for end := time.Now().Add(host.ScaleTimeout(time.Minute)); ; time.Sleep(20 * time.Millisecond) {
			there := len(holders(ts.Getenv("VENTURI_JOURNAL"))) > 0
			if there != neg {
				return
			}
			if time.Now().After(end) {
				ts.Fatalf("a process that holds a trial is there: %v", there)
			}
		}
	}
	p.Cmds["kill9"] = func(ts *testscript.TestScript, _ bool, _ []string) {
		found := holders(ts.Getenv("VENTURI_JOURNAL"))
		if len(found) != 1 {
			ts.Fatalf("%d processes hold trials, want 1", len(found))
		}
		ts.Check(syscall.Kill(found[0], syscall.SIGKILL))
		for end := time.Now().Add(host.ScaleTimeout(time.Minute)); len(holders(ts.Getenv("VENTURI_JOURNAL"))) > 0; time.Sleep(5 * time.Millisecond) {
			if time.Now().After(end) {
				ts.Fatalf("process %d is still there, a minute after SIGKILL: %v", found[0], host.Reader{}.Command(found[0]))
			}
		}
	}
	p.Cmds["sleep"] = func(ts *testscript.TestScript, _ bool, args []string) {
		seconds, err := strconv.ParseFloat(args[0], 64)
		ts.Check(err)
		time.Sleep(time.Duration(seconds * float64(time.Second)))
	}
	runOneByOne(t, p)
}

// holders lists the processes that hold trials of a journal.
func holders(folder string) (pids []int) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if command := strings.Join(host.Reader{}.Command(pid), " "); strings.Contains(command, " lease --journal "+folder+" ") {
			pids = append(pids, pid)
		}
	}
	return pids
}
