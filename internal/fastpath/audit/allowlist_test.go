package audit_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/fastpath/audit"
	"github.com/venturi-net/venturi/internal/nft"
	"github.com/venturi-net/venturi/internal/testenv"
)

// unseen is an attribute that no kernel has yet.
const unseen = 200

func text(number int, value string) *nl.RtAttr { return nl.NewRtAttr(number, nl.ZeroTerminated(value)) }

func number(kind int, value uint32) *nl.RtAttr { return nl.NewRtAttr(kind, nl.BEUint32Attr(value)) }

func nestedAttr(kind int, parts ...*nl.RtAttr) *nl.RtAttr {
	a := nl.NewRtAttr(kind, nil)
	for _, p := range parts {
		a.AddChild(p)
	}
	return a
}

// expression is an expression in a rule's list, as the kernel encodes it.
func expression(name string, data ...*nl.RtAttr) *nl.RtAttr {
	parts := []*nl.RtAttr{text(unix.NFTA_EXPR_NAME, name)}
	if len(data) > 0 {
		parts = append(parts, nestedAttr(unix.NFTA_EXPR_DATA, data...))
	}
	return nestedAttr(unix.NFTA_LIST_ELEM, parts...)
}

// filterMessage is a message of the packet filter for IPv4.
func filterMessage(attrs ...*nl.RtAttr) []byte {
	m := []byte{unix.NFPROTO_IPV4, 0, 0, 0}
	for _, a := range attrs {
		m = append(m, a.Serialize()...)
	}
	return m
}

// A part of a rule that is not proven to treat all packets of a flow alike is refused by name,
// wherever it is in the rule.
func TestUnprovenRules(t *testing.T) {
	meta := func(key uint32) *nl.RtAttr {
		return expression("meta", number(unix.NFTA_META_KEY, key), number(unix.NFTA_META_DREG, 1))
	}
	for _, c := range []struct {
		perPacket string
		parts     []*nl.RtAttr
	}{
		{"", []*nl.RtAttr{meta(unix.NFT_META_MARK)}},
		{"novelty", []*nl.RtAttr{expression("novelty", number(1, 1))}},
		{"novelty", []*nl.RtAttr{expression("novelty"), expression("counter")}},
		{"meta key 99", []*nl.RtAttr{meta(99)}},
		{"meta key 19", []*nl.RtAttr{expression("meta", number(unix.NFTA_META_KEY, unix.NFT_META_PKTTYPE), number(unix.NFTA_META_SREG, 1))}},
		{"ct key 99", []*nl.RtAttr{expression("ct", number(unix.NFTA_CT_KEY, 99), number(unix.NFTA_CT_DREG, 1))}},
		{"ct key 6", []*nl.RtAttr{expression("ct", number(unix.NFTA_CT_KEY, unix.NFT_CT_HELPER), number(unix.NFTA_CT_SREG, 1))}},
		{"rt key 99", []*nl.RtAttr{expression("rt", number(unix.NFTA_RT_KEY, 99), number(unix.NFTA_RT_DREG, 1))}},
		{"rt mtu", []*nl.RtAttr{expression("rt", number(unix.NFTA_RT_KEY, unix.NFT_RT_TCPMSS), number(unix.NFTA_RT_DREG, 1))}},
		{"named object of type 99", []*nl.RtAttr{expression("objref", number(unix.NFTA_OBJREF_IMM_TYPE, 99))}},
		{"match novelty", []*nl.RtAttr{expression("match", text(1, "novelty"))}},
		{"match mark of revision 9", []*nl.RtAttr{expression("match", text(1, "mark"), number(2, 9))}},
		{"target NOVELTY", []*nl.RtAttr{expression("target", text(1, "NOVELTY"))}},
		{"target MARK of revision 9", []*nl.RtAttr{expression("target", text(1, "MARK"), number(2, 9))}},
		{"a verdict that is not known", []*nl.RtAttr{expression("immediate", number(unix.NFTA_IMMEDIATE_DREG, unix.NFT_REG_VERDICT),
			nestedAttr(unix.NFTA_IMMEDIATE_DATA, nestedAttr(unix.NFTA_DATA_VERDICT, number(unix.NFTA_VERDICT_CODE, 77))))}},
	} {
		got, err := audit.RuleOf(filterMessage(nestedAttr(unix.NFTA_RULE_EXPRESSIONS, c.parts...)))
		if err != nil || got != c.perPacket {
			t.Errorf("%q: perPacket %q, %v", c.perPacket, got, err)
		}
	}
	got, err := audit.RuleOf(filterMessage(nestedAttr(unix.NFTA_RULE_EXPRESSIONS, meta(unix.NFT_META_MARK)), number(unseen, 1)))
	if want := fmt.Sprintf("attribute %d of a rule of nftables", unseen); err != nil || got != want {
		t.Errorf("perPacket %q, want %q; %v", got, want, err)
	}
	for _, p := range audit.Allowlist() {
		if p.Kind != "expression of nftables" {
			continue
		}
		for _, name := range p.Names {
			got, err := audit.RuleOf(filterMessage(nestedAttr(unix.NFTA_RULE_EXPRESSIONS, expression(name, number(unseen, 1)))))
			if errors.Is(err, unix.EPERM) && os.Geteuid() != 0 {
				continue // looking up its set in the kernel takes root
			}
			if err != nil || got == "" {
				t.Errorf("%s with an attribute that nobody knows: perPacket %q, %v", name, got, err)
			}
		}
	}
}

