package node_test

import (
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/node"
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
	c.checkCountersKept(t, exchange, c.carried, stateOfIPv4, strings.NewReplacer())
	terminate(t, kept)
	for _, off := range counterOff {
		testenv.Shell(t, c.nodes[0].Path(), off.add)
	}
	keepsNone := c.enable(t, 0, "0")
	c.forgetConnections(t)
	c.untilCarried(t, exchange)
	c.untilCounters(t, "misses all", func(got fastpath.BypassedCounters) bool { return got.Rules.Number == 2 && got.Conntrack })
	terminate(t, keepsNone, other)
}

// checkCountersKept has more and more count on the first node: whenever something does, nothing is carried of a
// version of IP, whose words stand for those of IPv4.
func (c *cluster) checkCountersKept(t *testing.T, exchange func() error, carried func(*testing.T, int) (out, in uint64), stateOf func(node.Status) *fastpath.State, words *strings.Replacer) {
	t.Helper()
	for _, off := range counterOff {
		testenv.Shell(t, c.nodes[0].Path(), words.Replace(off.add))
		c.untilStateOff(t, stateOf, words.Replace(off.why))
		before, _ := carried(t, 0)
		for range 20 {
			testenv.Must(t, exchange())
		}
		if now, _ := carried(t, 0); now != before {
			t.Errorf("with %s, %d packets were carried", off.name, now-before)
		}
		testenv.Shell(t, c.nodes[0].Path(), words.Replace(off.del))
		c.untilStateOff(t, stateOf, "")
		c.untilCounted(t, carried, exchange)
	}
}

// A fast path that keeps counters does so for IPv6, too, on the wire and in VXLAN over IPv6: nothing to a Service
// is carried while something counts. The rules for the packets of a tunnel count carried ones, and keep nothing
// slow: its own device sends and gets these.
func TestEnableKeepsCountersOverIPv6(t *testing.T) {
	words := strings.NewReplacer("iptables-nft", "ip6tables-nft", "10.244.0.0/16", "fd00:f4::/32", "table ip ", "table ip6 ", "ip saddr", "ip6 saddr", "in ip ", "in ip6 ")
	for _, w := range []wiring{dualStack[0], tunnelled6} {
		t.Run(w.name, func(t *testing.T) {
			c := newCluster(t, w.node+wire6, w.pod)
			c.loadProxy(t, 0, proxies6[0].rules(0), proxies6[0].program)
			exchange, _ := c.service6Flows(t)
			testenv.Must(t, exchange())
			processes := c.enable6(t, "keep")
			c.untilCounted(t, c.carried6, exchange)
			c.checkCountersKept(t, exchange, c.carried6, stateOfIPv6, words)
			testenv.Shell(t, c.nodes[0].Path(), `nft 'table ip6 own {
				chain i { type filter hook input priority 0; udp dport 8472 counter; }
				chain o { type filter hook output priority 0; udp dport 8472 counter; }
			}'`)
			c.untilCounted(t, c.carried6, exchange)
			c.untilStateOff(t, stateOfIPv6, "")
			if is := stateOfIPv6(c.status(t, 0)).Counters; is == nil || len(is.Tunnels) > 0 || !slices.Equal(is.Bridges, []string{"cni0"}) || is.Veths != 1 || is.Rules.Number > 0 {
				t.Errorf("said to miss packets are %+v", is)
			}
			terminate(t, processes...)
		})
	}
}

func stateOfIPv4(s node.Status) *fastpath.State { return s.State }

func stateOfIPv6(s node.Status) *fastpath.State {
	if s.IPv6 == nil {
		return nil
	}
	return s.IPv6.State
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
	c.untilStateOff(t, stateOfIPv4, why)
}

// untilStateOff does so for a version of IP.
func (c *cluster) untilStateOff(t *testing.T, stateOf func(node.Status) *fastpath.State, why string) {
	t.Helper()
	for end := time.Now().Add(testenv.Timeout); ; time.Sleep(5 * time.Millisecond) {
		s := stateOf(c.status(t, 0))
		if s != nil && (s.Off != "") == (why != "") && strings.Contains(s.Off, why) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("after %v, nothing is carried because %+v; want %q", testenv.Timeout, s, why)
		}
	}
}
