package node_test

import (
	"bytes"
	"io"
	"os/exec"
	"strings"
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
	var said []*bytes.Buffer
	for range 2 {
		out, in := c.carried(t, 0)
		var says bytes.Buffer
		next := c.startRole(t, 0, "enable", io.MultiWriter(&says, t.Output()), new(syscall.SysProcAttr), "0", "replace", "shadow")
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
		said = append(said, &says)
		running = next
	}
	for _, cmd := range []*exec.Cmd{running, other} {
		testenv.Must(t, cmd.Process.Signal(syscall.SIGTERM))
		testenv.Must(t, cmd.Wait())
	}
	for _, text := range said { // of processes that have ended
		if strings.Contains(text.String(), "compared:") {
			t.Errorf("packets that were carried are compared first: %s", text)
		}
	}
	c.check(t, 0, before)
	testenv.Must(t, exchange())
}

// Whoever takes over from a process that only compares, be it a shadow or one that is to carry afterwards, compares
// for itself before it carries.
func TestShadowReplaced(t *testing.T) {
	for role, args := range map[string][]string{"shadow": {"1000"}, "enable": {"0", "shadow"}} {
		t.Run(role, func(t *testing.T) {
			c := newCluster(t, wirings[0].node, wirings[0].pod)
			exchange := c.flow(t)
			testenv.Must(t, exchange())
			before := c.snapshot(t, 0)
			comparing := c.startRole(t, 0, role, t.Output(), new(syscall.SysProcAttr), args...)
			c.untilRunning(t, 0, true)
			var says bytes.Buffer
			next := c.startRole(t, 0, "enable", io.MultiWriter(&says, t.Output()), new(syscall.SysProcAttr), "0", "replace", "shadow")
			testenv.Must(t, comparing.Wait())
			other := c.enable(t, 1, "0")
			c.untilCarried(t, exchange)
			for _, cmd := range []*exec.Cmd{next, other} {
				testenv.Must(t, cmd.Process.Signal(syscall.SIGTERM))
				testenv.Must(t, cmd.Wait())
			}
			if text := says.String(); !strings.Contains(text, "compared: 1 flows of IPv4") {
				t.Errorf("it says %s", text)
			}
			c.check(t, 0, before)
		})
	}
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
