package audit_test

import (
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/testenv"
)

// Bits of a connection's status that do not change once it was answered are told from those that do, and so are
// those that packets ahead of the answer, and packets of a tunnel, have in common.
func TestRulingsOfStatus(t *testing.T) {
	n := testenv.Netns(t)
	const limited, limit = "; limit rate 10/second accept", "limit"
	for _, c := range []struct{ hook, rules, perPacket, unreplied string }{
		{"forward", "ct status dnat drop", "", ""},
		{"forward", "ct status ! snat drop", "", ""},
		{"forward", "ct status & (snat|dnat) == snat|dnat drop", "", ""},
		{"forward", "ct status expected,confirmed,seen-reply drop", "", "ct status seen-reply,confirmed"},
		{"forward", "ct status & 0x180 != 0 drop", "", "ct status src-nat-done,dst-nat-done"},
		{"forward", "ct status seen-reply accept", "", "ct status seen-reply"},
		{"forward", "ct status & dnat > 5 drop", "", ""},
		{"forward", "ct status assured accept", "ct status assured", "ct status assured"},
		{"forward", "ct status ! assured drop", "ct status assured", "ct status assured"},
		{"forward", "ct status dnat,assured,dying drop", "ct status assured,dying", "ct status assured,dying"},
		{"forward", "ct status & 0xd000 != 0 drop", "ct status untracked,offload,hw-offload", "ct status untracked,offload,hw-offload"},
		{"forward", "ct status & 0x12e40 == 0 drop", "ct status seq-adjust,dying,fixed-timeout,template,helper,0x10000", "ct status seq-adjust,dying,fixed-timeout,template,helper,0x10000"},
		{"forward", "ct status & 0xf > 5 drop", "ct status assured", "ct status seen-reply,assured,confirmed"},
		{"forward", "ct status > 5 drop", "ct status", "ct status"},
		{"forward", "ct status 10-20 drop", "ct status", "ct status"},
		{"forward", "ct status { 10, 14 } drop", "ct status", "ct status"},
		{"forward", "ct status | 4 == 14 drop", "ct status", "ct status"},
		{"forward", "ct status . ip saddr { 10 . 192.0.2.1 } drop", "ct status", "ct status"},
		{"forward", "meta mark set ct status map { 10 : 1 }", "ct status", "ct status"},
		{"forward", "ct status == 0x18e drop", "ct status", "ct status"},
		// Values that no packet meets a rule with, and those that all have.
		{"forward", "ct status != dnat accept" + limited, "", ""},
		{"forward", "ct status == snat limit rate 10/second drop", "", ""},
		{"forward", "ct status & 0x130 == dnat accept" + limited, limit, limit},
		{"forward", "ct status & 0x120 == dnat limit rate 10/second drop", "", ""},
		{"forward", "ct status != 0 accept" + limited, "", "ct status; 1 more"},
		{"forward", "ct status & (seen-reply|confirmed) == seen-reply|confirmed accept" + limited, "", "ct status seen-reply,confirmed; 1 more"},
		{"forward", "ct status & (seen-reply|assured) == assured counter drop", "", "ct status seen-reply,assured"},
		{"forward", "ct status ! confirmed limit rate 10/second drop", "", limit},
		{"forward", "ct status ! dnat accept" + limited, limit, ""},
		{"forward", "ct status expected limit rate 10/second accept", limit, ""},
		// Each packet of a tunnel may be the first of its connection. Then it is not confirmed, nor translated yet.
		{"output", "ct status dnat drop", "", ""},
		{"output", "ct status != dnat jump other", "", ""},
		{"output", "ct status != dnat accept" + limited, limit, ""},
		{"output", "ct status == snat limit rate 10/second drop", "", ""},
		{"output", "ct status snat drop", "ct status snat", ""},
		{"input", "ct status seen-reply,expected drop", "ct status expected,seen-reply", ""},
		{"input", "ct status confirmed drop", "ct status confirmed", ""},
		{"input", "ct status & 0x100 == 0 drop", "ct status dst-nat-done", ""},
		{"early", "ct status dnat drop", "ct status dnat", ""},
	} {
		hook, priority := c.hook, "0"
		if hook == "early" {
			hook, priority = "output", "-100"
		}
		input := "flush ruleset\ntable ip t {\nchain other { udp dport 80 drop; }\n" +
			"chain first {\ntype filter hook " + hook + " priority " + priority + "\n" + c.rules + "\n}\n}\n"
		if err := testenv.Load(t, n, input, "nft", "-f", "-"); err != nil {
			t.Errorf("%s: %v", c.rules, err)
			continue
		}
		got := auditRuleset(t, n, 4789)
		for what, pair := range map[string][2]string{"perPacket": {got.PerPacket, c.perPacket}, "unreplied": {got.PerPacketUnreplied, c.unreplied}} {
			if was := strings.TrimPrefix(pair[0], "ip t first: "); was != pair[1] {
				t.Errorf("%s: %s: %s %q, want %q", c.hook, c.rules, what, was, pair[1])
			}
		}
	}
}

