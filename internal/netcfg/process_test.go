package netcfg_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/testenv"
)

// long is a wait that only a hang exceeds.
const long = 20 * time.Second

func awaitExit(t *testing.T, c *netcfg.Child) {
	t.Helper()
	select {
	case <-c.Done:
	case <-time.After(long):
		t.Fatalf("process %d still lives", c.Pid)
	}
}

func processesIn(t *testing.T, n *netcfg.Namespace) []int {
	t.Helper()
	id, err := host.ID(n.Path())
	testenv.Must(t, err)
	pids, err := host.Reader{}.ProcessesIn(id)
	testenv.Must(t, err)
	return pids
}

func TestStartInside(t *testing.T) {
	_, n := testenv.Namespace(t)
	c, err := n.Start(netcfg.Command{Args: testenv.RoleCommand(t, "reader")})
	testenv.Must(t, err)
	if pids := processesIn(t, n); len(pids) != 1 || pids[0] != c.Pid {
		t.Errorf("processes inside: %v, want %d", pids, c.Pid)
	}
	// A long grace: only the lifeline can have ended it before.
	start := time.Now()
	c.Stop(long)
	if time.Since(start) > long {
		t.Error("the process did not notice that its lifeline was cut")
	}
	if c.Err() != nil {
		t.Errorf("it ended with %v, want success", c.Err())
	}
}

func TestStartFails(t *testing.T) {
	_, n := testenv.Namespace(t)
	if _, err := n.Start(netcfg.Command{Args: []string{"/no/such/program"}}); err == nil {
		t.Error("starting what does not exist succeeded")
	}
}

// A process that listens to nothing is killed.
func TestStopDeaf(t *testing.T) {
	_, n := testenv.Namespace(t)
	log := filepath.Join(t.TempDir(), "log")
	c, err := n.Start(netcfg.Command{Args: testenv.RoleCommand(t, "deaf"), Log: log})
	testenv.Must(t, err)
	awaitText(t, log, "deaf")
	c.Stop(50 * time.Millisecond)
	awaitExit(t, c)
	if c.Err() == nil || !strings.Contains(c.Err().Error(), "killed") {
		t.Errorf("it ended with %v, want killed", c.Err())
	}
}

func TestKillFindsWhoIsInside(t *testing.T) {
	w, n := testenv.Namespace(t)
	log := filepath.Join(t.TempDir(), "log")
	detached, err := n.Start(netcfg.Command{Args: testenv.RoleCommand(t, "deaf"), Log: log, Detach: true})
	testenv.Must(t, err)
	awaitText(t, log, "deaf")
	attached, err := n.Start(netcfg.Command{Args: testenv.RoleCommand(t, "reader")})
	testenv.Must(t, err)
	bystander := exec.Command("sleep", "60")
	testenv.Must(t, bystander.Start())
	testenv.Must(t, w.Kill([]string{n.Name()}, 50*time.Millisecond))
	if pids := processesIn(t, n); len(pids) != 0 {
		t.Errorf("still inside: %v", pids)
	}
	awaitExit(t, detached)
	awaitExit(t, attached)
	attached.Stop(long) // closes its lifeline
	if err := bystander.Process.Signal(os.Interrupt); err != nil {
		t.Errorf("a process outside was ended too: %v", err)
	}
	_ = bystander.Wait()
}

func awaitText(t *testing.T, file, want string) {
	t.Helper()
	for end := time.Now().Add(long); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if text, _ := os.ReadFile(file); strings.Contains(string(text), want) {
			return
		}
	}
	t.Fatalf("%s does not say %q", file, want)
}

// What is asked of a process that does not answer is broken off after the
// limit, and that is no interruption of whoever waits.
func TestAwaitStuck(t *testing.T) {
	_, n := testenv.Namespace(t)
	c, err := n.Start(netcfg.Command{Args: testenv.RoleCommand(t, "reader")})
	testenv.Must(t, err)
	defer c.Stop(long)
	err = c.Await(t.Context(), 50*time.Millisecond, func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	})
	if err == nil || !strings.Contains(err.Error(), "not ready after 50ms") || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Await = %v, want that it is not ready", err)
	}
	why := errors.New("another path failed")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	err = c.Await(ctx, long, func(ctx context.Context) error { return ctx.Err() })
	if !errors.Is(err, why) || errors.Is(err, context.Canceled) {
		t.Errorf("Await = %v, want the cause of the context's end", err)
	}
}
