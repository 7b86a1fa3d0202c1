package audit_test

import (
	"testing"

	"github.com/venturi-net/venturi/internal/fastpath/audit"
	"github.com/venturi-net/venturi/internal/testenv"
)

// Rules that go by connection tracking are told from those that do not, for each version of IP, and those for bridges.
func TestRulesThatTrack(t *testing.T) {
	n := testenv.Netns(t)
	for _, c := range []struct {
		rules                string
		four, six, onBridges bool
	}{
		{rules: ""},
		{rules: "table inet t { counter c { }; chain f { type filter hook forward priority 0; udp dport 5 counter name c reject; meta mark 7 drop; notrack; }; }"},
		{rules: "table ip t { chain f { type filter hook forward priority 0; ct state new udp dport 5 drop; }; }", four: true},
		{rules: "table ip6 t { chain f { type filter hook forward priority 0; ct state new udp dport 5 drop; }; }", six: true},
		{rules: "table inet t { chain unused { ct state new drop; }; chain f { type filter hook forward priority 0; accept; ct state new drop; }; }"},
		{rules: "table inet t { chain f { type filter hook forward priority 0; udp dport 5 jump used; }; chain used { ct mark 7 drop; }; }", four: true, six: true},
		{rules: "table inet t { chain f { type filter hook forward priority 0; udp dport 5 ct state vmap { new : drop }; }; }", four: true, six: true},
		{rules: "table bridge t { chain f { type filter hook forward priority 0; ct state new drop; }; }", four: true, six: true, onBridges: true},
		{rules: "table ip nat { chain conntrack { type filter hook forward priority 0; ip daddr 10.0.0.1 drop; }; }"},
		{rules: "table ip t { chain f { type nat hook postrouting priority 100; }; }"},
		{rules: "table ip t { chain f { type nat hook postrouting priority 100; oif lo masquerade; }; }", four: true},
	} {
		if err := testenv.Load(t, n, "flush ruleset\n"+c.rules, "nft", "-f", "-"); err != nil {
			if c.onBridges {
				continue // this kernel's bridges track nothing (CONFIG_NF_CONNTRACK_BRIDGE)
			}
			t.Fatal(err)
		}
		four, six := auditRuleset(t, n, 0), auditOverlay(t, n, audit.Overlay{Family: audit.IPv6, Wire: "wire"})
		if four.Tracks != c.four || six.Tracks != c.six || four.TracksBridged != c.onBridges || six.TracksBridged != c.onBridges {
			t.Errorf("%q: of IPv4 %v, of IPv6 %v, of bridges %v and %v", c.rules, four.Tracks, six.Tracks, four.TracksBridged, six.TracksBridged)
		}
	}
	for rule, tracks := range map[string]bool{
		"-A FORWARD -p udp -m comment --comment state -j DROP": false, "-A FORWARD -m conntrack --ctstate NEW -j DROP": true, "-A FORWARD -j CONNMARK --restore-mark": true,
		"-A FORWARD -m helper --helper ftp -j DROP": true, "-A FORWARD -m state --state NEW -j DROP": true,
	} {
		testenv.Must(t, testenv.Load(t, n, "flush ruleset", "nft", "-f", "-"))
		if err := testenv.Load(t, n, "*filter\n"+rule+"\nCOMMIT\n", "iptables-nft-restore"); err != nil {
			t.Fatal(err)
		}
		if got := auditRuleset(t, n, 0); got.Tracks != tracks {
			t.Errorf("%q: %v", rule, got.Tracks)
		}
	}
}

// A bridge may have packets of one version of IP meet rules.
func TestBridgesAsk(t *testing.T) {
	n := testenv.Netns(t)
	for _, c := range []struct {
		script    string
		four, six bool
	}{
		{"ip link add asks type veth peer name other", false, false},
		{"ip link add br0 type bridge", false, false},
		{"ip link add br1 type bridge nf_call_ip6tables 1", false, true},
		{"ip link set br0 type bridge nf_call_iptables 1", true, true},
		{"ip link del br1", true, false},
	} {
		testenv.Shell(t, n.Path(), c.script)
		testenv.InNetns(t, n.Path(), func() error {
			four, err := audit.BridgesAsk(audit.IPv4)
			testenv.Must(t, err)
			six, err := audit.BridgesAsk(audit.IPv6)
			if four != c.four || six != c.six {
				t.Errorf("after %q, bridges ask rules for IPv4: %v, for IPv6: %v", c.script, four, six)
			}
			return err
		})
	}
}