// nft compares whole values, and asks for the version of IP in tables for both alone. Others may do otherwise, and
// then nothing is known of what matches.
func TestComparisons(t *testing.T) {
	meta := func(key uint32) *nl.RtAttr {
		return expression("meta", number(unix.NFTA_META_KEY, key), number(unix.NFTA_META_DREG, 1))
	}
	state := expression("ct", number(unix.NFTA_CT_KEY, unix.NFT_CT_STATE), number(unix.NFTA_CT_DREG, 1))
	version, protocol := meta(unix.NFT_META_NFPROTO), meta(unix.NFT_META_PROTOCOL)
	for _, c := range []struct {
		name, family string
		load         *nl.RtAttr
		value        []byte
		some, all    bool
	}{
		{"a state", "ip", state, binary.NativeEndian.AppendUint32(nil, nft.StateEstablished), true, true},
		{"another state", "ip", state, binary.NativeEndian.AppendUint32(nil, nft.StateNew), false, false},
		{"a part of a state", "ip", state, []byte{nft.StateNew}, true, false},
		{"a protocol", "ip", protocol, []byte{8, 0}, true, true},
		{"a part of a protocol", "ip", protocol, []byte{8}, true, false},
		{"a version of IP", "inet", version, []byte{unix.NFPROTO_IPV4}, true, true},
		{"another version of IP", "inet", version, []byte{unix.NFPROTO_IPV6}, false, false},
		{"a version of IP on a bridge", "bridge", version, []byte{unix.NFPROTO_IPV4}, true, false},
		{"another version of IP on a bridge", "bridge", version, []byte{unix.NFPROTO_BRIDGE}, true, false},
	} {
		compare := expression("cmp", number(unix.NFTA_CMP_SREG, 1), number(unix.NFTA_CMP_OP, unix.NFT_CMP_EQ),
			nestedAttr(unix.NFTA_CMP_DATA, nl.NewRtAttr(unix.NFTA_DATA_VALUE, c.value)))
		some, all, err := audit.Matches(c.family, filterMessage(nestedAttr(unix.NFTA_RULE_EXPRESSIONS, c.load, compare)))
		if err != nil || some != c.some || some && all != c.all {
			t.Errorf("%s: some match: %v, all match: %v, want %v, %v; %v", c.name, some, all, c.some, c.all, err)
		}
	}
}

// The same holds for sets and their elements.
func TestUnprovenSets(t *testing.T) {
	limit := expression("limit", number(1, 1))
	counter := expression("counter")
	for want, attrs := range map[string][]*nl.RtAttr{
		"":                        {number(unix.NFTA_SET_FLAGS, unix.NFT_SET_ANONYMOUS|unix.NFT_SET_CONSTANT)},
		"set s: limit":            {nestedAttr(17, text(unix.NFTA_EXPR_NAME, "limit"))},
		"set s: quota":            {nestedAttr(18, counter, expression("quota"))},
		"set s: novelty":          {nestedAttr(18, expression("novelty"))},
		"set s has flags 0x10000": {number(unix.NFTA_SET_FLAGS, 1<<16|unix.NFT_SET_MAP)},
		"set s has flags 0x40":    {number(unix.NFTA_SET_FLAGS, unix.NFT_SET_OBJECT)},
		"set s: attribute 200 of a set of nftables": {number(unseen, 1)},
	} {
		if got, err := audit.SetOf(filterMessage(attrs...)); err != nil || got != want {
			t.Errorf("perPacket %q, want %q; %v", got, want, err)
		}
	}
	for want, attrs := range map[string][]*nl.RtAttr{
		"":                                     {nestedAttr(11, counter, expression("last"))},
		"limit":                                {nestedAttr(11, counter, limit)},
		"quota":                                {nestedAttr(unix.NFTA_SET_ELEM_EXPR, text(unix.NFTA_EXPR_NAME, "quota"))},
		"attribute 9 of an element of a set":   {text(unix.NFTA_SET_ELEM_OBJREF, "q")},
		"attribute 4 of an element of a set":   {number(unix.NFTA_SET_ELEM_TIMEOUT, 1)},
		"attribute 200 of an element of a set": {number(unseen, 1)},
		"a verdict that is not known":          {nestedAttr(unix.NFTA_SET_ELEM_DATA, nestedAttr(unix.NFTA_DATA_VERDICT, number(unix.NFTA_VERDICT_CODE, 77)))},
	} {
		var message []byte
		for _, a := range attrs {
			message = append(message, a.Serialize()...)
		}
		if got, err := audit.ElementOf(message); err != nil || got != want {
			t.Errorf("perPacket %q, want %q; %v", got, want, err)
		}
		if got := audit.ElementConsumes(message); got != (want == "limit" || want == "quota") {
			t.Errorf("an element with %q decides by what it counts: %v", want, got)
		}
	}
}

