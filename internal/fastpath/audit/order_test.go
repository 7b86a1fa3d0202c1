package audit_test

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/fastpath/audit"
	"github.com/venturi-net/venturi/internal/nft"
	"github.com/venturi-net/venturi/internal/testenv"
)

// What a rule does before it turns out that it does not match is done all the same, and what a verdict map leads to
// is met even if the rest of its rule matches nothing.
func TestRulingsInOrder(t *testing.T) {
	n := testenv.Netns(t)
	const behind = "; }; chain later { type filter hook forward priority 5; "
	const limited = "ct state established accept; limit rate 10/second accept"
	for _, c := range []struct{ rules, perPacket string }{
		{"ip dscp set cs1 ct state new accept", "ip t first: writes packets"},
		{"ct state new ip dscp set cs1 accept", ""},
		{"meta length > 500 ct state new drop", ""},
		{"meta length > 500 meta mark set 7 ct state new drop", "ip t first: meta length"},
		{"meta mark set 7 ct state new accept; meta mark 7 limit rate 10/second accept", "ip t first: limit"},
		{"ct state new meta mark set 7 accept; meta mark 7 limit rate 10/second accept", ""},
		{"ct mark 7 accept; ct mark set 7 ct state new accept", "ip t first: ct mark, which ip t first writes"},
		// They count whatever gets to them.
		{"limit rate 10/second ct state new accept", "ip t first: limit"},
		{"quota over 1 mbytes ct state new drop", "ip t first: quota"},
		{"ct state new quota over 1 mbytes drop", ""},
		{"limit rate 10/second ct state new log", ""},
		{"limit rate 10/second ct state new jump other", "ip t first: limit"},
		{"ip saddr @counting ct state new drop", "ip t first: set counting: quota"},
		{"ct state new ip saddr @counting drop", ""},
		{"ip saddr @young ct state new drop", ""},
		{"ip saddr @tallied ct state new drop", ""},
		{"ip saddr @tallied drop", "ip t first: elements of set tallied come and go by themselves"},
		{"ip saddr @limiting ct state new drop", "ip t first: elements of set limiting come and go by themselves"},
		// A verdict map ends a rule where it has a verdict.
		{"tcp dport vmap { 80 : jump other } ct state new accept", "ip t other: limit"},
		{"tcp dport vmap { 80 : jump other, 81 : drop } ct state new accept", "ip t other: limit"},
		{"ct state new tcp dport vmap { 80 : jump other }", ""},
		{"tcp dport vmap { 80 : jump marks } counter accept; meta mark 5 limit rate 10/second accept", "ip t first: limit"},
		{"notrack accept" + behind + limited, "ip t later: limit"},
		{"notrack counter" + behind + limited, "ip t later: limit"},
		{"notrack ct state new accept" + behind + limited, "ip t later: limit"},
		{"ct state new notrack accept" + behind + limited, ""},
	} {
		input := "flush ruleset\ntable ip t {\nset young { type ipv4_addr; flags dynamic,timeout; timeout 1m; }\nset counting { type ipv4_addr; quota over 10 kbytes; elements = { 192.0.2.1 }; }\n" +
			"set tallied { type ipv4_addr; flags dynamic,timeout; timeout 1m; counter; elements = { 192.0.2.1 }; }\n" +
			"set limiting { type ipv4_addr; flags dynamic,timeout; timeout 1m; limit rate 5/second; elements = { 192.0.2.1 }; }\n" +
			"chain other { limit rate 10/second accept; }\nchain marks { meta mark set 5; }\nchain first {\ntype filter hook prerouting priority 5\n" + c.rules + "\n}\n}\n"
		if err := testenv.Load(t, n, input, "nft", "-f", "-"); err != nil {
			t.Errorf("%s: %v", c.rules, err)
			continue
		}
		if got := auditRuleset(t, n, 0).PerPacket; got != c.perPacket {
			t.Errorf("%s: perPacket %q, want %q", c.rules, got, c.perPacket)
		}
	}
}

