package audit_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/fastpath/audit"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/testenv"
)

// By the marks of packets, it is known which rules they meet.
func TestRulingsOfMarks(t *testing.T) {
	n := testenv.Netns(t)
	const limited, refused = "limit rate 10/second accept", "ip t first: limit"
	for _, c := range []struct{ rules, perPacket string }{
		{"meta mark 7 " + limited, ""},
		{"meta mark & 0xff == 7 " + limited, ""},
		{"meta mark != 0 " + limited, ""},
		{"meta mark 0 " + limited, refused},
		{"meta mark & 0xff != 7 " + limited, refused},
		{"meta mark set 7; meta mark 7 accept; " + limited, ""},
		{"meta mark set 7; meta mark 8 accept; " + limited, refused},
		{"ct state established meta mark set meta mark | 0x10; meta mark & 0x10 == 0x10 accept; " + limited, ""},
		{"ct state new meta mark set 7; meta mark 7 " + limited, ""},
		{"ip saddr 192.0.2.1 meta mark set 7; meta mark 7 accept; " + limited, refused},
		{"ip saddr 192.0.2.1 meta mark set 7; meta mark 8 " + limited, ""},
		{"jump marks; meta mark 5 accept; " + limited, ""},
		{"jump marks; meta mark set meta mark & 0xfffffffe; meta mark 4 accept; " + limited, ""},
		{"goto marks; " + limited, ""},
		{"tcp dport vmap { 80 : jump marks, 81 : accept }; meta mark 5 " + limited, refused},
		{"tcp dport vmap { 80 : jump marks, 81 : accept }; meta mark 6 " + limited, ""},
		{"meta mark set 0; tcp dport vmap { 80 : goto marks, 81 : accept }; meta mark 5 limit rate 10/second drop", ""},
		{"meta mark set 0; tcp dport vmap { 80 : goto marks, 81 : jump marks }; meta mark 5 limit rate 10/second drop", refused},
		{"meta mark set ip dscp map { cs0 : 1, cs1 : 2 }", "ip t first: bytes 1 to 1 of a header"},
		{"meta mark set numgen inc mod 2", "ip t first: numgen"},
		{"meta mark set jhash ip saddr mod 2; meta mark 7 " + limited, refused},
		{"meta mark . ip saddr { 7 . 192.0.2.1 } accept; " + limited, refused},
		// Another hook sees the marks of those before it, and one before it those of packets that
		// have left a tunnel.
		{"meta mark set 7; }; chain later { type filter hook postrouting priority 0; meta l4proto tcp meta mark != 7 " + limited, ""},
		{"meta mark set 7; }; chain later { type filter hook postrouting priority 0; meta mark 7 accept; " + limited, "ip t later: limit"}, // the host's own tunnel packets have no mark
		{"meta mark 7 " + limited + "; }; chain later { type filter hook postrouting priority 0; meta mark set 7; ", refused},
		{"meta mark 7 " + limited + "; }; chain later { type filter hook output priority 0; meta mark set 7; ", refused},
		{"meta mark 7 " + limited + "; }; chain later { type filter hook output priority 0; meta mark set 8; ", ""},
		{"meta mark 7 " + limited + "; }; chain later { type filter hook postrouting priority 0; ct state related meta mark set 7; ", ""},
	} {
		input := "flush ruleset\ntable ip t {\nchain marks { meta mark set 5; }\nchain first {\ntype filter hook forward priority 5\n" + c.rules + "\n}\n}\n"
		if err := testenv.Load(t, n, input, "nft", "-f", "-"); err != nil {
			t.Errorf("%s: %v", c.rules, err)
			continue
		}
		if got := auditRuleset(t, n, 4789).PerPacket; got != c.perPacket {
			t.Errorf("%s: perPacket %q, want %q", c.rules, got, c.perPacket)
		}
	}
}