// A set lookup does not hold for the next packet if the set counts, or if packets of any kind
// change the set.
func TestRulingsOfSets(t *testing.T) {
	n := testenv.Netns(t)
	for _, c := range []struct{ more, rules, later, perPacket string }{
		{"set s { type ipv4_addr; counter; elements = { 192.0.2.1 }; }", "ip saddr @s accept; drop", "", ""},
		{"set s { type ipv4_addr; limit rate 50/second; elements = { 192.0.2.1 }; }", "ip saddr @s accept; drop", "", "ip t first: set s: limit"},
		{"set s { type ipv4_addr; quota over 10 kbytes; elements = { 192.0.2.1 }; }", "ip saddr @s accept; drop", "", "ip t first: set s: quota"},
		{"set s { type ipv4_addr; counter; limit rate 50/second; elements = { 192.0.2.1 }; }", "ip saddr @s accept; drop", "", "ip t first: set s: limit"},
		{"map m { type ipv4_addr : verdict; counter; elements = { 192.0.2.1 : drop }; }", "ip saddr vmap @m", "", ""},
		{"map m { type ipv4_addr : verdict; limit rate 50/second; elements = { 192.0.2.1 : drop }; }", "ip saddr vmap @m", "", "ip t first: set m: limit"},
		{"set bad { type ipv4_addr; }", "ip saddr @bad drop", "first ct state new udp dport 9999 add @bad { ip saddr }", fed},
		{"set bad { type ipv4_addr; }\nchain own { type filter hook input priority 0; }", "ip saddr @bad drop", "own tcp dport 22 add @bad { ip saddr }", fed},
		{"set bad { type ipv4_addr; }\nchain nat { type nat hook postrouting priority 100; }", "ip saddr @bad drop", "nat add @bad { ip saddr }", fed},
		{"set bad { type ipv4_addr; flags dynamic; }", "ip saddr @bad drop", "", fed},
		{"set bad { type ipv4_addr; }\nset good { type ipv4_addr; }\nchain own { type filter hook input priority 0; }", "ip saddr @bad drop", "own add @good { ip saddr }", ""},
	} {
		input := "flush ruleset\ntable ip t {\n" + c.more + "\nchain first {\ntype filter hook forward priority 5\n" + c.rules + "\n}\n}\n"
		// If the rule is created together with the set, the kernel marks the set as dynamic.
		later := ""
		if c.later != "" {
			later = "add rule ip t " + c.later
		}
		err := testenv.Load(t, n, input, "nft", "-f", "-")
		if err == nil {
			err = testenv.Load(t, n, later, "nft", "-f", "-")
		}
		if err != nil {
			t.Errorf("%s: %v", c.more, err)
			continue
		}
		if got := auditRuleset(t, n, 0).PerPacket; got != c.perPacket {
			t.Errorf("%s\n%s: perPacket %q, want %q", c.more, c.rules, got, c.perPacket)
		}
	}
}

// So it is in a table that is called as one of iptables for translation, and does more than that.
func TestSetsInTableOfTranslation(t *testing.T) {
	n := testenv.Netns(t)
	testenv.Must(t, testenv.Load(t, n, "table ip nat { set bad { type ipv4_addr; }; chain PREROUTING { type nat hook prerouting priority -100; };"+
		"chain first { type filter hook forward priority 5; ip saddr @bad drop; }; }", "nft", "-f", "-"))
	testenv.Must(t, testenv.Load(t, n, "add rule ip nat PREROUTING add @bad { ip saddr }", "nft", "-f", "-"))
	if got, want := auditRuleset(t, n, 0).PerPacket, strings.Replace(fed, "ip t", "ip nat", 1); got != want {
		t.Errorf("perPacket %q, want %q", got, want)
	}
}

