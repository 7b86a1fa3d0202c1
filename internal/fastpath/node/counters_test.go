package node_test

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/testenv"
)

// counterOff is what makes a fast path that keeps counters stop on the first node, and what lets it
// carry again.
var counterOff = []struct{ name, add, del, why string }{
	{"a rule that counts", "nft 'table ip acct { chain c { type filter hook forward priority 0; ip saddr 10.244.0.0/16 counter; }; }'", "nft delete table ip acct",
		"--keep-counters=rules is given, and established flows may reach rules that count or log (in ip acct c)"},
	{"a rule of iptables that does nothing else", "iptables-nft -I FORWARD -s 10.244.0.0/16", "iptables-nft -D FORWARD -s 10.244.0.0/16",
		"--keep-counters=rules is given, and "},
	{"accounting of connections", "echo 1 > /proc/sys/net/netfilter/nf_conntrack_acct", "echo 0 > /proc/sys/net/netfilter/nf_conntrack_acct",
		"--keep-counters=conntrack is given, and connection accounting is on (net.netfilter.nf_conntrack_acct=1)"},
}

// A fast path that keeps counters carries where only iptables counts, as it always does, and nothing
// while somebody counts on purpose, whenever that begins. One that keeps none carries all the same.
func TestEnableKeepsCounters(t *testing.T) {
	c := newCluster(t, wirings[1].node, wirings[1].pod)
	c.loadProxy(t, 0, proxies[0].rules(0), proxies[0].program)
	exchange := c.flow(t)
	testenv.Must(t, exchange())
	kept, other := c.start(t, 0, new(syscall.SysProcAttr), "0", "keep"), c.enable(t, 1, "0")
	c.forgetConnections(t)
	c.untilCarried(t, exchange)
	c.untilCounters(t, "misses those of iptables", func(got fastpath.BypassedCounters) bool {
		return got.Rules.Number == 0 && got.IPTables.Number > 0 && got.Veths == 1 && !got.Conntrack
	})
	for _, off := range counterOff {
		testenv.Shell(t, c.nodes[0].Path(), off.add)
		c.untilOff(t, off.why)
		before, _ := c.carried(t, 0)
		for range 20 {
			testenv.Must(t, exchange())
		}
		if now, _ := c.carried(t, 0); now != before {
			t.Errorf("with %s, %d packets were carried", off.name, now-before)
		}
		testenv.Shell(t, c.nodes[0].Path(), off.del)
		c.untilOff(t, "")
		c.untilCarried(t, exchange)
	}
	testenv.Must(t, kept.Process.Signal(syscall.SIGTERM))
	testenv.Must(t, kept.Wait())
	for _, off := range counterOff {
		testenv.Shell(t, c.nodes[0].Path(), off.add)
	}
	keepsNone := c.enable(t, 0, "0")
	c.forgetConnections(t)
	c.untilCarried(t, exchange)
	c.untilCounters(t, "misses all", func(got fastpath.BypassedCounters) bool { return got.Rules.Number == 2 && got.Conntrack })
	testenv.Must(t, keepsNone.Process.Signal(syscall.SIGTERM))
	testenv.Must(t, keepsNone.Wait())
	testenv.Must(t, other.Process.Signal(syscall.SIGTERM))
	testenv.Must(t, other.Wait())
}

// untilCounters waits until the first node says which counters miss packets. Meanwhile it may carry
// nothing: a test of another package may have a BPF program at a hook of netfilter.
func (c *cluster) untilCounters(t *testing.T, what string, is func(fastpath.BypassedCounters) bool) {
	t.Helper()
	for end := time.Now().Add(testenv.Timeout); ; time.Sleep(5 * time.Millisecond) {
		state := c.status(t, 0).State
		if state != nil && state.Counters != nil && is(*state.Counters) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("after %v, no state %s: %+v", testenv.Timeout, what, state)
		}
	}
}

// untilOff waits until the first node carries nothing, for a reason; "": until it carries.
func (c *cluster) untilOff(t *testing.T, why string) {
	t.Helper()
	for end := time.Now().Add(testenv.Timeout); ; time.Sleep(5 * time.Millisecond) {
		s := c.status(t, 0)
		if s.State != nil && (s.State.Off != "") == (why != "") && strings.Contains(s.State.Off, why) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("after %v, nothing is carried because %+v; want %q", testenv.Timeout, s.State, why)
		}
	}
}