// Rules may depend on the marks of connections if packets of the flow do not change them.
func TestRulingsOfConnectionMarks(t *testing.T) {
	n := testenv.Netns(t)
	const written = "ct mark, which ip t first writes"
	for _, c := range []struct {
		rules, perPacket string
		reads            bool
	}{
		{"ct mark 7 drop", "", true},
		{"ct mark set 7", "", false},
		{"ct mark 7 accept; ct state new ct mark set 7", "", true},
		{"ct mark 7 accept; ct mark set 7", "ip t first: " + written, true},
		{"ct mark set 7; ct mark 7 accept", "", false},
		{"ct mark set 7; ct mark 8 limit rate 10/second accept", "", false},
		{"ct mark & 0xff == 7 accept; ct mark set ct mark | 0x100", "", true},
		{"ct mark & 0xff == 7 accept; ct mark set ct mark | 0x80", "ip t first: " + written, true},
		{"ct mark { 7, 8 } accept; ct mark set 7", "ip t first: " + written, true},
		{"ct mark . ip saddr { 7 . 192.0.2.1 } accept; ct mark set 7", "ip t first: " + written, true},
		{"ct mark > 7 accept; ct mark set 7", "ip t first: " + written, true},
		{"meta mark set ct mark", "", true},
		{"meta mark set ct mark; meta mark != 0 accept; ct state new meta mark set 7; ct mark set meta mark", "", true},
		{"meta mark set ct mark; meta mark != 0 accept; meta mark set 7; ct mark set meta mark", "ip t first: " + written + "; 1 more", true},
		{"meta mark set ct mark; ip saddr 192.0.2.1 meta mark set 7; ct mark set meta mark", "ip t first: " + written, true},
		{"ct mark set meta mark; meta mark set ct mark", "", false},
		{"ct mark 7 counter; ct mark set 7", "ip t first: " + written, true},
		{"ct mark 7 accept; }; chain later { type filter hook postrouting priority 0; ct mark set 7", "ip t first: ct mark, which ip t later writes", true},
		{"meta mark set ct mark; }; chain later { type filter hook postrouting priority 0; ct mark set meta mark", "", true},
		// Tunnel packets are of other connections.
		{"ct mark 7 accept; }; chain later { type filter hook output priority 0; ct mark set 7", "", true},
	} {
		input := "flush ruleset\ntable ip t {\nchain first {\ntype filter hook forward priority 5\n" + c.rules + "\n}\n}\n"
		if err := testenv.Load(t, n, input, "nft", "-f", "-"); err != nil {
			t.Errorf("%s: %v", c.rules, err)
			continue
		}
		if got := auditRuleset(t, n, 4789); got.PerPacket != c.perPacket || got.ReadsConnMark != c.reads {
			t.Errorf("%s: perPacket %q, want %q; depends on marks of connections: %v", c.rules, got.PerPacket, c.perPacket, got.ReadsConnMark)
		}
	}
}

