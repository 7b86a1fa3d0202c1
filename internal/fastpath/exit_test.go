package fastpath_test

import (
	"encoding/binary"
	"errors"
	"maps"
	"os/exec"
	"testing"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/fastpath/kernel"
)

// When a daemon is killed, programs carry nothing on its word any more, at once.
func TestDaemonKilled(t *testing.T) {
	n := newNode(t, fastpath.Routed, 1, 1)
	fast, err := bpf.New(bpf.Routed, bpf.Options{}, 0)
	must(t, err)
	defer fast.Close()
	follows, err := fast.RevokeOnExit()
	if err != nil {
		t.Skipf("this kernel cannot tell a program of the end of a process: %v", err)
	}
	must(t, follows.Close())
	s := n.serve(t)
	n.carrying(t)
	deadline := globalOf(t, n.Pins, "deadline")
	if binary.NativeEndian.Uint64(deadline()) == 0 {
		t.Fatal("nothing is carried before it is killed")
	}
	must(t, s.Process.Kill())
	if err := s.Wait(); !errors.As(err, new(*exec.ExitError)) {
		t.Fatalf("it ended with %v", err)
	}
	if left := binary.NativeEndian.Uint64(deadline()); left != 0 {
		t.Errorf("packets are carried until %d on the word of a daemon that was killed", left)
	}
	n.serve(t)
	eventually(t, "the next daemon lets them be carried", func() bool { return binary.NativeEndian.Uint64(deadline()) != 0 })
}

// A daemon that hands over leaves its programs attached, which carry nothing until the next one follows the network.
func TestDaemonHandsOver(t *testing.T) {
	n := newNode(t, fastpath.Routed, 1, 1)
	s := n.serve(t)
	n.carrying(t)
	deadline, before := globalOf(t, n.Pins, "deadline"), n.programs(t)
	next, err := kernel.AcquirePinLock(t.Context(), n.Pins, true)
	must(t, err)
	defer next.Close()
	must(t, s.Wait())
	if left := binary.NativeEndian.Uint64(deadline()); left != 0 {
		t.Errorf("packets are carried until %d on the word of a daemon that has handed over", left)
	}
	if after := n.programs(t); !maps.Equal(after, before) {
		t.Errorf("attached are %v, and were %v", after, before)
	}
}
