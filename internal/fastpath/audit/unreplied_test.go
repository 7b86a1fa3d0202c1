package audit_test

import (
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/testenv"
)

// Rules that may treat a packet differently after the first reply are found, and so are those that
// treat each packet before it separately.
func TestRulingsOfUnreplied(t *testing.T) {
	n := testenv.Netns(t)
	const beside = "beside ct state in ip t first"
	for _, c := range []struct{ hook, rules, why string }{
		{"forward", "ip saddr 192.0.2.1 udp dport 80 accept; drop", ""},
		{"forward", "ct state invalid drop", ""},
		{"forward", "ct state untracked,invalid drop; accept", ""},
		{"forward", "ct state vmap { invalid : drop }", ""},
		{"forward", "ct state vmap { invalid : drop, * : accept }", ""},
		{"forward", "ct state new,established,related accept; drop", ""},
		{"forward", "icmp type echo-request ct state new limit rate 1/second accept", ""},
		// Those that accept more behind the first reply are harmless.
		{"forward", "ct state established accept", ""},
		{"forward", "ct state related accept", ""},
		{"forward", "ct state established,related accept; drop", ""},
		{"forward", "ct state { established, related } accept; limit rate 10/second accept", "ip t first: limit"},
		{"forward", "ct state new drop", ""},
		{"forward", "ct state new jump denies", ""},
		{"forward", "ct state new jump denies; ct state established accept; udp dport 80 accept; drop", ""},
		{"forward", "ct state new jump other", "ip t first: ct state; 1 more"},
		{"forward", "ct state != established drop", ""},
		{"forward", "ct state & (new|invalid) == 0 accept", ""},
		{"forward", "ct state & (new|invalid) { 0 } accept", ""},
		{"forward", "ct state vmap { established : accept, related : accept, invalid : drop }", ""},
		// Others may drop what they accept before.
		{"forward", "ct state new accept; drop", "ip t first: ct state"},
		{"forward", "ct state new jump admits; drop", "ip t first: ct state"},
		{"forward", "ct state new jump admitsSome; drop", "ip t first: ct state"},
		{"forward", "ct state new goto denies; drop", "ip t first: ct state"},
		{"forward", "ct state new return; drop", "ip t first: ct state"},
		{"forward", "ct state new udp dport vmap { 80 : drop, 81 : jump denies }", "ip t first: ct state"},
		{"forward", "ct state established drop", "ip t first: ct state"},
		{"forward", "ct state established return; accept", "ip t first: ct state"},
		{"forward", "ct state established jump admits", "ip t first: ct state"},
		{"forward", "ct state established meta mark set 1 accept", "ip t first: ct state"},
		{"forward", "ct state established accept; meta mark set 1", "ip t first: sets marks, " + beside},
		{"forward", "ct state established accept; ct mark set 1", "ip t first: sets marks, " + beside},
		{"forward", "ct state established accept; meta secmark set ct secmark", "ip t first: sets marks, " + beside},
		{"forward", "ct state established accept; ct secmark set meta secmark", "ip t first: sets marks, " + beside},
		{"forward", "ct state established accept; jump marks", "ip t marks: sets marks, " + beside},
		{"forward", "meta mark set 1; ct state new jump denies", "ip t first: sets marks, " + beside},
		{"forward", "ct state new counter drop", "ip t first: counts or logs, " + beside},
		{"forward", "ct state established accept; jump counts", "ip t counts: counts or logs, " + beside},
		{"forward", "counter; ct state established accept; jump counts", "ip t counts: counts or logs, " + beside},
		{"forward", "jump counts; ct state established accept", ""},
		{"forward", "ct state established counter accept", ""},
		{"forward", "ct state established counter; ct state new jump counts", ""},
		{"forward", "ct state > 2 accept", "ip t first: ct state"},
		{"forward", "ct state 2-8 accept", "ip t first: ct state"},
		{"forward", "ct state vmap { new : accept, established : accept, related : jump other }", "ip t first: ct state"},
		{"forward", "ct state vmap { new : accept, established : accept, related : accept }", "ip t first: ct state"},
		{"forward", "ct state . ip saddr { new . 192.0.2.1 } drop", "ip t first: ct state"},
		{"forward", "ip saddr . ct state { 192.0.2.1 . new } drop", "ip t first: ct state"},
		{"forward", "meta mark set ct state map { new : 1, established : 2, related : 1 }", "ip t first: ct state"},
		{"forward", "ct direction original accept", "ip t first: ct direction"},
		{"forward", "limit rate 10/second accept", "ip t first: limit"},
		{"forward", "jump other", "ip t other: limit"},
		// Rules for the host's own packets do not concern pods.
		{"input", "ct state established accept; drop", ""},
		{"output", "ct state new limit rate 10/second accept", ""},
	} {
		input := "flush ruleset\ntable ip t {\nchain other { limit rate 10/second accept; }\n" +
			"chain denies { udp dport 80 drop; ip daddr vmap { 192.0.2.1 : drop }; }\nchain counts { tcp dport 80 counter; }\nchain marks { meta mark set 1; }\n" +
			"chain admits { udp dport 80 accept; }\nchain admitsSome { udp dport vmap { 80 : accept, 81 : drop }; }\n" +
			"chain first {\ntype filter hook " + c.hook + " priority 5\n" + c.rules + "\n}\n}\n"
		if err := testenv.Load(t, n, input, "nft", "-f", "-"); err != nil {
			t.Errorf("%s: %v", c.rules, err)
			continue
		}
		if got := auditRuleset(t, n, 4789).PerPacketUnreplied; got != c.why {
			t.Errorf("%s: unreplied %q, want %q", c.rules, got, c.why)
		}
	}
}

