package audit_test

import (
	"encoding/binary"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/fastpath/audit"
	"github.com/venturi-net/venturi/internal/nft"
	"github.com/venturi-net/venturi/internal/testenv"
)

// Rules for a tunnel's packets that read MACs or the source port treat packets of one flow in different ways,
// since the programs carry packets with any; those for the packets in it do not.
func TestRulingsOfSenders(t *testing.T) {
	n := testenv.Netns(t)
	const macs, source = "ip t first: bytes 6 to 11 of a header", "ip t first: bytes 0 to 1 of a header"
	for _, c := range []struct{ hook, rules, perPacket string }{
		{"input", `iifname "wire" udp dport 4789 ether saddr != 02:00:00:00:00:01 drop`, macs},
		{"input", "ether daddr 02:00:00:00:00:01 drop", "ip t first: bytes 0 to 5 of a header"},
		{"input", "ether type ip udp dport 4789 accept", ""},
		{"prerouting", "ether saddr 02:00:00:00:00:01 drop", macs},
		{"forward", "ether saddr 02:00:00:00:00:01 drop", ""},
		{"input", "ether saddr 02:00:00:00:00:01 counter", ""},
		{"input", "udp sport < 1024 drop", source},
		{"input", "udp sport 53 accept", source},
		{"output", "udp sport { 1, 2 } drop", source},
		{"input", "udp sport 1 udp dport 4789 drop", "ip t first: bytes 0 to 3 of a header"},
		{"input", "udp sport 67 udp dport 68 accept", ""},
		{"input", "udp dport 68 udp sport 67 accept", ""},
		{"input", "tcp sport 1 drop", ""},
		{"forward", "udp sport < 1024 drop", ""},
		{"forward", "udp sport 1 udp dport 2 drop", ""},
		{"input", "ct id 1 drop", "ip t first: ct id"},
		{"input", "symhash mod 2 0 drop", "ip t first: symhash"},
		{"forward", "symhash mod 2 0 drop", ""},
	} {
		input := "flush ruleset\ntable ip t {\nchain first {\ntype filter hook " + c.hook + " priority 5\n" + c.rules + "\n}\n}\n"
		if err := testenv.Load(t, n, input, "nft", "-f", "-"); err != nil {
			t.Errorf("%s: %v", c.rules, err)
			continue
		}
		if got := auditRuleset(t, n, 4789).PerPacket; got != c.perPacket {
			t.Errorf("%s: %s: perPacket %q, want %q", c.hook, c.rules, got, c.perPacket)
		}
		if got := auditRuleset(t, n, 0).PerPacket; got != "" {
			t.Errorf("%s: %s: perPacket %q without a tunnel", c.hook, c.rules, got)
		}
	}
}

// So do matches of iptables.
func TestMatchesOfSenders(t *testing.T) {
	udp := func(sources, targets [2]uint16, inverted byte) []byte {
		info := make([]byte, 0, 16)
		for _, port := range append(sources[:], targets[:]...) {
			info = binary.NativeEndian.AppendUint16(info, port)
		}
		return append(info, inverted, 0, 0, 0, 0, 0, 0, 0)
	}
	// multiport is data about target ports: numbers, and which of them begins a range (-1: none does).
	multiport := func(inverted byte, begins int, ports ...uint16) []byte {
		info := make([]byte, 48)
		info[0], info[1], info[47] = 1, byte(len(ports)), inverted
		for i, p := range ports {
			binary.NativeEndian.PutUint16(info[2+2*i:], p)
		}
		if begins >= 0 {
			info[32+begins] = 1
		}
		return info
	}
	every, tunnel, other := [2]uint16{0, 65535}, [2]uint16{4789, 4789}, [2]uint16{68, 68}
	latest := map[string]uint32{"multiport": 1}
	for _, c := range []struct {
		match, name string
		info        []byte
		perPacket   string
		matches     bool
	}{
		{"the source MAC", "mac", make([]byte, 8), "match mac", true},
		{"any ports", "udp", udp(every, every, 0), "", true},
		{"the tunnel's port", "udp", udp(every, tunnel, 0), "", true},
		{"another port", "udp", udp([2]uint16{67, 67}, other, 0), "match udp of source ports", false},
		{"all but the tunnel's port", "udp", udp(every, tunnel, 2), "", false},
		{"low source ports", "udp", udp([2]uint16{0, 1023}, tunnel, 0), "match udp of source ports", true},
		{"cut short", "udp", nil, "match udp", true},
		{"any TCP", "tcp", make([]byte, 12), "", false},
		{"source ports", "multiport", []byte{0, 1, 5, 0}, "match multiport of source ports", true},
		{"target ports", "multiport", []byte{1, 1, 5, 0}, "", true},
		{"the tunnel's port, too", "multiport", multiport(0, -1, 53, 4789), "", true},
		{"others", "multiport", multiport(0, -1, 53, 8472), "", false},
		{"a range with the tunnel's port", "multiport", multiport(0, 1, 53, 4000, 5000), "", true},
		{"a range without it", "multiport", multiport(0, 0, 53, 4000, 5000), "", false},
		{"all but the tunnel's port", "multiport", multiport(1, -1, 53, 4789), "", false},
		{"all but others", "multiport", multiport(1, -1, 53, 8472), "", true},
		{"either port", "multiport", []byte{2, 1, 5, 0}, "match multiport of source ports", true},
		{"the port of the sender", "conntrack", conntrackFlags(1 << 8), "ct source port", true},
		{"the port of the receiver", "conntrack", conntrackFlags(1 << 9), "", true},
	} {
		rule := filterMessage(nestedAttr(unix.NFTA_RULE_EXPRESSIONS, expression("match", text(1, c.name), number(2, latest[c.name]), nl.NewRtAttr(3, c.info))))
		got, matches, err := audit.TunnelRuleOf(audit.Overlay{Protocol: unix.IPPROTO_UDP, Port: 4789}, rule)
		if err != nil || got != c.perPacket || matches != c.matches {
			t.Errorf("%s %s: perPacket %q, matches %v (%v), want %q, %v", c.name, c.match, got, matches, err, c.perPacket, c.matches)
		}
		if got, err := audit.RuleOf(rule); err != nil || got != "" {
			t.Errorf("%s %s: perPacket %q, %v for pods' packets", c.name, c.match, got, err)
		}
		unknown := ""
		if c.match == "cut short" {
			unknown = c.perPacket
		}
		got, matches, err = audit.UntrackedRuleOf(audit.Overlay{Protocol: unix.IPPROTO_UDP, Port: 4789}, rule)
		if err != nil || got != unknown || matches != c.matches {
			t.Errorf("%s %s: perPacket %q, matches %v (%v) for pods' packets to the tunnel's port", c.name, c.match, got, matches, err)
		}
	}
}

