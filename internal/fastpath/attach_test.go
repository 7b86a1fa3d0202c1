package fastpath_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf/link"

	"github.com/venturi-net/venturi/internal/fastpath/bpf"
)

// A pod is carried while others wait for their programs, and a daemon can be replaced
// meanwhile. The next one exchanges what is attached, with no moment between.
func TestManyPods(t *testing.T) {
	const pods = 60
	n := newNode(t, pods, 3)
	first := n.serve(t)
	eventually(t, "a pod is carried while others wait", func() bool {
		s := n.state()
		if s.Waiting == 0 && s.Pods == pods {
			t.Fatalf("no pod was carried before the last one had its programs: %+v", s)
		}
		return s.Off == "" && s.Pods > 0 && s.Waiting > 0
	})
	heir := n.serve(t, "--replace")
	must(t, first.Wait())
	n.carrying(t, time.Now())
	n.inOrder(t)
	before := n.links(t)
	if len(before) != 2*pods+2 {
		t.Fatalf("%d programs are attached, want %d", len(before), 2*pods+2)
	}
	last := n.serve(t, "--replace")
	must(t, heir.Wait())
	eventually(t, "the last daemon has taken over", func() bool { return n.exchanged(t, before) })
	n.carrying(t, time.Now())
	for pin, was := range before {
		if is := n.links(t)[pin]; is.ID != was.ID {
			t.Errorf("%s is another link now: %+v, was %+v", pin, is, was)
		}
	}
	gone := filepath.Join(n.Pins, fmt.Sprintf("from_pod_%d", n.index(t, "pod7")))
	must(t, os.Remove(gone))
	eventually(t, "what was detached is attached again", func() bool {
		_, err := os.Lstat(gone)
		return err == nil
	})
	last.end(t)
	if left, err := bpf.Attached(n.Pins); len(left) > 0 || err != nil {
		t.Errorf("left attached: %v (%v)", left, err)
	}
}

// inOrder checks that the wire's programs were attached first, and each pod's together.
func (n *node) inOrder(t *testing.T) {
	t.Helper()
	at := func(name string, device int) time.Time {
		info, err := os.Stat(filepath.Join(n.Pins, fmt.Sprintf("%s_%d", name, device)))
		must(t, err)
		return info.ModTime()
	}
	wire := n.index(t, "wire")
	begun := at("from_wire", wire)
	for _, pod := range n.Devices.Pods {
		device := n.index(t, pod)
		in, out := at("to_pod", device), at("from_pod", device)
		if in.Before(begun) || out.Before(in) {
			t.Errorf("programs of %s were attached at %v and %v, the wire's at %v", pod, in, out, begun)
		}
		begun = out
	}
}

// links are those of a node's pins.
func (n *node) links(t *testing.T) map[string]link.Info {
	t.Helper()
	pins, err := bpf.Attached(n.Pins)
	must(t, err)
	all := map[string]link.Info{}
	for _, pin := range pins {
		l, err := link.LoadPinnedLink(pin, nil)
		must(t, err)
		info, err := l.Info()
		must(t, err)
		must(t, l.Close())
		all[strings.TrimPrefix(pin, n.Pins)] = *info
	}
	return all
}

// exchanged tells whether all links have other programs than they had.
func (n *node) exchanged(t *testing.T, before map[string]link.Info) bool {
	t.Helper()
	for pin, is := range n.links(t) {
		if is.Program == before[pin].Program {
			return false
		}
	}
	return true
}
