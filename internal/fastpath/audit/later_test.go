package audit_test

import (
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/fastpath/audit"
	"github.com/venturi-net/venturi/internal/testenv"
)

// What drops packets of a tunnel once their connection is established, although the first one passes, is found
// wherever they come to it by their state: in a chain, behind it, by a policy, or by a mark. What drops the first one,
// too, has let nothing pass.
func TestRulingsOfLater(t *testing.T) {
	n := testenv.Netns(t)
	const own, inDrops = "ip t first: drops, by ct state in ip t first", "ip t drops: drops, by ct state in ip t first"
	const policy = "ip t first: its policy drops, by ct state in ip t first"
	for _, c := range []struct{ policy, rules, perPacket string }{
		{"accept", "ct state established jump drops", inDrops},
		{"accept", "ct state established jump outer", inDrops},
		{"accept", "ct state established goto drops", inDrops},
		{"accept", "ct state new accept; jump drops", inDrops},
		{"accept", "ct state new accept; drop", own},
		{"accept", "ct state new goto empty; drop", own},
		{"accept", "ct state new return; reject", own},
		{"accept", "ct state new jump accepts; drop", own},
		{"accept", "ct state new accept; ip saddr vmap { 192.0.2.1 : drop, 192.0.2.2 : accept }", own},
		{"accept", "ip saddr 192.0.2.1 ct state new accept; ip saddr 192.0.2.1 drop", own},
		{"accept", "jump returns; drop", "ip t first: drops, by ct state in ip t returns"},
		{"accept", "ct state vmap { new : accept, established : jump drops }", inDrops},
		{"accept", "ct state vmap { new : accept, established : goto outer }", inDrops},
		{"accept", "ct state vmap { new : accept }; drop", own},
		{"drop", "ct state new accept", policy},
		{"drop", "ct state established goto empty; accept", policy},
		{"drop", "ct state established return; accept", policy},
		{"drop", "ct state vmap { new : accept, established : goto empty }", policy},
		{"drop", "jump returns", "ip t first: its policy drops, by ct state in ip t returns"},
		// By a mark.
		{"accept", "ct state new meta mark set 1; meta mark 1 accept; drop", own},
		{"accept", "ct state new jump marks; meta mark 1 accept; drop", own},
		{"accept", "ct state established meta mark set 1; meta mark 1 drop", own},
		{"accept", "ct state established jump marks; meta mark 1 drop", own},
		{"accept", "meta mark set ct state map { new : 1, established : 2 }; meta mark 2 drop", "ip t first: ct state; 1 more"},
		{"accept", "ct state new meta mark set 1; }; chain later { type filter hook postrouting priority 0; oifname wire meta mark 0 drop", "ip t later: drops, by a mark"},
		// Both are dropped, or neither is.
		{"accept", "ct state new accept; ct state established accept; drop", ""},
		{"drop", "ct state established accept; ct state new accept", ""},
		{"drop", "ct state new accept; jump done", ""},
		{"drop", "ct state vmap { new : accept, established : accept }", ""},
		{"accept", "ct state new drop; ip saddr 192.0.2.1 drop", ""},
		{"accept", "ct state established accept; drop", ""},
		{"accept", "ct state new jump denies; ip saddr 192.0.2.1 drop", ""},
		{"accept", "ct state new jump denies; udp dport 4789 ip saddr != 192.0.2.1 drop", ""},
		{"accept", "ct state established jump some; ip saddr 192.0.2.1 drop", ""},
		{"accept", "ct state established counter; ip saddr 192.0.2.1 drop", ""},
		{"accept", "ct state vmap { new : jump denies, established : accept }; drop", ""},
		{"accept", "ct state new,established accept; drop", ""},
		{"accept", "ct state established return; ct state new counter", ""},
		{"drop", "ip saddr 192.0.2.1 drop; ct state new,established accept", ""},
		// None of the tunnel's packets gets there.
		{"drop", "udp dport 53 ct state new accept; tcp dport 22 ct state new accept", ""},
		{"accept", "ct state new accept; tcp dport 22 drop; ct state invalid drop", ""},
		{"accept", "ct state new tcp dport 22 accept; ip saddr 192.0.2.1 drop", ""},
	} {
		for _, hook := range []string{"input", "output"} {
			input := "flush ruleset\ntable ip t {\nchain empty { }\nchain drops { udp dport 4789 drop; }\nchain outer { counter; jump drops; }\nchain accepts { udp dport 4789 accept; }\n" +
				"chain returns { ct state established return; accept; }\nchain marks { meta mark set 1; }\nchain done { ct state established accept; }\n" +
				"chain denies { ip saddr 192.0.2.7 drop; ip saddr 192.0.2.8 reject; }\nchain some { ip saddr 192.0.2.9 accept; }\n" +
				"chain first {\ntype filter hook " + hook + " priority 5; policy " + c.policy + "\n" + c.rules + "\n}\n}\n"
			if err := testenv.Load(t, n, input, "nft", "-f", "-"); err != nil {
				t.Errorf("%s: %v", c.rules, err)
				continue
			}
			if got := laterText(auditRuleset(t, n, 4789).PerPacket); got != c.perPacket {
				t.Errorf("%s, policy %s: %s: perPacket %q, want %q", hook, c.policy, c.rules, got, c.perPacket)
			}
			if got := auditRuleset(t, n, 0).PerPacket; got != "" {
				t.Errorf("%s, policy %s: %s: perPacket %q without a tunnel", hook, c.policy, c.rules, got)
			}
		}
	}
}

