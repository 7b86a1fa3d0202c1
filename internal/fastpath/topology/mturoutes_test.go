package topology

import (
	"net"
	"net/netip"
	"testing"

	vnl "github.com/vishvananda/netlink"

	"github.com/venturi-net/venturi/internal/nlmsg"
)

// Of routes with an MTU, one number is kept by device and gateway, however many there are: only where pods may be, their
// destinations count.
func TestMTURoutesAreNotKept(t *testing.T) {
	const wire, bridge = 1, 2
	gateways := []net.IP{{192, 0, 2, 1}, {192, 0, 2, 2}}
	r := reader{
		Tables: &Tables{family: IPv4}, routeIndex: newRouteIndex(),
		byIndex: map[int]vnl.Link{
			wire:   &vnl.Device{LinkAttrs: vnl.LinkAttrs{Index: wire, MTU: 1500}},
			bridge: &vnl.Bridge{LinkAttrs: vnl.LinkAttrs{Index: bridge, MTU: 1500}},
		},
	}
	for i := range 200 {
		to := netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 51, 100, byte(i)}), 32)
		r.addRoute(Route{Hops: []RouteHop{{wire, nlmsg.ToAddr(gateways[i%2])}}, To: to, MTU: 1400 - i})
	}
	for i := range 2 {
		to := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(i), 0}), 24)
		r.addRoute(Route{Hops: []RouteHop{{Device: bridge}}, To: to, MTU: 1300 + i})
		r.addRoute(Route{Hops: []RouteHop{{wire, nlmsg.ToAddr(gateways[i])}, {Device: bridge}}, To: to, MTU: 1350})
	}
	if n := len(r.mtuRoutes); n != 4 {
		t.Errorf("%d are kept, want those by each gateway and to each prefix: %v", n, r.mtuRoutes)
	}
	for _, c := range []struct {
		device int
		hop    net.IP
		want   int
	}{{wire, nil, 1201}, {wire, gateways[0], 1202}, {wire, gateways[1], 1201}, {wire, net.IP{192, 0, 2, 3}, 1500}, {bridge, nil, 1300}, {3, nil, 1500}} {
		if got := r.leastRouteMTU(c.device, c.hop, 1500); got != c.want {
			t.Errorf("of %+v: %d", c, got)
		}
	}
	for addr, want := range map[string]int{"10.0.0.9": 1300, "10.0.1.9": 1301, "10.0.2.9": 1500} {
		if got := r.podMTU(LocalPod{Device: bridge, NeighDevice: bridge, Addr: netip.MustParseAddr(addr)}); got != want {
			t.Errorf("the pod at %s takes packets of %d bytes, want %d", addr, got, want)
		}
	}
}