// The same holds for the matches and targets of iptables.
func TestRulingsOfMarksOfIPTables(t *testing.T) {
	n := testenv.Netns(t)
	const limited, refused = "-m limit --limit 10/s -j ACCEPT", "ip filter FORWARD: limit"
	const written = "ip filter FORWARD: ct mark, which ip filter FORWARD writes"
	for _, c := range []struct {
		rules     []string
		perPacket string
	}{
		{[]string{"-m mark --mark 0x7/0xff " + limited}, ""},
		{[]string{"-m mark ! --mark 0x7/0xff " + limited}, refused},
		{[]string{"-j MARK --set-xmark 0x10000/0x10000", "-m mark --mark 0x10000/0x10000 -j ACCEPT", limited}, ""},
		{[]string{"-j MARK --set-xmark 0x10000/0x10000", "-m mark --mark 0x20000/0x20000 -j ACCEPT", limited}, refused},
		{[]string{"-j MARK --set-xmark 0x0/0xf0000", "-m mark ! --mark 0x0/0xf0000 " + limited}, ""},
		{[]string{"-m conntrack --ctstate RELATED,ESTABLISHED -j MARK --set-xmark 0x1/0x1", "-m mark --mark 0x1/0x1 -j ACCEPT", limited}, ""},
		{[]string{"-j CONNMARK --restore-mark", "-m mark ! --mark 0x0 -j ACCEPT", "-m conntrack --ctstate NEW -j MARK --set-mark 0x1", "-j CONNMARK --save-mark"}, ""},
		{[]string{"-j CONNMARK --restore-mark", "-m mark ! --mark 0x0 -j ACCEPT", "-j MARK --set-mark 0x1", "-j CONNMARK --save-mark"}, written + "; 1 more"},
		{[]string{"-j CONNMARK --restore-mark --nfmask 0xff --ctmask 0xff", "-j CONNMARK --set-xmark 0x100/0x100"}, ""},
		{[]string{"-j CONNMARK --restore-mark --nfmask 0xff --ctmask 0xff", "-j CONNMARK --set-xmark 0x80/0x80"}, written},
		{[]string{"-j CONNMARK --set-xmark 0x80/0x80", "-j CONNMARK --restore-mark --nfmask 0x80 --ctmask 0x80", "-m mark --mark 0x80/0x80 -j ACCEPT", limited}, ""},
		{[]string{"-m connmark --mark 0x1/0x1 -j DROP", "-j CONNMARK --set-xmark 0x2/0x2"}, ""},
		{[]string{"-m connmark --mark 0x1/0x1 -j DROP", "-j CONNMARK --set-xmark 0x1/0x1"}, written},
		// The state of a translated connection says so.
		{[]string{"-m conntrack --ctstate DNAT " + limited}, refused},
		{[]string{"-m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT " + limited}, ""},
		{[]string{"-m conntrack --ctstate RELATED,ESTABLISHED,SNAT -j ACCEPT", limited}, ""},
	} {
		restore := "*filter\n:FORWARD ACCEPT [0:0]\n-A FORWARD " + strings.Join(c.rules, "\n-A FORWARD ") + "\nCOMMIT\n"
		if err := testenv.Load(t, n, restore, "iptables-nft-restore"); err != nil {
			t.Errorf("%s: %v", c.rules, err)
			continue
		}
		if got := auditRuleset(t, n, 0).PerPacket; strings.ReplaceAll(got, "match limit", "limit") != c.perPacket {
			t.Errorf("%s: perPacket %q, want %q", c.rules, got, c.perPacket)
		}
	}
}

