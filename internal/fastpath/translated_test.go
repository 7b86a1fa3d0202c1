package fastpath_test

import (
	"net/netip"
	"testing"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/fastpath/kernel"
)

// translated are the keys of a flow of a pod at A whose destination B is translated to C, and its
// entries.
func translated(protocol uint8) (keys []bpf.FlowKey, flows []bpf.Flow, ended kernel.Ended) {
	a, b, c := netip.MustParseAddrPort("10.0.0.1:1"), netip.MustParseAddrPort("10.96.0.1:2"), netip.MustParseAddrPort("10.0.1.2:3")
	keys = []bpf.FlowKey{bpf.NewFlowKey(7, protocol, a, b), bpf.NewFlowKey(7, protocol, a, c).OnWire()}
	flows = make([]bpf.Flow, 2)
	for i := range flows {
		other := keys[1-i]
		flows[i].Translated = 1
		flows[i].Other.Local, flows[i].Other.Remote = other.Local, other.Remote
		flows[i].Other.LocalPort, flows[i].Other.RemotePort = other.LocalPort, other.RemotePort
	}
	return keys, flows, kernel.Ended{Connection: kernel.Connection{Protocol: protocol, A: a, B: b}, Replies: kernel.Connection{Protocol: protocol, A: c, B: a}}
}

// The two entries of a translated flow go together, at the latest when they are silent: in a
// sweep, and when the connection ends, whichever end is the pod.
func TestTranslatedForgotten(t *testing.T) {
	fast := newFast(t)
	s, _ := newSweep(t, fast, space(t))
	old, quiet := uint32(nowTick-fastpath.IdleTicks-1), uint32(nowTick-fastpath.UnlearnedTicks-1)
	for _, c := range []struct {
		name         string
		epoch        uint32
		used, onWire uint32
		left         [2]bool
	}{
		{"carried both ways", 1, nowTick, nowTick, [2]bool{true, true}},
		{"sends only", 1, nowTick, quiet, [2]bool{true, true}},
		{"sends only, for long", 1, nowTick, old, [2]bool{true, true}},
		{"silent", 1, old, nowTick, [2]bool{false, false}},
		{"never carried", 0, quiet, nowTick, [2]bool{false, false}},
	} {
		keys, flows, _ := translated(udp)
		flows[0].Epoch, flows[0].Used, flows[1].Used = c.epoch, c.used, c.onWire
		for i := range keys {
			must(t, fast.Flows.Put(keys[i], flows[i]))
		}
		sweepAll(t, s, false, nil)
		for i, k := range keys {
			if got := hasFlow(t, fast.Flows, k); got != c.left[i] {
				t.Errorf("%s: entry %d is left: %v", c.name, i, got)
			}
		}
	}
	keys, flows, _ := translated(udp)
	both := func(what string) {
		t.Helper()
		for i, k := range keys {
			if hasFlow(t, fast.Flows, k) {
				t.Errorf("%s: entry %d is left", what, i)
			}
		}
	}
	flows[1].Used = old
	must(t, fast.Flows.Put(keys[1], flows[1]))
	sweepAll(t, s, false, nil)
	both("without the pod's entry")
	flows[0].Epoch, flows[0].Used, flows[1].Used = 1, nowTick, nowTick
	for i := range keys {
		must(t, fast.Flows.Put(keys[i], flows[i]))
	}
	sweepAll(t, s, true, nil)
	both("all are to go")
	flows[0].CtEntry, flows[0].Requested, flows[0].Used = 1, nowTick-60, nowTick-50
	for i := range keys {
		must(t, fast.Flows.Put(keys[i], flows[i]))
	}
	sweepAll(t, s, false, map[uint8]uint32{udp: 3600})
	both("conntrack does not know it")

	f := fastpath.NewFlows(fast, 7)
	keys, flows, ended := translated(tcp)
	server := []bpf.FlowKey{bpf.NewFlowKey(7, tcp, ended.Replies.A, ended.Replies.B), bpf.NewFlowKey(7, tcp, ended.B, ended.A).OnWire()}
	direct := bpf.NewFlowKey(7, tcp, ended.Replies.B, ended.Replies.A)
	for i := range keys {
		must(t, fast.Flows.Put(keys[i], flows[i]))
		must(t, fast.Flows.Put(server[i], flows[i]))
	}
	must(t, fast.Flows.Put(direct, bpf.Flow{Epoch: 1}))
	must(t, f.Destroyed([]kernel.Ended{ended}, false, false))
	for i := range keys {
		if hasFlow(t, fast.Flows, keys[i]) || hasFlow(t, fast.Flows, server[i]) {
			t.Errorf("entry %d of an ended connection is left", i)
		}
	}
	if !hasFlow(t, fast.Flows, direct) {
		t.Error("the flow of another connection is gone")
	}
}
