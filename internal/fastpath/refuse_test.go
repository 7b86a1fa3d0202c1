package fastpath_test

import (
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"testing"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/audit"
	"github.com/venturi-net/venturi/internal/fastpath/topology"
	"github.com/venturi-net/venturi/internal/testenv"
)

// A tunnel that has the name of the one that the programs were loaded for is told from it, by its own kind.
func TestOtherTunnel(t *testing.T) {
	const again = ": disable it, and enable it again"
	geneve := fastpath.Config{Kind: fastpath.Geneve, Port: 6081}
	vxlan, ipip := fastpath.Config{Kind: fastpath.VXLAN, Port: 8472}, fastpath.Config{Kind: fastpath.IPIP}
	for _, c := range []struct {
		config fastpath.Config
		tunnel *topology.Encap
		want   string
	}{
		{vxlan, &topology.Encap{Port: 8472}, ""},
		{vxlan, &topology.Encap{Port: 4789}, "uses UDP port 4789, and the fast path was enabled for port 8472" + again},
		{vxlan, &topology.Encap{IPIP: true}, "is of kind ipip, and the fast path was enabled for vxlan" + again},
		{vxlan, &topology.Encap{Geneve: true, Port: 8472}, "is of kind geneve, and the fast path was enabled for vxlan" + again},
		{geneve, &topology.Encap{Geneve: true, Port: 6081}, ""},
		{geneve, &topology.Encap{Geneve: true, Port: 6082}, "uses UDP port 6082, and the fast path was enabled for port 6081" + again},
		{geneve, &topology.Encap{Port: 6081}, "is of kind vxlan, and the fast path was enabled for geneve" + again},
		{ipip, &topology.Encap{IPIP: true}, ""},
		{ipip, &topology.Encap{Port: 4789}, "is of kind vxlan, and the fast path was enabled for ipip" + again},
		{fastpath.Config{Kind: fastpath.Routed}, nil, ""},
	} {
		if got := fastpath.OtherTunnel(&c.config, topology.NextHop{Encap: c.tunnel}); got != c.want {
			t.Errorf("a fast path of kind %s, and the tunnel %+v: %q, want %q", c.config.Kind, c.tunnel, got, c.want)
		}
	}
}

// A tunnel is left alone if its packets have an address or a device that the audit has taken for those of others.
func TestStrangers(t *testing.T) {
	const why = "its packets to and from 192.0.2.2 may meet rules for %s, which are not known to treat all of them alike"
	us, peer, other := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("10.244.1.2")
	tunnel := &topology.Encap{Local: us, Remote: peer}
	byDevice := &topology.Encap{ByDevice: true, Remote: peer, BoundAddr: net.IP(us.AsSlice())}
	for _, c := range []struct {
		encap     *topology.Encap
		addresses []netip.Addr
		devices   []string
		what      string
	}{
		{encap: tunnel, addresses: []netip.Addr{other}, devices: []string{"cali*", "eth"}},
		{encap: tunnel, addresses: []netip.Addr{other, us}, what: "the address 192.0.2.1"},
		{encap: tunnel, addresses: []netip.Addr{other, peer}, what: "the address 192.0.2.2"},
		{encap: tunnel, devices: []string{"cali*", "eth0"}, what: "the device eth0"},
		{encap: tunnel, devices: []string{"eth*"}, what: "the device eth*"},
		{encap: byDevice, addresses: []netip.Addr{other}},
		{encap: byDevice, addresses: []netip.Addr{us}, what: "the address 192.0.2.1"},
		{encap: &topology.Encap{ByDevice: true, Remote: peer}, addresses: []netip.Addr{other}, what: "the address 10.244.1.2"},
		{addresses: []netip.Addr{us, peer}, devices: []string{"eth0"}},
	} {
		want := ""
		if c.what != "" {
			want = fmt.Sprintf(why, c.what)
		}
		if got := fastpath.StrangerReason(audit.Strangers{Addresses: c.addresses, Devices: c.devices}, topology.NextHop{WireDevice: 2, Encap: c.encap}, "eth0"); got != want {
			t.Errorf("%+v, others %v and %v: %q, want %q", c.encap, c.addresses, c.devices, got, want)
		}
	}
}

// If rules are found that a tunnel which is carried may meet, nothing is carried while the topology is read, and then
// all but it; other rules of that kind, and other changes for which it is read, are no reason.
func TestStrangersAreLeft(t *testing.T) {
	const notYet = "the packet filter has not been looked at yet"
	fast, n := newFast(t), space(t)
	mac := net.HardwareAddr{2, 0, 0, 0, 0, 1}
	tunnel := &topology.Encap{Local: netip.MustParseAddr("192.0.2.1"), Remote: netip.MustParseAddr("192.0.2.2"), MAC: mac, Port: 4789}
	peer := topology.NextHop{Device: 1, WireDevice: 1, MTU: 1500, MAC: mac, SrcMAC: mac, DstMAC: mac, Encap: tunnel}
	w := topology.Topology{NextHops: []topology.NextHop{peer}, TC: map[int]topology.TCState{1: {Name: "lo"}}}
	for _, c := range []struct {
		rule string
		want []string
	}{
		{"ip saddr 192.0.2.2 jump other", []string{notYet, fastpath.StrangersReason, ""}},
		{"ip saddr 192.0.2.3 jump other", []string{notYet, "", ""}},
		{"accept", []string{notYet, ""}},
	} {
		must(t, testenv.Load(t, n, "flush ruleset", "nft", "-f", "-"))
		conf := &fastpath.Config{Kind: fastpath.VXLAN, Port: 4789, Pins: t.TempDir(), State: filepath.Join(t.TempDir(), "state")}
		testenv.InNetns(t, n.Path(), func() error {
			got, err := fastpath.ReasonsAtReads(conf, n, fast, w, func() error {
				return testenv.Load(t, n, "table ip t { chain other { ct state new accept; drop; }; chain c { type filter hook input priority 0; "+c.rule+"; }; }", "nft", "-f", "-")
			})
			if !slices.Equal(got, c.want) {
				t.Errorf("%s: nothing is carried because of %q, want %q", c.rule, got, c.want)
			}
			return err
		})
	}
}