// What is known of a connection says its ports.
func TestConnectionsOfSenders(t *testing.T) {
	const original, reply = 0, 1
	for _, c := range []struct {
		key       uint32
		direction byte
		perPacket string
	}{
		{unix.NFT_CT_PROTO_SRC, original, "ct proto-src"},
		{unix.NFT_CT_PROTO_SRC, reply, "ct proto-src"},
		{unix.NFT_CT_PROTO_DST, original, ""},
		{unix.NFT_CT_PROTO_DST, reply, "ct proto-dst"},
		{unix.NFT_CT_SRC, original, ""},
	} {
		rule := filterMessage(nestedAttr(unix.NFTA_RULE_EXPRESSIONS, expression("ct",
			number(unix.NFTA_CT_KEY, c.key), number(unix.NFTA_CT_DREG, 1), nl.NewRtAttr(unix.NFTA_CT_DIRECTION, []byte{c.direction}))))
		if got, _, err := audit.TunnelRuleOf(audit.Overlay{Protocol: unix.IPPROTO_UDP, Port: 4789}, rule); err != nil || got != c.perPacket {
			t.Errorf("key %d of direction %d: perPacket %q, %v, want %q", c.key, c.direction, got, err, c.perPacket)
		}
		if got, err := audit.RuleOf(rule); err != nil || got != "" {
			t.Errorf("key %d of direction %d: perPacket %q, %v for pods' packets", c.key, c.direction, got, err)
		}
	}
}

// Ipsets are asked for what is the same in all packets of a tunnel, or for more.
func TestIPSetsOfSenders(t *testing.T) {
	n := testenv.Netns(t)
	testenv.InNetns(t, n.Path(), func() error {
		for name, kind := range map[string]string{"hosts": "hash:ip", "services": "hash:ip,port"} {
			if err := netlink.IpsetCreate(name, kind, netlink.IpsetCreateOptions{}); err != nil {
				return err
			}
		}
		return nil
	})
	for rule, want := range map[string]string{
		"--match-set hosts src":        "",
		"--match-set services dst,dst": "",
		"--match-set services src,dst": "",
		"--match-set services dst,src": "ip filter INPUT: ipset services asks for MACs or source ports",
	} {
		testenv.Must(t, testenv.Load(t, n, "*filter\n:INPUT ACCEPT [0:0]\n-A INPUT -m set "+rule+" -j DROP\nCOMMIT\n", "iptables-nft-restore"))
		if got := auditRuleset(t, n, 4789).PerPacket; got != want {
			t.Errorf("%s: perPacket %q, want %q", rule, got, want)
		}
	}
}

func TestIPSetKindsOfSenders(t *testing.T) {
	const first, second, third = 1 << 1, 1 << 2, 1 << 3 // of the keys, those that are the sender's
	for _, c := range []struct {
		kind     string
		flags    byte
		revision int
		reads    bool
	}{
		{"hash:ip", first, 4, false},
		{"hash:net", first, 4, false},
		{"hash:mac", first, 4, true},
		{"bitmap:ip,mac", first, 4, true},
		{"bitmap:port", first, 4, true},
		{"bitmap:port", 0, 4, false},
		{"hash:ip,port", first, 4, false},
		{"hash:ip,port", second, 4, true},
		{"hash:ip,port", second | 1, 1, true},
		{"hash:ip,port,net", first | third, 4, false},
		{"hash:net,iface", first | second, 4, false},
		{"hash:ip,port", 0, 0, true}, // there the flags are elsewhere
	} {
		if got := audit.IPSetReadsSource(c.kind, []byte{0, 0, 3, c.flags}, c.revision); got != c.reads {
			t.Errorf("%s, flags %#x of revision %d: %v, want %v", c.kind, c.flags, c.revision, got, c.reads)
		}
	}
	if !audit.IPSetReadsSource("hash:ip,port", []byte{0, 0}, 4) {
		t.Error("of a match that is cut short, it is known what it asks for")
	}
}

// conntrackFlags is the data of iptables' conntrack match with some flags.
func conntrackFlags(flags uint16) []byte {
	info := make([]byte, 256)
	binary.NativeEndian.PutUint16(info[nft.ConntrackFlags:], flags)
	return info
}