// laterText is the text without what each finding of such drops says.
func laterText(perPacket string) string {
	return strings.ReplaceAll(perPacket, " established tunnel packets", "")
}

// The same holds for iptables.
func TestRulingsOfLaterOfIPTables(t *testing.T) {
	n := testenv.Netns(t)
	const behind = "ip filter INPUT: drops, by ct state in ip filter INPUT"
	const policy = "ip filter INPUT: its policy drops, by ct state in ip filter INPUT"
	for _, c := range []struct{ policy, rules, perPacket string }{
		{"DROP", "-A INPUT -m conntrack --ctstate NEW -j ACCEPT", policy},
		{"DROP", "-A INPUT -m state --state NEW -j ACCEPT", policy},
		{"ACCEPT", "-A INPUT -m conntrack --ctstate NEW -j ACCEPT\n-A INPUT -j DROP", behind},
		{"ACCEPT", "-A INPUT -m conntrack ! --ctstate NEW -j DROP", "ip filter INPUT: ct state"},
		{"ACCEPT", "-A INPUT -m conntrack --ctstate ESTABLISHED -j RETURN\n-A INPUT -j ACCEPT", ""},
		{"DROP", "-A INPUT -m conntrack --ctstate ESTABLISHED -j RETURN\n-A INPUT -j ACCEPT", policy},
		{"ACCEPT", "-A INPUT -m conntrack --ctstate ESTABLISHED -j other\n-A other -p udp -j DROP", "ip filter other: drops, by ct state in ip filter INPUT"},
		{"DROP", "-A INPUT -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n-A INPUT -p udp -m conntrack --ctstate NEW -j ACCEPT", ""},
		{"DROP", "-A INPUT -p tcp -m conntrack --ctstate NEW -j ACCEPT\n-A INPUT -p udp -j ACCEPT", ""},
		{"ACCEPT", "-A INPUT -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP", ""},
		{"ACCEPT", "-A INPUT -m conntrack --ctstate NEW -j other\n-A other -d 192.0.2.1 -j REJECT\n-A INPUT ! -s 192.0.2.2 -p udp --dport 4789 -j DROP", ""},
	} {
		restore := "*filter\n:INPUT " + c.policy + " [0:0]\n:other - [0:0]\n" + c.rules + "\nCOMMIT\n"
		testenv.Must(t, testenv.Load(t, n, restore, "iptables-nft-restore"))
		if got := laterText(auditRuleset(t, n, 4789).PerPacket); got != c.perPacket {
			t.Errorf("policy %s: %s: perPacket %q, want %q", c.policy, c.rules, got, c.perPacket)
		}
	}
}

