package netcfg_test

import (
	"context"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/fastpath/audit"
	"github.com/venturi-net/venturi/internal/fastpath/topology"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/testenv"
)

// A table is rewritten whole, in one step, and others stay: nobody sees a moment
// without its rules.
func TestRewriteTable(t *testing.T) {
	_, n := testenv.Namespace(t)
	rules := func(name string, count int) netcfg.Table {
		c := netcfg.Chain{Name: "INPUT", Hook: netcfg.FilterInput}
		for i := range count {
			dst := netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}), 32)
			c.Rules = append(c.Rules, netcfg.Rule{netcfg.Dst(dst), netcfg.Accept()})
		}
		return netcfg.Table{Name: name, Chains: []netcfg.Chain{c}}
	}
	testenv.Must(t, n.AddTables(rules("other", 3)))
	var news atomic.Int32
	ctx, cancel := context.WithCancel(t.Context())
	var w topology.Watcher
	testenv.Must(t, host.Do(n.Path(), func() (err error) {
		w, err = topology.Watch(ctx, audit.IPv4, func(uint32) bool { return false }, func(batch []topology.Event) { news.Add(int32(len(batch))) })
		return err
	}))
	defer func() { cancel(); <-w.Done }()
	for i, count := range []int{5, 2, 0, 4} {
		testenv.Must(t, n.RewriteTable(rules("mine", count)))
		facts, problems := host.Reader{}.Facts("m1", host.Named{Name: "m1", Path: n.Path()})
		if len(problems) > 0 || facts.NetfilterRules != 3+count {
			t.Errorf("%d rules, want 3 and %d: %v", facts.NetfilterRules, count, problems)
		}
		for end := time.Now().Add(10 * time.Second); news.Load() < int32(i+1); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("told %d times of %d changes", news.Load(), i+1)
			}
		}
	}
	if news.Load() > 4 {
		t.Errorf("told %d times of 4 changes: some were made in several steps", news.Load())
	}
}