// It makes no difference which packets a rule matches that only counts and logs.
func TestRulingsWithoutEffect(t *testing.T) {
	n := testenv.Netns(t)
	minute := uint32(60)
	testenv.InNetns(t, n.Path(), func() error {
		return netlink.IpsetCreate("ours", "hash:ip", netlink.IpsetCreateOptions{Timeout: &minute})
	})
	for _, c := range []struct{ rules, perPacket string }{
		{"limit rate 10/second log", ""},
		{"limit rate 10/second counter", ""},
		{"quota over 1 mbytes counter", ""},
		{"numgen random mod 10 0 counter", ""},
		{"meta length > 500 counter log group 5", ""},
		{"ip dscp ef counter name hits", ""},
		{"ct count over 10 log", ""},
		{"ip saddr @young counter", ""},
		{"limit rate 10/second jump empty", ""},
		{"limit rate 10/second jump counting", ""},
		{"limit rate 10/second jump returning", ""}, // as ufw-logging-deny
		{"limit rate 10/second goto counting", "ip t first: limit"},
		{"limit rate 10/second jump marking", "ip t first: limit"},
		{"limit rate 10/second jump dropping", "ip t first: limit"},
		{"limit rate 10/second continue", ""},
		{"limit rate 10/second return", "ip t first: limit"},
		{"limit rate 10/second ct mark set 1", "ip t first: limit"},
		{"tcp dport vmap { 80 : jump counting } limit rate 10/second", ""},
	} {
		input := "flush ruleset\ntable ip t {\nset young { type ipv4_addr; flags dynamic,timeout; timeout 1m; }\ncounter hits { }\nchain empty { }\n" +
			"chain marking { meta mark set 5; }\nchain dropping { tcp dport 81 drop; }\nchain nested { log; }\nchain returning { ct state invalid limit rate 5/second return; log; }\nchain counting { counter; jump nested; }\n" +
			"chain first {\ntype filter hook forward priority 5\n" + c.rules + "\n}\n}\n"
		if err := testenv.Load(t, n, input, "nft", "-f", "-"); err != nil {
			t.Errorf("%s: %v", c.rules, err)
			continue
		}
		if got := auditRuleset(t, n, 0).PerPacket; got != c.perPacket {
			t.Errorf("%s: perPacket %q, want %q", c.rules, got, c.perPacket)
		}
	}
	matches := map[audit.Family][]string{
		audit.IPv4: {"limit --limit 10/s", "hashlimit --hashlimit-name h --hashlimit-upto 10/s", "statistic --mode random --probability 0.5", "set --match-set ours src", "length --length 100",
			"dscp --dscp 5", "tos --tos 0x10", "ttl --ttl-lt 5", "quota --quota 1000", "connbytes --connbytes 1000: --connbytes-dir both --connbytes-mode bytes",
			"time --timestart 10:00 --timestop 12:00", "string --algo bm --string text", "u32 --u32 4&0xffff=1", "cpu --cpu 0", "ecn --ecn-ip-ect 2"},
		audit.IPv6: {"hl --hl-lt 5", "frag --fragmore", "rt --rt-type 0", "ipv6header --header route --soft"},
	}
	for family, restore := range map[audit.Family]string{audit.IPv4: "iptables-nft-restore", audit.IPv6: "ip6tables-nft-restore"} {
		for _, match := range matches[family] {
			for target, refused := range map[string]bool{"LOG": false, "NFLOG --nflog-group 100": false, "inert": false, "ACCEPT": true, "MARK --set-mark 1": true} {
				rules := "*mangle\n:FORWARD ACCEPT [0:0]\n:inert - [0:0]\n-A FORWARD -m " + match + " -j " + target + "\nCOMMIT\n"
				if err := testenv.Load(t, n, rules, restore); err != nil {
					t.Logf("%s: this machine cannot: %v", match, err)
					continue
				}
				if got := auditOverlay(t, n, audit.Overlay{Family: family, Wire: "wire"}).PerPacket; (got != "") != refused {
					t.Errorf("-m %s -j %s: perPacket %q", match, target, got)
				}
			}
		}
	}
}

// A rule is named as nft does, so that it can be found and deleted.
func TestRuleNames(t *testing.T) {
	n := testenv.Netns(t)
	testenv.Must(t, testenv.Load(t, n, "table inet t { chain c { type filter hook forward priority 0; accept; }; }", "nft", "-f", "-"))
	testenv.Must(t, testenv.Load(t, n, "insert rule inet t c limit rate 10/second accept", "nft", "-f", "-"))
	var r audit.RulesetAudit
	testenv.InNetns(t, n.Path(), func() (err error) {
		r, err = audit.Ruleset(audit.Overlay{})
		return err
	})
	if want := "inet t c handle 3: limit"; r.PerPacket != want {
		t.Errorf("perPacket %q, want %q", r.PerPacket, want)
	}
	testenv.Shell(t, n.Path(), "nft delete rule inet t c handle 3")
	if got := auditRuleset(t, n, 0).PerPacket; got != "" {
		t.Errorf("perPacket %q when it is deleted", got)
	}
}

