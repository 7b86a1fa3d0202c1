package fastpath_test

import (
	"testing"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/fastpath/topology"
)

// The programs take it that all is tracked until rules were read that say less, and again from when these may have
// changed until they are read anew.
func TestTracking(t *testing.T) {
	fast := newFast(t)
	box, err := fastpath.NewEventQueue(fast)
	must(t, err)
	const all = 3
	old := box.RulesNumber()
	track := func(number func() uint64, now bpf.Tracking, wantMore bool) func() {
		return func() {
			more, err := box.Track(now, number())
			if must(t, err); more != wantMore {
				t.Errorf("%+v is more than before: %v", now, more)
			}
		}
	}
	first := func() uint64 { return old }
	news := func(what topology.Changes) func() {
		return func() { box.Push(topology.Event{Changes: what, Cause: topology.Rules}) }
	}
	for _, step := range []struct {
		what string
		do   func()
		want uint32
	}{
		{"nothing", func() {}, all},
		{"rules without tracking", track(first, bpf.Tracking{}, false), 0},
		{"a device", news(topology.TopologyChanged), 0},
		{"a bridge asks", track(first, bpf.Tracking{Bridged: true}, true), 2},
		{"rules with tracking", track(first, bpf.Tracking{Routed: true}, true), 1},
		{"a route", func() { box.Push(topology.Event{Changes: topology.RulesChanged, Cause: topology.Routes}) }, 1},
		{"other rules", news(topology.RulesChanged), all},
		{"the rules before", track(first, bpf.Tracking{}, false), all},
		{"these rules", track(box.RulesNumber, bpf.Tracking{}, false), 0},
	} {
		step.do()
		var is uint32
		if must(t, fast.Tracking.Get(&is)); is != step.want {
			t.Errorf("%s: the programs take it that %d is tracked, want %d", step.what, is, step.want)
		}
	}
}