// Marks that rules give at one hook decide at others, whichever of the packets that the programs carry get them.
func TestMarksOfLater(t *testing.T) {
	n := testenv.Netns(t)
	of := audit.Overlay{Protocol: unix.IPPROTO_IPIP, Wire: "wire"}
	const pre, wire = "chain first { type filter hook prerouting priority 0; ", "chain first { type filter hook prerouting priority 0; iifname wire "
	const input, byMark = "chain last { type filter hook input priority 0; ", "ip t last: drops, by a mark"
	const early = "chain last { type filter hook prerouting priority -150; " // than translations
	const ofTunnel = "ip t last: reads a mark that depends on the ct state of tunnel packets"
	const state = "chain state { type filter hook prerouting priority -5; ct state new counter; ct state established accept; }\n" // tells them apart
	const label = "sets security marks, of some packets of a tunnel by ct state"
	const second = wire + "ct state established accept; iifname wire meta mark set 1; }\nchain second { type filter hook forward priority -1; meta mark set 2; }\nchain last { type filter hook forward priority 0; meta mark 1 drop; }"
	for _, c := range []struct{ rules, perPacket string }{
		// Pods' packets are marked where they are tracked, and others are not.
		{"chain pre { type filter hook prerouting priority -300; meta l4proto tcp notrack; }\n" +
			"chain pods { type filter hook forward priority 0; ct state established meta mark set 1; }\n" +
			"chain last { type filter hook output priority 0; ip protocol 4 meta mark 1 ct state new accept; ip protocol 4 meta mark 1 drop; }",
			"ip t last: drops, by ct state in ip t last"},
		// A mark that the first packet alone gets, or all but that.
		{pre + "ct state established accept; meta mark set 1; }\n" + input + "ip protocol 4 meta mark 0 drop; }", byMark},
		{pre + "ct state new accept; meta mark set 1; }\n" + input + "ip protocol 4 meta mark 1 drop; }", byMark},
		{pre + "ct state new accept; meta mark set 1; }\n" + input + "meta mark 0 accept; drop; }", byMark},
		{pre + "ct state new accept; meta mark set 1; }\n" + input + "meta mark vmap { 0 : accept, 1 : drop }; }", byMark},
		{pre + "ct state new accept; meta mark set 1; }\n" + input + "meta mark 1 jump drops; }", "ip t drops: drops, by a mark"},
		{pre + "ct state new accept; meta mark set 1; }\n" + input + "meta mark 1 jump denies; ip saddr 192.0.2.1 drop; }", "ip t denies: drops, by a mark"},
		{pre + "ct state established jump marks; }\n" + input + "meta mark 1 drop; }", byMark},
		{pre + "ct state established accept; meta mark set 1; }\n" + input + "meta mark 1 jump opens; ip protocol 4 drop; }", "ip t last: drops, by ct state in ip t opens; 1 more"},
		{pre + "ct state new accept; meta mark set 1; }\n" + input + "meta mark 1 jump begins; ct state new jump begins; ip protocol 4 drop; }", "ip t last: drops, by ct state in ip t begins; 1 more"},
		{pre + "ct state new accept; meta mark set 1; }\n" + input + "meta mark 1 ct state vmap { new : accept, established : accept }; drop; }", "ip t last: drops, by ct state in ip t last"},
		{pre + "ct state new accept; meta mark set 1; }\n" + input + "meta mark 0 ct state established,new accept; policy drop; }", "ip t last: its policy drops, by a mark"},
		{pre + "ct state new accept; meta mark set 1; }\nchain between { type filter hook prerouting priority 5; meta mark 1 meta mark set 6; }\n" + input + "meta mark & 4 == 4 drop; }", byMark},
		{pre + "ct state new accept; meta mark set 1; }\n" + input + "fib saddr . mark oif 0 drop; }", byMark},
		// Nothing is dropped by it, or both are.
		{pre + "ct state established accept; meta mark set 1; }\n" + input + "ip protocol 4 drop; }", ""},
		{pre + "ct state established accept; meta mark set 1; }\n" + input + "meta mark 2 drop; meta mark & 0xfffffffe != 0 drop; }", ""},
		{pre + "ct state established accept; meta mark set 1; }\n" + input + "meta mark 1 counter; ip saddr 192.0.2.1 drop; }", ""},
		{pre + "ct state established accept; meta mark set 1; }\n" + input + "meta mark set 3; meta mark 2 drop; ip protocol 4 meta mark 3 accept; drop; }", ""},
		{pre + "ct state established accept; meta mark set 1; }\n" + input + "meta mark 1 udp dport 53 drop; }", ""},
		{pre + "meta mark set 1; ct state established accept; }\n" + input + "ip protocol 4 meta mark 1 accept; drop; }", ""},
		{pre + "ct state established accept; meta mark set 1; }\nchain last { type filter hook output priority 0; meta mark 1 drop; }", "ip t last: drops, by a mark"},
		{pre + "ct state established jump marks; }\nchain last { type filter hook output priority 0; meta mark 1 drop; }", ""},
		{"chain sent { type filter hook postrouting priority 0; oifname wire ct state established meta mark set 1; }\n" + input + "meta mark 1 drop; }", ""},
		// Only the first packet meets a chain that translates.
		{"chain first { type nat hook prerouting priority -100; meta mark set 1; }\n" + input + "meta mark 0 drop; }", byMark},
		{"chain first { type nat hook prerouting priority -100; jump marks; }\n" + input + "meta mark 1 accept; drop; }", byMark},
		{"chain first { type nat hook prerouting priority -100; meta mark set 1; }\nchain last { type filter hook forward priority 0; meta mark 0 drop; }", ofTunnel},
		{"chain first { type nat hook postrouting priority 100; meta mark set 1; }\nchain last { type filter hook postrouting priority 200; meta mark 0 drop; }", byMark},
		{"chain first { type nat hook postrouting priority 100; meta mark set 1; }\nchain last { type filter hook postrouting priority 0; meta mark 0 accept; }", ""},
		{"chain first { type nat hook prerouting priority -100; udp dport 53 meta mark set 1; }\n" + input + "meta mark 0 drop; }", ""},
		{"chain first { type nat hook prerouting priority -100; drop; }\nchain other { type nat hook postrouting priority 100; ip saddr 192.0.2.1 masquerade; }\n" + input + "meta mark 0 accept; }", ""},
		{"chain none { }\n}\ntable ip kube-proxy {\nchain first { type nat hook prerouting priority -100; meta mark set 1; }\n}\ntable ip t {\n" + input + "meta mark 0 accept; drop; }", ""},
		// So it is with marks of connections that such a chain sets.
		{"chain first { type nat hook prerouting priority -100; ct mark set 1; }\n" + early + "ct mark 1 drop; }", "ip t last: ct mark, which ip t first writes"},
		{"chain first { type nat hook prerouting priority -100; ct mark set ct mark | 1; }\n" + early + "ct mark & 2 == 2 drop; }", ""},
		{"chain first { type nat hook prerouting priority -100; udp dport 53 ct mark set 1; }\n" + early + "ct mark 1 drop; }", ""},
		// Security marks.
		{pre + "ct state new meta secmark set ct secmark; }", "ip t first: " + label},
		{pre + "ct state established accept; ct secmark set meta secmark; }", "ip t first: " + label},
		{pre + "ct state new accept; meta secmark set ct secmark; }", "ip t first: " + label},
		{"chain first { type nat hook prerouting priority -100; ct secmark set meta secmark; }", "ip t first: " + label},
		{pre + "meta secmark set ct secmark; }\n" + state, ""},
		{pre + "udp dport 53 ct state new meta secmark set ct secmark; }", ""},
		// By whether destinations are translated, which is the same for both.
		{pre + "ct status dnat accept; ct state established accept; meta mark set 1; }\n" + input + "ct status dnat meta mark 1 drop; }", ""},
		{pre + "ct status dnat accept; ct state established accept; meta mark set 1; }\n" + input + "meta mark 1 drop; }", byMark},
		// What comes out of a tunnel keeps its mark.
		{wire + "ct state established accept; iifname wire meta mark set 1; }\nchain last { type filter hook forward priority 0; meta mark 1 drop; }", ofTunnel},
		{wire + "ct state established accept; iifname wire meta mark set 1; }\nchain last { type filter hook forward priority 0; ct state new meta mark 0 accept; }", ""},
		{wire + "ct state established accept; iifname wire meta mark set 1; }\nchain last { type filter hook forward priority 0; meta mark 1 counter; meta mark set 2; meta mark 2 drop; }", ""},
		{second, ""},
		// Rules of bridges may be met at any time: those that give marks, too.
		{second + "\n}\ntable bridge t { chain first { type filter hook forward priority 0; ip saddr 192.0.2.1 drop; }", ""},
		{second + "\n}\ntable bridge t { chain first { type filter hook forward priority 0; meta mark 1 drop; }", "bridge t first: reads a mark that depends on the ct state of tunnel packets"},
		{second + "\n}\ntable bridge t { chain first { type filter hook forward priority 0; ip saddr 192.0.2.1 meta mark set 3; }", ofTunnel},
		{wire + "ct state established accept; iifname wire meta mark set 1; }\nchain last { type filter hook prerouting priority 10; iifname != wire meta mark 1 accept; }", ofTunnel},
		{"chain none { type filter hook prerouting priority -300; notrack; }\n" + wire + "ct state established accept; iifname wire meta mark set 1; }\n" +
			"chain last { type filter hook forward priority 0; ct state untracked meta mark 1 drop; }", ofTunnel},
	} {
		if err := testenv.Load(t, n, "flush ruleset\ntable ip t {\nchain drops { ip protocol 4 drop; }\nchain denies { ip saddr 192.0.2.7 drop; }\nchain marks { meta mark set 1; }\n"+
			"chain empty { }\nchain opens { ct state vmap { new : accept }; }\nchain begins { ct state vmap { new : accept }; goto empty; }\n"+c.rules+"\n}\n", "nft", "-f", "-"); err != nil {
			t.Errorf("%s: %v", c.rules, err)
			continue
		}
		if got := laterText(auditOverlay(t, n, of).PerPacket); got != c.perPacket {
			t.Errorf("%s\nper packet %q, want %q", c.rules, got, c.perPacket)
		}
	}
}