// Packets that travel in a tunnel do not come by the wire themselves, and those that are not tracked
// have no state but that.
func TestRulingsOfUntracked(t *testing.T) {
	n := testenv.Netns(t)
	const established = "-A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n-A FORWARD -m limit --limit 10/s -j ACCEPT\n"
	for _, c := range []struct {
		raw, filter string
		port        uint16
		perPacket   string
	}{
		{"-i wire -j NOTRACK", established, 4789, ""},
		{"-i wire -j CT --notrack", established, 4789, ""},
		{"-i wire -j NOTRACK", established, 0, "ip filter FORWARD: limit"},
		{"-i wir+ -j NOTRACK", established, 4789, "ip filter FORWARD: limit"},
		{"! -i wire -j NOTRACK", established, 4789, "ip filter FORWARD: limit"},
		{"-i pod+ -j NOTRACK", established, 4789, "ip filter FORWARD: limit"},
		// Pods may use the tunnel's port, too.
		{"-p udp --dport 4789 -j NOTRACK", established, 4789, "ip filter FORWARD: limit"},
		{"-p udp --dport 4789 -j NOTRACK", strings.Replace(established, "-m limit", "-p udp --dport 80 -m limit", 1), 4789, ""},
		{"-p udp --dport 4789 -j NOTRACK", established, 8472, "ip filter FORWARD: limit"},
		{"-p tcp --dport 4789 -j NOTRACK", strings.Replace(established, "-m limit", "-p tcp -m limit", 1), 4789, "ip filter FORWARD: limit"},
		// They are UDP, and have that destination port.
		{"-p udp --dport 4789 -j NOTRACK", strings.Replace(established, "-m limit", "-p tcp -m limit", 1), 4789, ""},
		{"-p udp --dport 4789 -j NOTRACK", strings.Replace(established, "-m limit", "-p tcp -m multiport --dports 80,443 -m limit", 1), 4789, ""},
		{"-p udp --dport 4789 -j NOTRACK", strings.Replace(established, "-m limit", "-p udp -m multiport --dports 53,67:68 -m limit", 1), 4789, ""},
		{"-p udp --dport 4789 -j NOTRACK", strings.Replace(established, "-m limit", "-p udp -m multiport --dports 53,4000:5000 -m limit", 1), 4789, "ip filter FORWARD: limit"},
		{"-p udp --dport 4789 -j NOTRACK", strings.Replace(established, "-m limit", "! -p udp -m limit", 1), 4789, ""},
		{"-p udp --dport 4789 -j NOTRACK", strings.Replace(established, "-m limit", "-p udp --sport 68 --dport 67 -m limit", 1), 4789, ""},
		{"-p udp --dport 4789 -j NOTRACK", strings.Replace(established, "-m limit", "-p udp --sport 68 -m limit", 1), 4789, "ip filter FORWARD: limit"},
		{"-p udp --dport 4789 -j NOTRACK", strings.Replace(established, "-m limit", "-p udp -m limit", 1), 4789, "ip filter FORWARD: limit"},
		{"-p udp --dport 4789 -j NOTRACK", "-A FORWARD -p tcp -j ACCEPT\n" + established, 4789, "ip filter FORWARD: limit"},
		{"-p udp --dport 4789 -j NOTRACK", "-A FORWARD -p udp -j ACCEPT\n" + established, 4789, ""},
		{"-p udp --dport 4789 -j NOTRACK", "-A FORWARD -p udp --dport 4789 -j ACCEPT\n" + established, 4789, ""},
		{"-j NOTRACK", "-A FORWARD -m conntrack --ctstate INVALID -m limit --limit 10/s -j DROP\n", 0, ""},
		{"-j NOTRACK", "-A FORWARD -m conntrack --ctstate UNTRACKED -m limit --limit 10/s -j DROP\n", 0, "ip filter FORWARD: limit"},
		{"-j NOTRACK", "-A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED,UNTRACKED -j ACCEPT\n-A FORWARD -m limit --limit 10/s -j ACCEPT\n", 0, ""},
		// Ahead of connection tracking, nothing has a state.
		{"-m conntrack --ctstate ESTABLISHED -j ACCEPT\n-A PREROUTING -m limit --limit 10/s -j ACCEPT", "", 0, "ip raw PREROUTING: limit"},
		{"-m conntrack --ctstate NEW -m limit --limit 10/s -j ACCEPT", "", 0, ""},
	} {
		restore := "*raw\n:PREROUTING ACCEPT [0:0]\n-A PREROUTING " + c.raw + "\nCOMMIT\n*filter\n:FORWARD ACCEPT [0:0]\n" + c.filter + "COMMIT\n"
		if err := testenv.Load(t, n, restore, "iptables-nft-restore"); err != nil {
			t.Errorf("%s: %v", c.raw, err)
			continue
		}
		if got := auditRuleset(t, n, c.port).PerPacket; strings.ReplaceAll(got, "match limit", "limit") != c.perPacket {
			t.Errorf("%s\n%swith port %d: perPacket %q, want %q", c.raw, c.filter, c.port, got, c.perPacket)
		}
	}
}

