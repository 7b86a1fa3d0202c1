package audit_test

import (
	"net"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/venturi-net/venturi/internal/fastpath/audit"
	"github.com/venturi-net/venturi/internal/testenv"
)

// Rules may ask an ipset that only users change. Others are told from it.
func TestRulingsOfIPSets(t *testing.T) {
	n := testenv.Netns(t)
	timeout := uint32(60)
	testenv.InNetns(t, n.Path(), func() error {
		for name, o := range map[string]netlink.IpsetCreateOptions{"plain": {Comments: true}, "counts": {Counters: true}, "fleeting": {Timeout: &timeout}, "other": {}} {
			if err := netlink.IpsetCreate(name, "hash:ip", o); err != nil {
				return err
			}
		}
		return nil
	})
	for _, c := range []struct {
		rules, perPacket string
		asks             []string
	}{
		{"-A FORWARD -m set --match-set plain src -j DROP", "", []string{"plain"}},
		{"-A FORWARD -m set ! --match-set plain src -m set --match-set other dst -j DROP", "", []string{"other", "plain"}},
		{"-A FORWARD -m set --match-set plain src -j LOG", "", nil},
		{"-A FORWARD -m set --match-set counts src -j LOG", "", nil},
		{"-A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n-A FORWARD -m set --match-set fleeting src -j DROP", "", nil},
		{"-A FORWARD -m set --match-set counts src -j DROP", "ip filter FORWARD: ipset counts counts", nil},
		{"-A FORWARD -m set --match-set fleeting src -j DROP", "ip filter FORWARD: entries of ipset fleeting come and go by themselves", nil},
		{"-A FORWARD -m set --match-set plain src -j DROP\n-A INPUT -m conntrack --ctstate NEW -j SET --add-set other src", "ip filter FORWARD: ipset plain, while rules fill ipsets", nil},
		{"-A FORWARD -m set --match-set plain src -j DROP\nCOMMIT\n*nat\n:PREROUTING ACCEPT [0:0]\n-A PREROUTING -j SET --add-set other src", "ip filter FORWARD: ipset plain, while rules fill ipsets", nil},
		{"-A FORWARD -m set --match-set plain src -j DROP\n-A FORWARD -j SET --add-set other src", "ip filter FORWARD: ipset plain, while rules fill ipsets; 1 more", nil},
	} {
		testenv.Must(t, testenv.Load(t, n, "*filter\n:INPUT ACCEPT [0:0]\n:FORWARD ACCEPT [0:0]\n"+c.rules+"\nCOMMIT\n", "iptables-nft-restore"))
		if got := auditRuleset(t, n, 0); got.PerPacket != c.perPacket || !slices.Equal(got.IPSets, c.asks) {
			t.Errorf("%s: perPacket %q, want %q; depends on %q, want %q", c.rules, got.PerPacket, c.perPacket, got.IPSets, c.asks)
		}
	}
}

// A poller sees each change of the sets that it watches, and no others.
func TestIPSetPoller(t *testing.T) {
	n := testenv.Netns(t)
	var p *audit.IPSetPoller
	testenv.InNetns(t, n.Path(), func() (err error) {
		for _, name := range []string{"watched", "twin", "other"} {
			if err := netlink.IpsetCreate(name, "hash:net", netlink.IpsetCreateOptions{}); err != nil {
				return err
			}
		}
		p, err = audit.OpenIPSetPoller()
		return err
	})
	defer p.Close()
	for _, names := range [][]string{{"watched"}, {"watched"}, nil, {"watched"}} {
		_, err := p.Watch(names)
		testenv.Must(t, err)
	}
	entry := func(i byte) *netlink.IPSetEntry {
		return &netlink.IPSetEntry{IP: net.IPv4(192, 0, 2, i), CIDR: 32, Replace: true}
	}
	for _, c := range []struct {
		what    string
		do      func() error
		changed bool
	}{
		{"nothing", func() error { return nil }, false},
		{"an entry of another set", func() error { return netlink.IpsetAdd("other", entry(1)) }, false},
		{"an entry", func() error { return netlink.IpsetAdd("watched", entry(1)) }, true},
		{"the same entry again", func() error { return netlink.IpsetAdd("watched", entry(1)) }, false},
		{"no such entry", func() error { return netlink.IpsetDel("watched", entry(1)) }, true},
		{"many entries", func() (err error) {
			for i := range byte(200) {
				if err == nil {
					err = netlink.IpsetAdd("watched", entry(i))
				}
			}
			return err
		}, true},
		{"one of them for another", func() error {
			if err := netlink.IpsetDel("watched", entry(7)); err != nil {
				return err
			}
			return netlink.IpsetAdd("watched", entry(250))
		}, true},
		{"another set in its place", func() error { return netlink.IpsetSwap("watched", "twin") }, true},
		{"an entry of the set that was there", func() error { return netlink.IpsetAdd("twin", entry(251)) }, false},
		{"an entry of the new one", func() error { return netlink.IpsetAdd("watched", entry(252)) }, true},
		{"no set", func() error { return netlink.IpsetDestroy("watched") }, true},
	} {
		testenv.InNetns(t, n.Path(), c.do)
		p.Rested()
		changed, err := p.Changed()
		testenv.Must(t, err)
		if changed != c.changed {
			t.Errorf("%s: changed %v, want %v", c.what, changed, c.changed)
		}
	}
}