// So it is with iptables, whose rpfilter reads the mark if it is told to.
func TestMarksOfLaterOfIPTables(t *testing.T) {
	n := testenv.Netns(t)
	const raw, filter = "*raw\n:PREROUTING ACCEPT [0:0]\n-A PREROUTING ! -i wire ", "*filter\n:INPUT ACCEPT [0:0]\n-A INPUT "
	const ofTunnel, byMark = "ip raw PREROUTING: reads a mark that depends on the ct state of tunnel packets", "ip filter INPUT: drops, by a mark"
	for _, c := range []struct{ states, drops, perPacket string }{
		{"ESTABLISHED", raw + "-m rpfilter --validmark --invert", ofTunnel},
		{"ESTABLISHED", raw + "-m rpfilter --invert", ""},
		{"ESTABLISHED", raw + "-m mark --mark 0x1", ofTunnel},
		{"ESTABLISHED,NEW", raw + "-m mark --mark 0x1", ""},
		{"ESTABLISHED", filter + "-m mark --mark 0x1", byMark},
		{"ESTABLISHED", filter + "-m conntrack --ctstate NEW,ESTABLISHED,UNTRACKED -m mark --mark 0x1", byMark},
		{"ESTABLISHED", filter + "-m conntrack --ctstate DNAT -m mark --mark 0x1", ""},
		{"ESTABLISHED,NEW", filter + "-m mark --mark 0x1", ""},
	} {
		restore := c.drops + " -j DROP\nCOMMIT\n*mangle\n:PREROUTING ACCEPT [0:0]\n" +
			"-A PREROUTING -i wire -m conntrack --ctstate " + c.states + " -j ACCEPT\n-A PREROUTING -i wire -j MARK --set-mark 0x1\nCOMMIT\n"
		testenv.Must(t, testenv.Load(t, n, "flush ruleset", "nft", "-f", "-"))
		testenv.Must(t, testenv.Load(t, n, restore, "iptables-nft-restore"))
		if got := laterText(auditRuleset(t, n, 4789).PerPacket); got != c.perPacket {
			t.Errorf("%s, %s: perPacket %q, want %q", c.states, c.drops, got, c.perPacket)
		}
	}
}

