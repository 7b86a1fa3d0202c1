package audit_test

import (
	"testing"

	"github.com/venturi-net/venturi/internal/testenv"
)

// Rules that set which events of a connection are announced are found, whichever packets they match, at each
// hook that packets of pods pass, and wherever a rule or a map may lead those that open connections.
func TestRulingsOfEvents(t *testing.T) {
	n := testenv.Netns(t)
	const here, there = "ip t first: ct event", "ip t sets: ct event"
	const sets = "chain sets { ct event set new; }\n"
	const leads = sets + "chain leads { tcp dport 80 jump sets; }\n"
	for _, c := range []struct{ at, rules, others, why string }{
		{"filter hook forward", "ct event set new", "", here},
		{"filter hook forward", "ct event set new,destroy", "", here},
		{"filter hook prerouting", "ct state new ct event set new", "", here},
		{"filter hook forward", "ct state established,related accept; ct state new ct event set new", "", here},
		{"filter hook forward", "tcp flags & (fin|syn|rst|ack) == syn ct event set new", "", here},
		{"filter hook forward", "ct state new jump sets", sets, there},
		{"filter hook forward", "tcp flags & (fin|syn|rst|ack) == syn jump leads", leads, there},
		{"filter hook postrouting", "tcp flags & (fin|syn|rst|ack) == syn jump leads", leads, there},
		{"filter hook forward", "tcp flags & (fin|syn|rst|ack) == syn tcp dport vmap { 80 : jump sets }", sets, there},
		{"filter hook forward", "tcp flags & (syn|ack) vmap { syn : jump leads, ack : accept }", leads, there},
		{"nat hook prerouting", "ct event set new", "", here},
		{"nat hook postrouting", "ct state new jump leads", leads, there},
		{"nat hook prerouting", "ip daddr . tcp dport vmap { 192.0.2.1 . 80 : goto sets }", sets, there},
		// Of connections of the host itself, unless another rule jumps there, too.
		{"filter hook input", "ct event set new", "", ""},
		{"nat hook output", "ct event set new", "", ""},
		{"filter hook input", "jump sets", sets, there},
		{"filter hook forward", "ct state new jump other; accept", "chain other { ct mark 1 drop; }\n", ""},
	} {
		input := "flush ruleset\ntable ip t {\n" + c.others + "chain first {\ntype " + c.at + " priority 5\n" + c.rules + "\n}\n}\n" +
			"table ip6 t {\nchain first {\ntype filter hook forward priority 5\nct event set new\n}\n}\n"
		testenv.Must(t, testenv.Load(t, n, input, "nft", "-f", "-"))
		if got := auditRuleset(t, n, 0).HidesEvents; got != c.why {
			t.Errorf("%s: %s: found %q, want %q", c.at, c.rules, got, c.why)
		}
		if own := c.rules == "ct event set new"; own && auditRuleset(t, n, 4789).HidesEvents != here {
			t.Errorf("%s: %s is not found where there are tunnels", c.at, c.rules)
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