const fed = "ip t first: elements of set bad come and go by themselves"

// A rule that sets marks is found, because packets of the fast path have none.
func TestRulingsWriteMarks(t *testing.T) {
	n := testenv.Netns(t)
	for _, c := range []struct {
		hook, rules string
		port        uint16
		marks       string
	}{
		{"forward", "meta mark 7 accept", 0, ""},
		{"forward", "meta mark set 7", 0, "ip t first"},
		{"forward", "ip saddr 192.0.2.1 meta mark set meta mark | 0x10", 0, "ip t first"},
		{"forward", "jump marks", 0, "ip t marks"},
		{"forward", "ct mark set 7", 0, ""},
		{"forward", "ct state new meta mark set 7", 0, ""},
		{"forward", "icmp type echo-request meta mark set 7", 0, ""},
		{"output", "meta mark set 7", 0, ""},
		{"output", "meta mark set 7", 4789, "ip t first"},
	} {
		input := "flush ruleset\ntable ip t {\nchain marks { meta mark set 5; }\nchain nat { type nat hook postrouting priority 100; meta mark set 5; }\n" +
			"chain first {\ntype filter hook " + c.hook + " priority 5\n" + c.rules + "\n}\n}\n"
		if err := testenv.Load(t, n, input, "nft", "-f", "-"); err != nil {
			t.Errorf("%s: %v", c.rules, err)
			continue
		}
		if got := auditRuleset(t, n, c.port); got.MarkChain != c.marks || got.PerPacket != "" {
			t.Errorf("%s: marks are given by %q, want %q; perPacket %q", c.rules, got.MarkChain, c.marks, got.PerPacket)
		}
	}
}

// Whether packets may have a mark behind the last rule is known: marks that rules clear again do not count.
func TestRulingsLeaveMarks(t *testing.T) {
	n := testenv.Netns(t)
	for _, c := range []struct {
		first, last string // at prerouting, and at postrouting
		left        bool
	}{
		{"", "", false},
		{"meta mark set 7", "", true},
		{"", "meta mark set 7", true},
		{"iifname pod0 meta mark set meta mark | 0x40000", "", true},
		{"iifname pod0 meta mark set meta mark | 0x40000", "meta mark set meta mark & 0xfff1ffff", false},
		{"iifname pod0 meta mark set meta mark | 0x40000", "meta mark set meta mark & 0xffff1fff", true},
		{"meta mark set 7", "oifname wire meta mark set 0", true},
		{"meta mark set ct mark", "", true},
		{"ct state new meta mark set 7", "", true}, // each packet of a tunnel is new
		{"ct state new meta mark set 7", "meta mark set 0", false},
		{"meta secmark set ct secmark", "", true},
	} {
		input := "flush ruleset\ntable ip6 t {\nchain nat { type nat hook postrouting priority 100; meta mark set 5; }\n" +
			"chain own { type filter hook output priority 0; meta mark 5 accept; }\n" +
			"chain first {\ntype filter hook prerouting priority 0\n" + c.first + "\n}\nchain last {\ntype filter hook postrouting priority 0\n" + c.last + "\n}\n}\n"
		if err := testenv.Load(t, n, input, "nft", "-f", "-"); err != nil {
			t.Errorf("%s: %v", c.first, err)
			continue
		}
		if got := auditOverlay(t, n, audit.Overlay{Family: audit.IPv6, Protocol: unix.IPPROTO_UDP, Port: 8472, Wire: "wire"}); got.LeavesMark != c.left || got.PerPacket != "" {
			t.Errorf("%q, %q: leaves marks: %v, want %v; perPacket %q", c.first, c.last, got.LeavesMark, c.left, got.PerPacket)
		}
	}
}

// A flowtable is named if it is of the family of the packets.
func TestFlowtables(t *testing.T) {
	message := filterMessage(text(1, "x"), text(2, "f"))
	for of, want := range map[audit.Family]string{audit.IPv4: "ip x f", audit.IPv6: ""} {
		if got, err := audit.FlowtableOf(message, of); err != nil || got != want {
			t.Errorf("%v: flowtable %q, %v; want %q", of, got, err, want)
		}
	}
}
