package fastpath_test

import (
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/topology"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/testenv"
)

// What was learned before the lease is void with it, however often it was to be: one epoch is enough.
// With the lease, each time has an epoch of its own.
func TestEpochsWithoutLease(t *testing.T) {
	fast, n := newFast(t), space(t)
	c := &fastpath.Config{Kind: fastpath.Routed, Pins: t.TempDir(), State: filepath.Join(t.TempDir(), "state")}
	testenv.InNetns(t, n.Path(), func() error {
		begin, without, leased, with, err := fastpath.LeaseEpochs(c, n, fast)
		if without != begin || leased != begin+1 || with != begin+2 {
			t.Errorf("epochs are %d at first, %d when something is void without a lease, %d with the lease, and %d when something is void with it", begin, without, leased, with)
		}
		return err
	})
}

// While the audit of changed rules waits, as the daemon is at something else, packets are carried for a moment and then
// no more: the rules may treat each of them separately. Changes that no audit of rules can judge do not end the lease.
func TestLeaseUntilAudit(t *testing.T) {
	fast, n := newFast(t), space(t)
	jiffy, err := host.Jiffy()
	must(t, err)
	limit := int64(fastpath.AuditLimit / jiffy)
	var hold atomic.Bool
	busy, proceed := make(chan bool), make(chan bool)
	box, off, end := follow(t, fast, n, func() (topology.Topology, error) {
		if hold.Swap(false) {
			for _, c := range []chan bool{busy, proceed} {
				select {
				case c <- true:
				case <-t.Context().Done():
				}
			}
		}
		return topology.Topology{}, nil
	})
	left := func() int64 { // of the lease, jiffies
		var deadline uint64
		must(t, fast.Deadline.Get(&deadline))
		now, err := fast.Now()
		must(t, err)
		return int64(deadline - now)
	}
	push := func(cause topology.Cause) func() {
		return func() { box.Push(topology.Event{Changes: topology.RulesChanged, Cause: cause}) }
	}
	for _, c := range []struct {
		name   string
		change func()
		off    bool // for a reason that the audit finds
	}{
		{"an IPsec policy", push(topology.IPsec), false},
		{"an ipset", push("ipsets"), false},
		{"anything", push(topology.LostEvents), false},
		{"rules", func() { testenv.Forbid(t, n.Path()) }, false},
		{"rules that treat each packet separately", func() { testenv.Lose(t, n.Path(), 2) }, true},
	} {
		eventually(t, "packets are carried for as long as the daemon lives", func() bool { return left() > limit })
		hold.Store(true)
		box.Push(topology.Event{Changes: topology.TopologyChanged})
		<-busy
		for _, other := range []topology.Cause{topology.Routes, topology.Addresses, topology.Neighbours, topology.Devices, topology.Sysctl} {
			push(other)()
		}
		if left() <= limit {
			t.Errorf("%s: other changes have shortened the lease to %d jiffies", c.name, left())
		}
		before := epochNow(t, fast)
		c.change()
		eventually(t, c.name+": the daemon has heard of the change", func() bool { return epochNow(t, fast) > before })
		if is := left(); is > limit {
			t.Errorf("%s: packets are carried for %d jiffies without an audit, want %d at most", c.name, is, limit)
		}
		eventually(t, c.name+": packets are not carried any more", func() bool { return left() <= 0 })
		before = epochNow(t, fast)
		<-proceed
		if !c.off {
			eventually(t, c.name+": packets are carried again", func() bool { return left() > limit })
		} else {
			eventually(t, c.name+": the reason is found", func() bool { return strings.Contains(off(), "may differ between packets") })
			if left() > 0 {
				t.Errorf("%s: packets are carried", c.name)
			}
		}
		if epochNow(t, fast) == before {
			t.Errorf("%s: what was learned before the end of the lease holds", c.name)
		}
	}
	must(t, end())
}
