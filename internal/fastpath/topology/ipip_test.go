package topology_test

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/venturi-net/venturi/internal/fastpath/topology"
)

// An ipip device may not get its packets if another device that is up could take them: one that names
// more of their addresses, or any other if it names none itself.
func TestOtherReceiver(t *testing.T) {
	const own, up = 7, net.FlagUp
	local, none := netip.MustParseAddr("192.0.2.1"), netip.Addr{}
	here, elsewhere, any4, any6 := net.IPv4(192, 0, 2, 1).To4(), net.IPv4(192, 0, 2, 9).To4(), net.IPv4zero.To4(), net.IPv6zero
	attrs := netlink.LinkAttrs{Name: "other0", Index: 8, Flags: up}
	down := attrs
	down.Flags = 0
	for _, c := range []struct {
		name           string
		other          netlink.Link
		local, without string // kind of the other receiver of a device with that local address, and without one
	}{
		{"one to a single host", &netlink.Iptun{LinkAttrs: attrs, Local: here, Remote: elsewhere}, "ipip", "ipip"},
		{"one to a single host from any address", &netlink.Iptun{LinkAttrs: attrs, Local: any4, Remote: elsewhere}, "ipip", "ipip"},
		{"one with another local address", &netlink.Iptun{LinkAttrs: attrs, Local: elsewhere, Remote: any4}, "", "ipip"},
		{"one that takes what is left", &netlink.Iptun{LinkAttrs: attrs, Local: any4, Remote: any4}, "", "ipip"},
		{"one that is down", &netlink.Iptun{LinkAttrs: down, Local: here, Remote: elsewhere}, "", ""},
		{"IPsec", &netlink.Vti{LinkAttrs: attrs, Local: here, Remote: elsewhere}, "vti", "vti"},
		{"IPsec from any address", &netlink.Vti{LinkAttrs: attrs, Local: any4, Remote: any4}, "vti", "vti"},
		{"IPsec with another local address", &netlink.Vti{LinkAttrs: attrs, Local: elsewhere, Remote: any4}, "", "vti"},
		{"IPsec over IPv6", &netlink.Vti{LinkAttrs: attrs, Local: any6, Remote: any6}, "", ""},
		{"a tunnel over IPv6", &netlink.Ip6tnl{LinkAttrs: attrs, Local: any6, Remote: any6}, "", ""},
		{"IPv6 in IPv4", &netlink.Sittun{LinkAttrs: attrs, Local: here, Remote: any4}, "", ""},
	} {
		for of, want := range map[netip.Addr]string{local: c.local, none: c.without} {
			tunnel := &netlink.Iptun{LinkAttrs: netlink.LinkAttrs{Name: "tunnel", Index: own, Flags: up}}
			got := topology.OtherReceiver(own, of, tunnel, c.other)
			if (want == "") != (got == "") || !strings.HasSuffix(got, want) || got != "" && !strings.Contains(got, "other0") {
				t.Errorf("%s, beside a device with the local address %v: %q, want one of kind %q", c.name, of, got, want)
			}
		}
	}
}
