package node_test

import (
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/testenv"
)

// A second process takes over: no packet is lost, what was counted stays, and when that one ends,
// the node is as before the first. A third does so from the second.
func TestEnableReplaced(t *testing.T) {
	c := newCluster(t, wirings[0].node, wirings[0].pod)
	exchange := c.flow(t)
	testenv.Must(t, exchange())
	before := c.snapshot(t, 0)
	running, other := c.enable(t, 0, "0"), c.enable(t, 1, "0")
	c.untilCarried(t, exchange)
	for range 2 {
		out, in := c.carried(t, 0)
		next := c.start(t, 0, new(syscall.SysProcAttr), "0", "replace")
		for done := waiting(running); done != nil; time.Sleep(time.Millisecond) {
			testenv.Must(t, exchange()) // each datagram is answered
			select {
			case err := <-done:
				testenv.Must(t, err)
				done = nil
			case <-t.Context().Done():
				t.Fatal("it has not handed over")
			default:
			}
		}
		c.untilCarried(t, exchange)
		if nowOut, nowIn := c.carried(t, 0); nowOut < out || nowIn < in {
			t.Errorf("carried were %d packets out and %d in, and now %d and %d", out, in, nowOut, nowIn)
		}
		running = next
	}
	for _, cmd := range []*exec.Cmd{running, other} {
		testenv.Must(t, cmd.Process.Signal(syscall.SIGTERM))
		testenv.Must(t, cmd.Wait())
	}
	c.check(t, 0, before)
	testenv.Must(t, exchange())
}

func waiting(cmd *exec.Cmd) <-chan error {
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	return done
}

// What cannot be taken over stays as it is: a trial, or one whose pins are not visible here.
func TestEnableNotReplaced(t *testing.T) {
	for name, start := range map[string]func(c *cluster, t *testing.T) *exec.Cmd{
		"trial":             func(c *cluster, t *testing.T) *exec.Cmd { return c.enable(t, 0, "10m") },
		"mounts of its own": func(c *cluster, t *testing.T) *exec.Cmd { return c.enableFilters(t, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, wirings[1].node, wirings[1].pod)
			testenv.Must(t, c.flow(t)())
			first := start(c, t)
			c.untilRunning(t, 0, true)
			if err := c.start(t, 0, new(syscall.SysProcAttr), "0", "replace").Wait(); err == nil {
				t.Error("it was taken over")
			}
			if !c.status(t, 0).Running {
				t.Error("the first one has gone")
			}
			testenv.Must(t, first.Process.Signal(syscall.SIGTERM))
			testenv.Must(t, first.Wait())
		})
	}
}