// What a match of iptables goes by makes no difference in front of a state that no packet has, if the match does
// nothing but look. Others keep everything slow there, and so do all behind which packets have an effect.
func TestMatchesInFrontOfState(t *testing.T) {
	state := []*nl.RtAttr{expression("ct", number(unix.NFTA_CT_KEY, unix.NFT_CT_STATE), number(unix.NFTA_CT_DREG, 1)),
		expression("cmp", number(unix.NFTA_CMP_SREG, 1), number(unix.NFTA_CMP_OP, unix.NFT_CMP_EQ),
			nestedAttr(unix.NFTA_CMP_DATA, nl.NewRtAttr(unix.NFTA_DATA_VALUE, binary.NativeEndian.AppendUint32(nil, nft.StateNew))))}
	drop := nestedAttr(unix.NFTA_IMMEDIATE_DATA, nestedAttr(unix.NFTA_DATA_VERDICT, number(unix.NFTA_VERDICT_CODE, 0)))
	verdict := expression("immediate", number(unix.NFTA_IMMEDIATE_DREG, unix.NFT_REG_VERDICT), drop)
	finding := func(parts ...*nl.RtAttr) string {
		got, err := audit.FindingOf(map[string][][]byte{"first": {filterMessage(nestedAttr(unix.NFTA_RULE_EXPRESSIONS, parts...))}}, "first")
		testenv.Must(t, err)
		return strings.TrimPrefix(got, "ip t first: ")
	}
	looks := []string{"time", "string", "u32", "cpu", "ecn", "ipvs", "l2tp", "length", "dscp", "tos", "ttl", "connbytes", "tcpmss", "hl", "frag", "rt", "ipv6header"}
	does := []string{"limit", "hashlimit", "statistic", "quota", "recent", "connlimit", "connlabel", "socket", "bpf", "osf", "rateest", "novelty"}
	for _, name := range append(looks, does...) {
		match := expression("match", text(1, name))
		want := "match " + name
		if got := finding(match, verdict); got != want {
			t.Errorf("%s with a verdict: perPacket %q, want %q", name, got, want)
		}
		if got := finding(append(append(slices.Clone(state), match), verdict)...); got != "" {
			t.Errorf("%s behind a state: perPacket %q", name, got)
		}
		got := finding(append(append([]*nl.RtAttr{match}, state...), verdict)...)
		if slices.Contains(looks, name) {
			want = ""
		}
		if got != want {
			t.Errorf("%s in front of a state: perPacket %q, want %q", name, got, want)
		}
		if got := finding(append(append([]*nl.RtAttr{expression("match", text(1, name), number(2, 99))}, state...), verdict)...); got == "" {
			t.Errorf("%s of revision 99 is taken for known", name)
		}
	}
}

// So it is with the matches of iptables, of which each counts.
func TestRulingsInOrderOfIPTables(t *testing.T) {
	n := testenv.Netns(t)
	testenv.InNetns(t, n.Path(), func() error { return netlink.IpsetCreate("ours", "hash:ip", netlink.IpsetCreateOptions{}) })
	for rule, perPacket := range map[string]string{
		"-m limit --limit 10/s -m set --match-set ours src -j ACCEPT":                                             "limit",
		"-m set --match-set ours src -m limit --limit 10/s -j ACCEPT":                                             "limit",
		"-m length --length 100 -m set --match-set ours src -j DROP":                                              "match length",
		"-m hashlimit --hashlimit-name h --hashlimit-upto 10/s -m conntrack --ctstate NEW -j ACCEPT":              "match hashlimit",
		"-m conntrack --ctstate NEW -m hashlimit --hashlimit-name h --hashlimit-upto 10/s -j ACCEPT":              "",
		"-m recent --name r --update -m conntrack --ctstate NEW -j DROP":                                          "match recent",
		"-m length --length 100 -m conntrack --ctstate NEW -j DROP":                                               "",
		"-m conntrack --ctstate NEW -m set --match-set ours src -m limit --limit 10/s -j ACCEPT":                  "",
		"-m time --timestart 10:00 --timestop 12:00 -m conntrack --ctstate NEW -j DROP":                           "",
		"-m time --timestart 10:00 --timestop 12:00 -m limit --limit 10/s -m conntrack --ctstate NEW -j DROP":     "limit",
		"-m time --timestart 10:00 --timestop 12:00 -j DROP":                                                      "match time",
		"-m statistic --mode nth --every 2 --packet 0 -m conntrack --ctstate NEW -j DROP":                         "match statistic",
		"-m statistic --mode nth --every 2 --packet 0 -m conntrack --ctstate NEW -j LOG":                          "",
		"-p icmp -m limit --limit 10/s -m conntrack --ctstate NEW -j ACCEPT":                                      "",
		"-p tcp --syn -m hashlimit --hashlimit-name h --hashlimit-upto 10/s -m conntrack --ctstate NEW -j ACCEPT": "",
	} {
		testenv.Must(t, testenv.Load(t, n, "*filter\n:FORWARD ACCEPT [0:0]\n-A FORWARD "+rule+"\nCOMMIT\n", "iptables-nft-restore"))
		if got := strings.TrimPrefix(auditRuleset(t, n, 0).PerPacket, "ip filter FORWARD: "); strings.ReplaceAll(got, "match limit", "limit") != perPacket {
			t.Errorf("%s: perPacket %q, want %q", rule, got, perPacket)
		}
	}
}