// The same holds for iptables, to which translations are states, too.
func TestRulingsOfStatusOfIPTables(t *testing.T) {
	n := testenv.Netns(t)
	const limited, limit = "-m limit --limit 10/s -j ACCEPT", "limit"
	for _, c := range []struct{ chain, rules, perPacket, unreplied string }{
		{"FORWARD", "--ctstatus SEEN_REPLY,EXPECTED -j DROP", "", "ct status seen-reply"},
		{"FORWARD", "! --ctstatus ASSURED -j DROP", "ct status assured", "ct status assured"},
		{"FORWARD", "--ctstatus CONFIRMED -j ACCEPT\n" + limited, "", "ct status confirmed; 1 more"},
		{"FORWARD", "! --ctstatus CONFIRMED " + limited, "", limit},
		{"FORWARD", "--ctstatus NONE " + limited, "", ""},
		{"FORWARD", "--ctstate DNAT -j DROP", "", ""},
		{"FORWARD", "--ctstate ESTABLISHED --ctstatus ASSURED -j ACCEPT", "ct status assured", ""},
		{"FORWARD", "--ctstate ESTABLISHED --ctstatus CONFIRMED -j ACCEPT\n" + limited, "", limit},
		{"INPUT", "--ctstatus SEEN_REPLY -j DROP", "ct status seen-reply", ""},
		{"INPUT", "--ctstate DNAT -j DROP", "", ""},
		{"OUTPUT", "--ctstate SNAT -j DROP", "ct status snat", ""},
		{"OUTPUT", "--ctstate NEW,ESTABLISHED,UNTRACKED,SNAT -j ACCEPT\n" + limited, "", ""},
		{"OUTPUT", "--ctstate UNTRACKED --ctstatus NONE " + limited, limit, ""},
	} {
		rules := strings.ReplaceAll(c.rules, "\n", "\n-A "+c.chain+" ")
		restore := "*filter\n:" + c.chain + " ACCEPT [0:0]\n-A " + c.chain + " -m conntrack " + rules + "\nCOMMIT\n"
		if err := testenv.Load(t, n, restore, "iptables-nft-restore"); err != nil {
			t.Errorf("%s: %v", c.rules, err)
			continue
		}
		got := auditRuleset(t, n, 4789)
		for what, pair := range map[string][2]string{"perPacket": {got.PerPacket, c.perPacket}, "unreplied": {got.PerPacketUnreplied, c.unreplied}} {
			if was := strings.ReplaceAll(strings.TrimPrefix(pair[0], "ip filter "+c.chain+": "), "match limit", "limit"); was != pair[1] {
				t.Errorf("%s: %s: %s %q, want %q", c.chain, c.rules, what, was, pair[1])
			}
		}
	}
}
