package fastpath_test

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/fastpath/kernel"
	"github.com/venturi-net/venturi/internal/testenv"
)

// translated6 are the entries, over IPv6, of a flow of a pod at A whose destination B is translated to C.
type translated6 struct {
	objs      *bpf.Objects
	a, b, c   netip.AddrPort
	pod, wire bpf.FlowKey
	flow      [2]bpf.Flow // of these keys
}

func newTranslated6(t *testing.T) *translated6 {
	t.Helper()
	testenv.Root(t)
	fast, err := bpf.New(bpf.Routed6, bpf.Options{}, 0)
	must(t, err)
	t.Cleanup(fast.Close)
	f := &translated6{objs: fast, a: netip.MustParseAddrPort("[fd00::1]:1"), b: netip.MustParseAddrPort("[fd00:96::1]:2"), c: netip.MustParseAddrPort("[fd00:1::2]:3")}
	for _, end := range []netip.AddrPort{f.a, f.b, f.c} {
		_, err := fast.AddrWord(end.Addr())
		must(t, err)
	}
	fast.KeepPods(slices.Values([]uint32{})) // none is a pod's
	f.pod, f.wire = f.key(t, f.a, f.b), f.key(t, f.a, f.c).OnWire()
	for i, other := range []bpf.FlowKey{f.wire, f.pod} {
		e := &f.flow[i]
		e.Epoch, e.Used, e.Translated = 1, nowTick, 1
		e.Other.Local, e.Other.Remote, e.Other.LocalPort, e.Other.RemotePort = other.Local, other.Remote, other.LocalPort, other.RemotePort
	}
	return f
}

// key is that of a flow whose ends have numbers.
func (f *translated6) key(t *testing.T, local, remote netip.AddrPort) bpf.FlowKey {
	t.Helper()
	k, ok, err := f.objs.Key(0, udp, local, remote)
	must(t, err)
	if !ok {
		t.Fatalf("%v or %v has no number", local, remote)
	}
	return k
}

// The number of an address is kept as long as a translation names it, although no key does: so no other
// address gets it, to which packets would be sent then.
func TestTranslationKeepsNumbers(t *testing.T) {
	f := newTranslated6(t)
	s, _ := newSweep(t, f.objs, space(t))
	must(t, f.objs.Flows.Put(f.pod, f.flow[0])) // that of the wire is gone
	sweepAll(t, s, false, nil)
	if now := f.key(t, f.a, f.c).OnWire(); now != f.wire {
		t.Errorf("the key on the wire was %+v, and is %+v", f.wire, now)
	}
	must(t, f.objs.Flows.Delete(f.pod))
	must(t, f.objs.Flows.Put(f.wire, f.flow[1]))
	f.flow[0].Used = nowTick
	must(t, f.objs.Flows.Put(f.pod, f.flow[0]))
	sweepAll(t, s, false, nil)
	if now := f.key(t, f.a, f.b); now != f.pod {
		t.Errorf("the key that the pod sees was %+v, and is %+v", f.pod, now)
	}
	for _, k := range []bpf.FlowKey{f.pod, f.wire} {
		must(t, f.objs.Flows.Delete(k))
	}
	for range 2 {
		sweepAll(t, s, false, nil)
	}
	for _, addr := range []netip.AddrPort{f.a, f.b, f.c} {
		if _, ok, err := f.objs.Key(0, udp, addr, addr); ok || err != nil {
			t.Errorf("nothing names %v, and it has a number: %v", addr, err)
		}
	}
}

// A connection whose flow a reset has deleted is still known by its key when the daemon comes to handle that, although
// a sweep, or those that delete everything, have come in between, and the sweep before did not see the flow: it
// was made later. The numbers are forgotten after that.
func TestResetKeepsNumbers(t *testing.T) {
	for _, seen := range []bool{true, false} {
		f := newTranslated6(t)
		s, _ := newSweep(t, f.objs, space(t))
		sweepAll(t, s, false, nil)
		must(t, f.objs.Flows.Put(f.pod, f.flow[0]))
		sweeps := []bool{true, true, false} // whether each deletes everything
		if seen {
			sweepAll(t, s, false, nil)
			sweeps = append(sweeps, false)
		}
		must(t, f.objs.Flows.Delete(f.pod)) // as the programs do
		known := func() bool {
			local, remote, ok := f.objs.Ends(f.pod)
			return ok && local == f.a && remote == f.b
		}
		for i, flush := range sweeps {
			if sweepAll(t, s, flush, nil); !known() {
				t.Fatalf("after sweep %d, nobody knows whose connection was reset (seen by the one before: %v)", i+1, seen)
			}
		}
		if sweepAll(t, s, false, nil); known() {
			t.Errorf("numbers that nothing has are kept (seen by the sweep before: %v)", seen)
		}
	}
}

// The end of a connection over IPv6 ends both entries, whichever end is the pod.
func TestTranslatedEndedOverIPv6(t *testing.T) {
	f := newTranslated6(t)
	ended := kernel.Ended{Connection: kernel.Connection{Protocol: udp, A: f.a, B: f.b}, Replies: kernel.Connection{Protocol: udp, A: f.c, B: f.a}}
	keys := []bpf.FlowKey{f.pod, f.wire, f.key(t, f.c, f.a), f.key(t, f.b, f.a).OnWire()} // of the client, and of the server
	other := f.key(t, f.a, f.c)
	for i, k := range append(keys, other) {
		must(t, f.objs.Flows.Put(k, f.flow[i%2]))
	}
	must(t, fastpath.NewFlows(f.objs, 0).Destroyed([]kernel.Ended{ended}, false, false))
	for _, k := range keys {
		if hasFlow(t, f.objs.Flows, k) {
			t.Errorf("the entry %+v of an ended connection is left", k)
		}
	}
	if !hasFlow(t, f.objs.Flows, other) {
		t.Error("the flow of another connection is gone")
	}
}
