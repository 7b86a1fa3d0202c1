package audit_test

import (
	"fmt"
	"testing"

	"github.com/venturi-net/venturi/internal/fastpath/audit"
	"github.com/venturi-net/venturi/internal/testenv"
)

// The rules of each version of IP are audited by themselves, those of inet for both, and fields are found
// where each has them in its header.
func TestRulingsOfFamilies(t *testing.T) {
	n := testenv.Netns(t)
	for _, c := range []struct{ table, rules, four, six string }{
		{"ip6", "ip6 saddr 2001:db8::1 tcp dport 80 accept", "", ""},
		{"ip6", "ip6 nexthdr udp drop", "", ""},
		{"ip6", "meta l4proto udp ip6 daddr @nets drop", "", ""},
		{"ip6", "ip6 hoplimit 1 drop", "", "ip6 t first: bytes 7 to 7 of a header"},
		{"ip6", "ip6 dscp ef drop", "", "ip6 t first: bytes 0 to 1 of a header"},
		{"ip6", "ip6 flowlabel 22 drop", "", "ip6 t first: bytes 1 to 3 of a header"},
		{"ip6", "ip6 length > 500 drop", "", "ip6 t first: bytes 4 to 5 of a header"},
		{"ip6", "@nh,0,8 0x60 drop", "", "ip6 t first: bytes 0 to 0 of a header"}, // with half of the traffic class
		{"ip6", "@nh,48,16 0x4000 drop", "", "ip6 t first: bytes 6 to 7 of a header"},
		{"ip6", "exthdr frag exists drop", "", ""},
		{"ip6", "limit rate 10/second accept", "", "ip6 t first: limit"},
		{"ip6", "ct state established accept; limit rate 10/second accept", "", ""},
		{"ip", "ip ttl 1 drop", "ip t first: bytes 8 to 8 of a header", ""},
		{"ip", "@nh,0,8 0x45 drop", "", ""},
		{"inet", "ip ttl 1 drop", "inet t first: bytes 8 to 8 of a header", ""},
		{"inet", "ip6 hoplimit 1 drop", "", "inet t first: bytes 7 to 7 of a header"},
		{"inet", "meta nfproto ipv6 limit rate 10/second drop", "", "inet t first: limit"},
		{"inet", "meta protocol ip limit rate 10/second drop", "inet t first: limit", ""},
		{"inet", "limit rate 10/second drop", "inet t first: limit", "inet t first: limit"},
		{"inet", "tcp flags & (fin|ack) == ack drop", "", ""},
	} {
		testenv.Must(t, testenv.Load(t, n, fmt.Sprintf(`flush ruleset
			table %s t {
				set nets { type ipv6_addr; flags interval; elements = { 2001:db8::/32 }; }
				chain first { type filter hook forward priority 0; %s; }
			}`, c.table, c.rules), "nft", "-f", "-"))
		for family, want := range map[audit.Family]string{audit.IPv4: c.four, audit.IPv6: c.six} {
			if got := auditOverlay(t, n, audit.Overlay{Family: family, Wire: "wire"}).PerPacket; got != want {
				t.Errorf("%s: %s: for %v it says %q, want %q", c.table, c.rules, family, got, want)
			}
		}
	}
}

// Rules of a bridge are audited for each version of IP, at all hooks that packets meet there: those of pods on one
// bridge, too.
func TestRulingsOfBridgesForFamilies(t *testing.T) {
	n := testenv.Netns(t)
	for _, hook := range []string{"prerouting", "input", "forward", "output", "postrouting"} {
		for _, c := range []struct{ rule, four, six string }{
			{"ether type ip6 limit rate 10/second drop", "", "bridge t first: limit"},
			{"ether type ip limit rate 10/second drop", "bridge t first: limit", ""},
			{"ether type ip6 ip6 hoplimit 1 drop", "", "bridge t first: bytes 7 to 7 of a header"},
			{"ether type ip6 ip6 saddr 2001:db8::1 drop", "", ""},
		} {
			testenv.Must(t, testenv.Load(t, n, fmt.Sprintf(`flush ruleset
				table bridge t { chain first { type filter hook %s priority 0; %s; }; }`, hook, c.rule), "nft", "-f", "-"))
			for family, want := range map[audit.Family]string{audit.IPv4: c.four, audit.IPv6: c.six} {
				if got := auditOverlay(t, n, audit.Overlay{Family: family, Wire: "wire"}).PerPacket; got != want {
					t.Errorf("%s: %s: for %v it says %q, want %q", hook, c.rule, family, got, want)
				}
			}
		}
	}
}
