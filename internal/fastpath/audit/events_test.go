package audit_test

import (
	"testing"

	"github.com/venturi-net/venturi/internal/testenv"
)

// Rules that set which events of a connection are announced are found, whichever packets they match, and
// wherever those that open connections are led.
func TestRulingsOfEvents(t *testing.T) {
	n := testenv.Netns(t)
	for _, c := range []struct{ hook, rules, why string }{
		{"forward", "ct event set new", "ip t first: ct event"},
		{"forward", "ct event set new,destroy", "ip t first: ct event"},
		{"prerouting", "ct state new ct event set new", "ip t first: ct event"},
		{"forward", "ct state established,related accept; ct state new ct event set new", "ip t first: ct event"},
		{"forward", "tcp flags & (fin|syn|rst|ack) == syn ct event set new", "ip t first: ct event"},
		{"forward", "ct state new jump sets", "ip t sets: ct event"},
		{"forward", "tcp flags & (fin|syn|rst|ack) == syn jump leads", "ip t sets: ct event"},
		{"postrouting", "tcp flags & (fin|syn|rst|ack) == syn jump leads", "ip t sets: ct event"},
		{"input", "ct event set new", ""}, // of connections of the host itself
		{"forward", "ct state new jump other; accept", ""},
	} {
		input := "flush ruleset\ntable ip t {\nchain sets { ct event set new; }\nchain leads { tcp dport 80 jump sets; }\nchain other { ct mark 1 drop; }\n" +
			"chain first {\ntype filter hook " + c.hook + " priority 5\n" + c.rules + "\n}\n}\n"
		testenv.Must(t, testenv.Load(t, n, input, "nft", "-f", "-"))
		if got := auditRuleset(t, n, 0).HidesEvents; got != c.why {
			t.Errorf("%s: %s: found %q, want %q", c.hook, c.rules, got, c.why)
		}
	}
	const target = "ip raw PREROUTING: target CT with events"
	for rule, why := range map[string]string{
		"-j CT --ctevents new":               target,
		"-j CT --ctevents new,destroy":       target,
		"-j CT --expevents new":              target,
		"-p tcp --syn -j CT --ctevents new":  target,
		"-p icmp -j CT --notrack":            "",
		"-j CT --zone 0":                     "",
		"-i wire -p tcp --dport 80 -j NFLOG": "",
	} {
		testenv.Must(t, testenv.Load(t, n, "flush ruleset\n", "nft", "-f", "-"))
		testenv.Must(t, testenv.Load(t, n, "*raw\n:PREROUTING ACCEPT [0:0]\n-A PREROUTING "+rule+"\nCOMMIT\n", "iptables-nft-restore"))
		if got := auditRuleset(t, n, 0).HidesEvents; got != why {
			t.Errorf("%s: found %q, want %q", rule, got, why)
		}
	}
}