// What rules do to pods' packets to the tunnel's port counts, too, though none but these are untracked.
func TestUntrackedPackets(t *testing.T) {
	n := netnsWithSets(t, map[string]string{"ours": "hash:ip"})
	for _, c := range []struct {
		rule      string
		asks      []string
		marks     string
		connMarks bool
	}{
		{"-m conntrack --ctstate UNTRACKED -m set --match-set ours src -j DROP", []string{"ours"}, "", false},
		{"-m conntrack --ctstate UNTRACKED -p tcp -m set --match-set ours src -j DROP", nil, "", false},
		{"-m conntrack --ctstate UNTRACKED -j MARK --set-mark 0x1", nil, "ip filter FORWARD", false},
		{"-m conntrack --ctstate UNTRACKED -m connmark --mark 0x1 -j DROP", nil, "", true},
		{"-m conntrack --ctstate UNTRACKED -j LOG", nil, "", false},
	} {
		restore := "*raw\n:PREROUTING ACCEPT [0:0]\n-A PREROUTING -p udp --dport 4789 -j NOTRACK\nCOMMIT\n*filter\n:FORWARD ACCEPT [0:0]\n-A FORWARD " + c.rule + "\nCOMMIT\n"
		testenv.Must(t, testenv.Load(t, n, restore, "iptables-nft-restore"))
		got := auditRuleset(t, n, 4789)
		if !slices.Equal(got.IPSets, c.asks) || got.MarkChain != c.marks || got.LeavesMark != (c.marks != "") || got.ReadsConnMark != c.connMarks || got.PerPacket != "" || got.Counters.Number != 0 {
			t.Errorf("%s: %+v", c.rule, got)
		}
	}
}

// addAcct makes an object of nfacct, with a quota if it is not 0.
func addAcct(t *testing.T, n *netcfg.Namespace, name string, quota uint64) {
	t.Helper()
	testenv.InNetns(t, n.Path(), func() error {
		req := nl.NewNetlinkRequest(unix.NFNL_SUBSYS_ACCT<<8, unix.NLM_F_CREATE|unix.NLM_F_ACK)
		req.AddData(&nl.Nfgenmsg{Version: unix.NFNETLINK_V0})
		req.AddData(nl.NewRtAttr(1, nl.ZeroTerminated(name)))
		if quota != 0 {
			req.AddData(nl.NewRtAttr(5, nl.BEUint32Attr(1<<1))) // NFACCT_F_QUOTA_BYTES
			req.AddData(nl.NewRtAttr(6, nl.BEUint64Attr(quota)))
		}
		_, err := req.Execute(unix.NETLINK_NETFILTER, 0)
		return err
	})
}

// An object of nfacct, such as kube-proxy's, only counts, unless it has a quota.
func TestRulingsOfAccounting(t *testing.T) {
	n := testenv.Netns(t)
	addAcct(t, n, "ct_state_invalid_dropped_pkts", 0)
	addAcct(t, n, "limited", 1<<20)
	for rule, perPacket := range map[string]string{
		"-m conntrack --ctstate INVALID -m nfacct --nfacct-name ct_state_invalid_dropped_pkts -j DROP": "",
		"-m nfacct --nfacct-name ct_state_invalid_dropped_pkts -j ACCEPT":                              "",
		"-m nfacct --nfacct-name limited -j ACCEPT":                                                    "ip filter FORWARD: match nfacct, with a quota",
		"-m conntrack --ctstate NEW -m nfacct --nfacct-name limited -j ACCEPT":                         "",
	} {
		restore := "*raw\n:PREROUTING ACCEPT [0:0]\n-A PREROUTING -i wire -j NOTRACK\nCOMMIT\n*filter\n:FORWARD ACCEPT [0:0]\n-A FORWARD " + rule + "\nCOMMIT\n"
		testenv.Must(t, testenv.Load(t, n, restore, "iptables-nft-restore"))
		for _, port := range []uint16{0, 4789} {
			if got := auditRuleset(t, n, port).PerPacket; got != perPacket {
				t.Errorf("%s: perPacket %q, want %q", rule, got, perPacket)
			}
		}
	}
}
