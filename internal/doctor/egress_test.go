package doctor

import (
	"net/netip"
	"testing"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/testenv"
)

// Where the two default routes differ, a tunnel over IPv6 sends by that of IPv6.
func TestEgressDevice(t *testing.T) {
	n := testenv.Netns(t)
	testenv.Shell(t, n.Path(), `
ip link add four type veth peer name four_peer
ip link add six type veth peer name six_peer
ip link set four up
ip link set four_peer up
ip link set six up
ip link set six_peer up
ip address add 192.168.4.1/24 dev four
ip -6 address add fd00:6::1/64 dev six nodad
ip route add default via 192.168.4.2
ip -6 route add default via fd00:6::2
ip -6 route add fd00:4::/64 dev four`)
	four, six := netip.MustParseAddr("192.168.4.1"), netip.MustParseAddr("fd00:6::1")
	for want, tunnels := range map[string][]host.Tunnel{
		"four": {{}, {Local: four}, {Remote: netip.MustParseAddr("198.51.100.7")}, {Remote: netip.MustParseAddr("239.1.1.1")}, {Local: six, Remote: netip.MustParseAddr("fd00:4::9")}},
		"six":  {{Local: six}, {Remote: netip.MustParseAddr("fd00:7::9")}, {Remote: netip.MustParseAddr("ff05::100")}},
	} {
		for _, tunnel := range tunnels {
			testenv.InNetns(t, n.Path(), func() error {
				if got := egressDevice(&tunnel); got != want {
					t.Errorf("a tunnel from %v to %v sends by %q, want %q", tunnel.Local, tunnel.Remote, got, want)
				}
				return nil
			})
		}
	}
}