// The same holds for iptables.
func TestRulingsOfUnrepliedOfIPTables(t *testing.T) {
	n := testenv.Netns(t)
	for rule, why := range map[string]string{
		"-p udp --dport 80 -j ACCEPT":                                "",
		"-m conntrack --ctstate INVALID -j DROP":                     "",
		"-m state --state INVALID -j DROP":                           "",
		"-m conntrack --ctstate NEW -j DROP":                         "",
		"-m conntrack --ctstate NEW -j REJECT":                       "",
		"-m conntrack --ctstate NEW -j ACCEPT":                       "ip filter FORWARD: ct state",
		"-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT":       "",
		"-m conntrack --ctstate ESTABLISHED -j DROP":                 "ip filter FORWARD: ct state",
		"-m conntrack ! --ctstate RELATED,ESTABLISHED -j DROP":       "",
		"-m state --state ESTABLISHED -j ACCEPT":                     "",
		"-m conntrack --ctstatus SEEN_REPLY -j ACCEPT":               "ip filter FORWARD: ct status seen-reply",
		"-m conntrack --ctdir ORIGINAL -j ACCEPT":                    "ip filter FORWARD: ct direction",
		"-m conntrack --ctproto udp -j ACCEPT":                       "",
		"-m conntrack --ctstate NEW -m limit --limit 10/s -j ACCEPT": "ip filter FORWARD: ct state; 1 more",
	} {
		restore := "*filter\n:FORWARD ACCEPT [0:0]\n-A FORWARD " + rule + "\nCOMMIT\n"
		if err := testenv.Load(t, n, restore, "iptables-nft-restore"); err != nil {
			t.Logf("%s: this machine cannot: %v", rule, err)
			continue
		}
		if got := auditRuleset(t, n, 0).PerPacketUnreplied; strings.ReplaceAll(got, "match limit", "limit") != why {
			t.Errorf("%s: unreplied %q, want %q", rule, got, why)
		}
	}
}

// Chains that translate packets of the family are found, whatever is in them.
func TestRulingsOfTranslation(t *testing.T) {
	n := testenv.Netns(t)
	for input, want := range map[string]bool{
		"table ip t { chain c { type nat hook prerouting priority -100; }; }":    true,
		"table inet t { chain c { type nat hook postrouting priority 100; }; }":  true,
		"table ip6 t { chain c { type nat hook postrouting priority 100; }; }":   false,
		"table ip t { chain c { type filter hook postrouting priority 100; }; }": false,
		"table ip t { chain c { udp dport 80 drop; }; }":                         false,
	} {
		testenv.Must(t, testenv.Load(t, n, "flush ruleset; "+input, "nft", "-f", "-"))
		if got := auditRuleset(t, n, 0).Translates; got != want {
			t.Errorf("%s: translates %v", input, got)
		}
	}
}
