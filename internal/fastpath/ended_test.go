package fastpath_test

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/fastpath/kernel"
)

// Of a connection that ends, the flow is forgotten from either side; where ends were
// missed, all are.
func TestEnded(t *testing.T) {
	fast := newFast(t)
	f := fastpath.NewFlows(fast, 7)
	a, b, c := netip.MustParseAddrPort("10.0.0.1:1"), netip.MustParseAddrPort("10.0.1.1:2"), netip.MustParseAddrPort("10.0.1.2:3")
	keys := []bpf.FlowKey{bpf.NewFlowKey(7, tcp, a, b), bpf.NewFlowKey(7, tcp, b, a), bpf.NewFlowKey(7, tcp, a, c), bpf.NewFlowKey(7, udp, a, b)}
	for _, k := range keys {
		must(t, fast.Flows.Put(k, bpf.Flow{Epoch: 1}))
	}
	ended := kernel.Ended{Connection: kernel.Connection{Protocol: tcp, A: a, B: b}, Replies: kernel.Connection{Protocol: tcp, A: b, B: a}}
	must(t, f.Destroyed([]kernel.Ended{ended}, false, false))
	for i, want := range []bool{false, false, true, true} {
		if got := hasFlow(t, fast.Flows, keys[i]); got != want {
			t.Errorf("flow %d is there: %v", i, got)
		}
	}
	if before := epochNow(t, fast); f.Flushing() || before != 1 {
		t.Errorf("something was lost, in epoch %d", before)
	}
	must(t, f.Destroyed(nil, true, false))
	if after := epochNow(t, fast); !f.Flushing() || after != 2 {
		t.Errorf("ends were lost, and what was learned holds in epoch %d", after)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, track := newSweep(t, fast, space(t))
	done := make(chan error, 1)
	go func() { done <- f.Sweeps(ctx, track) }()
	for hasFlow(t, fast.Flows, keys[2]) || hasFlow(t, fast.Flows, keys[3]) {
		if ctx.Err() != nil {
			t.Fatal("flows are left")
		}
		time.Sleep(time.Millisecond)
	}
	cancel()
	must(t, <-done)
}

// Ends of connections that come faster than flows are deleted end everything that was learned, once they have waited
// for long, and then each time that they have for as long again; others do not.
func TestEndedBacklog(t *testing.T) {
	fast := newFast(t)
	f := fastpath.NewFlows(fast, 0)
	told := func(more bool) (bumped bool) {
		t.Helper()
		before := epochNow(t, fast)
		must(t, f.Destroyed(nil, false, more))
		return epochNow(t, fast) != before
	}
	for range 3 {
		begun, last := time.Now(), time.Now()
		if told(true) {
			t.Fatal("what was learned ends, though nothing has waited for long")
		}
		for range 2 {
			eventually(t, "what was learned ends", func() bool {
				last = time.Now()
				return told(true)
			})
			if after := time.Since(begun); after < fastpath.MaxBacklog {
				t.Errorf("it ends after %v, want %v", after, fastpath.MaxBacklog)
			}
			begun = last
		}
		if told(false) {
			t.Error("it ends once more, though nothing waits")
		}
	}
	for begun := time.Now(); time.Since(begun) < 2*fastpath.MaxBacklog; time.Sleep(time.Millisecond) {
		if told(true) || told(false) {
			t.Fatal("it ends though nothing has waited for long")
		}
	}
	if f.Flushing() {
		t.Error("all flows are to be deleted")
	}
}