// Rules that ask for other devices than the wire are taken not to be met by tunnels, and so are rules that lead to
// others, or mark packets, by an address. That is said only where something would be refused without it.
func TestStrangersOfLater(t *testing.T) {
	n := testenv.Netns(t)
	const own, behind = "ip t first: drops, by ct state in ip t first", "ip t other: drops, by ct state in ip t other"
	a, b := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	for _, c := range []struct {
		rules, perPacket string
		addresses        []netip.Addr
		devices          []string
	}{
		{rules: "ip saddr 192.0.2.2 jump other; ip daddr 192.0.2.1 jump other", addresses: []netip.Addr{a, b}},
		{rules: "ip saddr 192.0.2.1 counter jump other", addresses: []netip.Addr{a}},
		{rules: "ip saddr 192.0.2.1 meta mark set 1; meta mark 1 jump other", addresses: []netip.Addr{a}},
		{rules: "iifname cali0 jump other; iifname \"cni*\" ct state new accept; ip saddr 192.0.2.1 accept", devices: []string{"cali0", "cni*"}},
		{rules: "iifname cali0 ip saddr 192.0.2.1 jump other", devices: []string{"cali0"}},
		{rules: "iifname cali0 ct state established drop", devices: []string{"cali0"}},
		{rules: "ip saddr 192.0.2.1 log; iifname cali0 jump other; ip daddr 192.0.2.2 accept", devices: []string{"cali0"}},
		// They may be for tunnels.
		{rules: "ip saddr 192.0.2.1 goto other", perPacket: behind},
		{rules: "ip saddr != 192.0.2.1 jump other", perPacket: behind},
		{rules: "ip saddr 192.0.2.0/31 jump other", perPacket: behind},
		{rules: "ip saddr { 192.0.2.1, 192.0.2.2 } jump other", perPacket: behind},
		{rules: "udp dport 4789 jump other", perPacket: behind},
		{rules: "iifname wire jump other", perPacket: behind},
		{rules: "iifname \"wi*\" jump other", perPacket: behind},
		{rules: "iifname != cali0 jump other", perPacket: behind},
		{rules: "iifname { cali0, wire } jump other", perPacket: behind},
		{rules: "ip saddr 192.0.2.1 jump other; ct state established drop", perPacket: behind + "; 1 more"},
		{rules: "ip saddr 192.0.2.1 ct state new accept; ip saddr 192.0.2.1 drop", perPacket: own},
		// There is nothing to take for another's.
		{rules: "ip saddr 192.0.2.1 jump counts; iifname cali0 accept"},
		{rules: "ct state established accept; ip saddr 192.0.2.1 jump other"},
	} {
		testenv.Must(t, testenv.Load(t, n, "flush ruleset\ntable ip t {\nchain other { ct state new accept; drop; }\nchain counts { counter; }\n"+
			"chain first {\ntype filter hook input priority 5\n"+c.rules+"\n}\n}\n", "nft", "-f", "-"))
		got := auditRuleset(t, n, 4789)
		if want := (audit.Strangers{Addresses: c.addresses, Devices: c.devices}); laterText(got.PerPacket) != c.perPacket || !got.Strangers.Equal(want) {
			t.Errorf("%s: perPacket %q, want %q; strangers %v, want %v", c.rules, got.PerPacket, c.perPacket, got.Strangers, want)
		}
	}
}
