package node_test

import (
	"bytes"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/fastpath/topology"
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
		running = c.replace(t, running, exchange, io.MultiWriter(&says, t.Output()), "shadow")
		c.untilCarried(t, exchange)
		if nowOut, nowIn := c.carried(t, 0); nowOut < out || nowIn < in {
			t.Errorf("carried were %d packets out and %d in, and now %d and %d", out, in, nowOut, nowIn)
		}
		said = append(said, &says)
	}
	terminate(t, running, other)
	for _, text := range said { // of processes that have ended
		if strings.Contains(text.String(), "compared:") {
			t.Errorf("packets that were carried are compared first: %s", text)
		}
	}
	c.check(t, 0, before)
	testenv.Must(t, exchange())
}

// replace starts a process on the first node that takes over from another, and waits until that has ended. Each
// datagram is answered meanwhile.
func (c *cluster) replace(t *testing.T, running *exec.Cmd, exchange func() error, out io.Writer, words ...string) (next *exec.Cmd) {
	t.Helper()
	next = c.startRole(t, 0, "enable", out, new(syscall.SysProcAttr), append([]string{"0", "replace"}, words...)...)
	for done := waiting(running); done != nil; time.Sleep(time.Millisecond) {
		testenv.Must(t, exchange())
		select {
		case err := <-done:
			testenv.Must(t, err)
			done = nil
		case <-t.Context().Done():
			t.Fatal("it has not handed over")
		default:
		}
	}
	return next
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
			terminate(t, next, other)
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

// A process of an earlier version, which recorded the clsacts that it added, is taken over, too: no packet is
// lost, the records become marks, and when the one that took over ends, the node is as before the first.
func TestEnableReplacedRecordedClsacts(t *testing.T) {
	c := newCluster(t, wirings[0].node, wirings[0].pod)
	exchange := c.flow(t)
	testenv.Must(t, exchange())
	before := c.snapshot(t, 0)
	running, other := c.start(t, 0, new(syscall.SysProcAttr), "0", byFilters), c.start(t, 1, new(syscall.SysProcAttr), "0", byFilters)
	for i := range c.nodes { // while clsact is added, the kernel may drop a packet
		c.untilRunning(t, i, true)
	}
	c.untilCarried(t, exchange)
	added, _ := c.clsacts(t)
	for _, device := range added {
		c.recordClsact(t, 0, device)
	}
	if _, marked := c.clsacts(t); len(added) == 0 || len(marked) > 0 {
		t.Fatalf("clsact is at %v, and still has a mark at %v", added, marked)
	}
	running = c.replace(t, running, exchange, t.Output(), byFilters)
	c.untilCarried(t, exchange)
	_, marked := c.clsacts(t)
	left, err := filepath.Glob(c.clsactRecord(t, 0) + "*")
	testenv.Must(t, err)
	if !slices.Equal(marked, added) || len(left) > 0 {
		t.Errorf("clsact was added to %v, and has a mark at %v; the records %v are left", added, marked, left)
	}
	terminate(t, running, other)
	c.check(t, 0, before)
	testenv.Must(t, exchange())
}

// clsacts lists the devices of the first node that have clsact, and those of them whose clsact has a mark.
func (c *cluster) clsacts(t *testing.T) (all, marked []string) {
	t.Helper()
	names := func(list func() ([]int, error)) (names []string) {
		testenv.InNetns(t, c.nodes[0].Path(), func() error {
			devices, err := list()
			testenv.Must(t, err)
			for _, index := range devices {
				device, err := net.InterfaceByIndex(index)
				testenv.Must(t, err)
				names = append(names, device.Name)
			}
			return nil
		})
		return names
	}
	return names(topology.DevicesWithClsact), names(topology.DevicesWithSizedClsact)
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
			terminate(t, first)
		})
	}
}
