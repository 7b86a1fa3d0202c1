package fastpath_test

import (
	"testing"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/fastpath/topology"
)

// The programs take it that all is tracked until rules were read that say less, and again from when these may have
// changed until they are read anew. So they take it of what bridges forward, until these are read anew.
func TestTracking(t *testing.T) {
	fast := newFast(t)
	box, err := fastpath.NewEventQueue(fast)
	must(t, err)
	const all = 3
	read := box.Numbers()
	track := func(now bpf.Tracking, wantMore bool) func() {
		return func() {
			more, err := box.Track(now, read)
			if must(t, err); more != wantMore {
				t.Errorf("%+v is more than before: %v", now, more)
			}
		}
	}
	news := func(cause topology.Cause, what topology.Changes) func() {
		return func() { box.Push(topology.Event{Changes: what, Cause: cause}) }
	}
	const rules, topo, asks = topology.RulesChanged, topology.TopologyChanged, topology.BridgeAsks
	again := func() { read = box.Numbers() }
	for _, step := range []struct {
		what string
		do   func()
		want uint32
	}{
		{"nothing", func() {}, all},
		{"rules without tracking", track(bpf.Tracking{}, false), 0},
		{"a device", news("", topo), 0},
		{"a bridge asks", track(bpf.Tracking{Bridged: true}, true), 2},
		{"rules with tracking", track(bpf.Tracking{Routed: true}, true), 1},
		{"a route", news(topology.Routes, rules|topo), 1},
		{"other rules", news(topology.Rules, rules), all},
		{"the rules before", track(bpf.Tracking{}, false), all},
		{"these rules are read", again, all},
		{"these rules", track(bpf.Tracking{}, false), 0},
		{"a port", news(topology.Devices, rules|topo), 0},
		{"a bridge that asks", news(topology.Devices, rules|topo|asks), 2},
		{"the bridges before", track(bpf.Tracking{}, false), 2},
		{"these bridges are read", again, 2},
		{"these bridges", track(bpf.Tracking{}, false), 0},
		{"anything", news(topology.LostEvents, rules|topo|asks), all},
	} {
		step.do()
		var is uint32
		if must(t, fast.Tracking.Get(&is)); is != step.want {
			t.Errorf("%s: the programs take it that %d is tracked, want %d", step.what, is, step.want)
		}
	}
}

// The daemon reads bridges that have changed, and then tells the programs what is tracked of what they forward.
func TestTrackingOfBridges(t *testing.T) {
	fast, n := newFast(t), space(t)
	box, _, end := follow(t, fast, n, func() (topology.Topology, error) { return topology.Topology{}, nil })
	for range 2 {
		eventually(t, "nothing is tracked", func() bool {
			var is uint32
			must(t, fast.Tracking.Get(&is))
			return is == 0
		})
		box.Push(topology.Event{Changes: topology.RulesChanged | topology.TopologyChanged | topology.BridgeAsks, Cause: topology.Devices})
	}
	must(t, end())
}
