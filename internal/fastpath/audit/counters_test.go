package audit_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/fastpath/audit"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/fastpathtest"
)

// Rules whose counters miss carried packets are told from those that packets of established
// flows do not meet, or do not get to the counter of.
func TestRuleCounters(t *testing.T) {
	n := testenv.Netns(t)
	for _, c := range []struct{ hook, rules, want string }{
		{"forward", "ip saddr 192.0.2.1 accept", "0 "},
		{"forward", "counter", "1 ip t first"},
		{"forward", "ip saddr 192.0.2.1 counter accept; ip saddr 192.0.2.2 counter drop", "2 ip t first"},
		{"forward", "log prefix \"seen\"", "1 ip t first"},
		{"forward", "counter name seen", "1 ip t first"},
		{"forward", "meta nftrace set 1", "1 ip t first"},
		{"forward", "ip saddr @counting accept", "1 ip t first"},
		{"forward", "ip saddr @plain accept", "0 "},
		{"forward", "ip saddr @tallied ct state new drop", "1 ip t first"},
		{"forward", "jump other", "1 ip t other"},
		{"forward", "jump other; counter", "2 ip t other"},
		{"prerouting", "counter; counter", "2 ip t first"},
		// Packets of established flows do not get there.
		{"forward", "ct state new counter accept", "0 "},
		{"forward", "ct state new ip saddr @counting accept", "0 "},
		{"forward", "ct state established accept; ct state new log", "0 "},
		{"forward", "ct state established accept; ct state new jump other", "0 "},
		{"forward", "ct state established accept; counter", "0 "},
		{"forward", "tcp flags syn counter", "0 "},
		{"forward", "icmp type echo-request counter", "0 "},
		{"forward", "ip protocol icmp counter", "0 "},
		// The counter comes before the match.
		{"forward", "counter ct state new accept", "1 ip t first"},
		{"forward", "counter tcp flags syn accept", "1 ip t first"},
		{"forward", "ct state invalid counter drop", "0 "},
		// Packets of one-way flows are carried where rules treat them as those of others.
		{"forward", "ct state new log", "1 ip t first"},
		{"forward", "ct state new counter name seen", "1 ip t first"},
		{"forward", "ct state new jump other", "1 ip t other"},
		// Tunnel packets.
		{"input", "udp dport 4789 counter accept", "1 ip t first"},
		{"input", "udp dport 53 counter accept", "0 "},
		{"input", "tcp dport 22 counter accept", "0 "},
		{"output", "counter", "1 ip t first"},
	} {
		input := "flush ruleset\ntable ip t {\ncounter seen { }\nset counting { type ipv4_addr; counter; elements = { 192.0.2.1 }; }\nset plain { type ipv4_addr; }\n" +
			"set tallied { type ipv4_addr; flags dynamic,timeout; timeout 1m; counter; }\n" +
			"chain other { counter; }\nchain first {\ntype filter hook " + c.hook + " priority 5\n" + c.rules + "\n}\n" +
			"chain nat {\ntype nat hook postrouting priority 100\ncounter\n}\n}\n" +
			"table ip6 t {\nchain first {\ntype filter hook forward priority 5\ncounter\n}\n}\n"
		if err := testenv.Load(t, n, input, "nft", "-f", "-"); err != nil {
			t.Errorf("%s: %v", c.rules, err)
			continue
		}
		got := auditRuleset(t, n, 4789)
		if text := countersText(got.Counters); text != c.want || got.IPTablesCounters != (audit.RuleCounters{}) {
			t.Errorf("%s %s: %q, and of iptables %+v; want %q", c.hook, c.rules, text, got.IPTablesCounters, c.want)
		}
		if got.PerPacket != "" {
			t.Errorf("%s %s keeps everything slow: %s", c.hook, c.rules, got.PerPacket)
		}
		if c.hook != "input" && c.hook != "output" {
			continue
		}
		if auditRuleset(t, n, 0).Counters.Number != 0 {
			t.Errorf("%s %s counts where there are no tunnels", c.hook, c.rules)
		}
		if got := auditOverlay(t, n, audit.Overlay{Protocol: unix.IPPROTO_UDP, Port: 4789, Wire: "wire", ByDevice: true}).Counters; got.Number != 0 {
			t.Errorf("%s %s misses packets that the tunnel's device sends and gets: %+v", c.hook, c.rules, got)
		}
	}
}

