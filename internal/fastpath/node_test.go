package fastpath_test

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	vnl "github.com/vishvananda/netlink"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/kernel"
	"github.com/venturi-net/venturi/internal/fastpath/manypods"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/testenv"
)

// node is a machine with many pods and peers, of which none ever speaks.
type node struct{ *manypods.CrowdedNode }

// newNode makes one of a kind: its pods are routed, or ports of a bridge whose peers are behind a
// tunnel.
func newNode(t testing.TB, kind string, pods, peers int) node {
	t.Helper()
	name := testenv.Claim(t)
	w, err := netcfg.Owned(name)
	must(t, err)
	create := func(of string) *netcfg.Namespace {
		n, err := w.Create(w.Name(of))
		must(t, err)
		t.Cleanup(n.Close)
		return n
	}
	folder := filepath.Join(lab.Folder, name) // in memory, as a lab's, and like that removed if the test is killed
	must(t, os.MkdirAll(folder, 0o700))
	t.Cleanup(func() { must(t, kernel.UnmountPins(folder)) })
	n, err := manypods.Raise(create("node"), create("pods"), folder, kind, pods, peers)
	must(t, err)
	return node{n}
}

// awaitDevices waits until all devices are up and the kernel has announced it.
func (n node) awaitDevices(t testing.TB) {
	t.Helper()
	must(t, n.AwaitDevices(t.Context()))
}

// carrying waits until a node carries the packets of all pods.
func (n node) carrying(t testing.TB) {
	t.Helper()
	eventuallyWithin(t, n.Limit(), "every pod's packets are carried", func() bool {
		s := n.state()
		return s.Off == "" && s.Waiting == 0 && s.Pods == len(n.Devices.Pods)
	})
}

// serving is a daemon of a node.
type serving struct {
	*exec.Cmd
	lifeline io.Closer
}

// serve starts the fast path's daemon. It is ended with the test, if it lives then.
func (n node) serve(t testing.TB, args ...string) *serving {
	t.Helper()
	s := &serving{Cmd: exec.Command(testenv.Program(t)[0], append([]string{"fastpath", "--config", n.File}, args...)...)}
	s.Stderr = t.Output()
	var err error
	s.lifeline, err = s.StdinPipe()
	must(t, err)
	must(t, host.Do(n.Netns.Path(), s.Start))
	t.Cleanup(func() { s.end(t) })
	return s
}

// end lets a daemon take the fast path away.
func (s *serving) end(t testing.TB) {
	t.Helper()
	if s.ProcessState == nil {
		must(t, s.lifeline.Close())
		must(t, s.Wait())
	}
}

// state is what the daemon says; nothing, as long as it says nothing.
func (n node) state() fastpath.State {
	s, err := fastpath.ReadState(n.State)
	if err != nil {
		return fastpath.State{Off: err.Error()}
	}
	return *s
}

// index is that of a device of the node.
func (n node) index(t testing.TB, name string) (index int) {
	t.Helper()
	testenv.InNetns(t, n.Netns.Path(), func() error {
		l, err := vnl.LinkByName(name)
		if err == nil {
			index = l.Attrs().Index
		}
		return err
	})
	return index
}
