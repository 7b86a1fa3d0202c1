package netcfg_test

import (
	"encoding/hex"
	"errors"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/testenv"
)

// What a route says of its encapsulation is what `ip route add ... encap ip id
// 700 src 192.0.2.1 dst 192.0.2.2 ttl 64 csum` says.
func TestEncap(t *testing.T) {
	e := netcfg.Encap{ID: 700, Src: netip.MustParseAddr("192.0.2.1"), Dst: netip.MustParseAddr("192.0.2.2"), TTL: 64, Csum: true}
	got, err := e.Encode()
	testenv.Must(t, err)
	const want = "0c000100" + "00000000000002bc" + // id
		"08000200" + "c0000202" + // dst
		"08000300" + "c0000201" + // src
		"05000400" + "40000000" + // ttl, and what fills it up
		"06000600" + "00010000" // flags
	if hex.EncodeToString(got) != want {
		t.Errorf("%s reads\n%x, want\n%s", e, got, want)
	}
}

// The kernel takes such a route; one without a use for it says so.
func TestEncapRoute(t *testing.T) {
	_, n := testenv.Namespace(t)
	testenv.Must(t, netcfg.AddVeth(netcfg.VethEnd{In: n, Name: "a"}, netcfg.VethEnd{In: n, Name: "b"}, 1500))
	local, remote := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	err := n.AddRoute(netcfg.Route{
		Dst: netip.PrefixFrom(remote, 32), Device: "a", Encap: &netcfg.Encap{ID: 1, Src: local, Dst: remote, TTL: 64},
	})
	if err != nil && !errors.Is(err, unix.EOPNOTSUPP) {
		t.Errorf("AddRoute = %v, want nil, or that the kernel does not support it", err)
	}
}