// countersText is how many rules there are, and the first without its handle.
func countersText(c audit.RuleCounters) string {
	return fmt.Sprint(c.Number, " ", handles.ReplaceAllString(c.First, ""))
}

// Of iptables and ip6tables, only rules that have no other purpose count on purpose.
func TestRuleCountersOfIPTables(t *testing.T) {
	n := testenv.Netns(t)
	for _, c := range []struct{ rules, onPurpose, others string }{
		{"", "0 ", "0 "},
		{"-A FORWARD -j ACCEPT", "0 ", "1 ip filter FORWARD"},
		{"-A FORWARD -s 192.0.2.1", "1 ip filter FORWARD", "0 "},
		{"-A FORWARD -j LOG", "1 ip filter FORWARD", "0 "},
		{"-A FORWARD -j other", "0 ", "1 ip filter FORWARD"},
		{"-A FORWARD -j MARK --set-xmark 0x1/0x1", "0 ", "1 ip filter FORWARD"},
		{"-A FORWARD -m comment --comment text\n-A FORWARD -j RETURN", "1 ip filter FORWARD", "1 ip filter FORWARD"},
		{"-A FORWARD -j other\n-A other -s 192.0.2.1\n-A other -j ACCEPT", "1 ip filter other", "2 ip filter FORWARD"},
		{"-A FORWARD -m conntrack --ctstate NEW -j LOG\n-A FORWARD -m conntrack --ctstate NEW\n-A FORWARD -m conntrack --ctstate ESTABLISHED -j ACCEPT", "0 ", "1 ip filter FORWARD"},
		{"-A FORWARD -m conntrack --ctstate NEW -j ACCEPT\n-A FORWARD -m conntrack --ctstate ESTABLISHED -j ACCEPT", "0 ", "1 ip filter FORWARD"},
		{"-A INPUT -s 192.0.2.1\n-A OUTPUT -j LOG", "0 ", "0 "},
	} {
		restore := "*filter\n:INPUT ACCEPT [0:0]\n:FORWARD ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n:other - [0:0]\n" + c.rules + "\nCOMMIT\n"
		if err := testenv.Load(t, n, restore, "iptables-nft-restore"); err != nil {
			t.Logf("%s: this machine cannot: %v", c.rules, err)
			continue
		}
		testenv.Must(t, testenv.Load(t, n, strings.ReplaceAll(restore, "192.0.2.1", "2001:db8::1"), "ip6tables-nft-restore"))
		for family, name := range map[audit.Family]string{audit.IPv4: "ip ", audit.IPv6: "ip6 "} {
			got := auditOverlay(t, n, audit.Overlay{Family: family, Wire: "wire"})
			want := strings.ReplaceAll(c.onPurpose+", "+c.others, "ip ", name)
			if is := countersText(got.Counters) + ", " + countersText(got.IPTablesCounters); is != want {
				t.Errorf("%v, %s: on purpose and others are %q; want %q", family, c.rules, is, want)
			}
		}
	}
	const ours = "flush ruleset; table ip filter { chain forward { type filter hook forward priority 0; counter accept; }; }"
	testenv.Must(t, testenv.Load(t, n, ours, "nft", "-f", "-"))
	if got := auditRuleset(t, n, 0); countersText(got.Counters) != "1 ip filter forward" || got.IPTablesCounters.Number != 0 {
		t.Errorf("a table of nftables that is called as one of iptables: %+v", got)
	}
}

// Only policy engines with nftables have rules that count on purpose.
func TestRuleCountersOfPolicies(t *testing.T) {
	for _, e := range fastpathtest.PolicyEngines() {
		n := testenv.Netns(t)
		testenv.InNetns(t, n.Path(), func() error {
			for name, kind := range e.IPSets {
				if err := netlink.IpsetCreate(name, kind, netlink.IpsetCreateOptions{Family: netlink.FAMILY_V4}); err != nil {
					return err
				}
			}
			return nil
		})
		e.Load(t, n, e.Rules(netip.MustParseAddr("10.244.1.2"), "veth0"))
		got := auditRuleset(t, n, 4789)
		if native := len(e.IPSets) == 0; (got.Counters.Number > 0) != native || (got.IPTablesCounters.Number > 0) == native {
			t.Errorf("%s: on purpose %+v, and because all do %+v", e.Name, got.Counters, got.IPTablesCounters)
		}
	}
}
