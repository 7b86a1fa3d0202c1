package topology_test

import (
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/venturi-net/venturi/internal/fastpath/audit"
	"github.com/venturi-net/venturi/internal/fastpath/topology"
	"github.com/venturi-net/venturi/internal/testenv"
)

// A vxlan device looks up the route to a peer without regard to the device that it is bound to. So does
// what follows it: the next hop is behind the device of that route, with its MTU.
func TestRouteToTunnelPeer(t *testing.T) {
	const other = `
ip link add w2 type veth peer name w3
ip link set w3 up
ip link set w2 mtu 1400 up
ip neigh add 192.0.2.2 lladdr 02:00:00:00:00:02 dev w2
`
	m, _ := machineAndPod(t, strings.ReplaceAll(overlay, "OPTIONS", "")+other)
	for _, c := range []struct {
		more, wire string
		mtu        int
	}{
		{"", "w0", 1450},
		{"ip route add 192.0.2.2 dev w2 mtu 1300", "w2", 1250},
		{"ip route add 192.0.2.2 dev w0 mtu 1310 table 100; ip rule add ipproto udp dport 4789 lookup 100", "w0", 1260},
		{"ip rule add ipproto udp dport 9 lookup main pref 10", "w0", 1260},
	} {
		testenv.Shell(t, m, c.more)
		testenv.InNetns(t, m, func() error {
			topo := topologyOf(t, m)
			if len(topo.NextHops) != 1 || topo.NextHops[0].MTU != c.mtu || topo.TC[topo.NextHops[0].WireDevice].Name != c.wire {
				t.Errorf("after %q, next hops are %+v, want one behind %s with an MTU of %d bytes", c.more, topo.NextHops, c.wire, c.mtu)
			}
			s, err := topology.OpenPoller(audit.IPv4)
			testenv.Must(t, err)
			defer s.Close()
			if s.PathMTUsChanged(topo.NextHops) {
				t.Errorf("after %q, the MTU differs from the one that was read", c.more)
			}
			return nil
		})
	}
}

// A rule by source ports may lead each flow in a tunnel over UDP another way.
func TestTunnelBySourcePort(t *testing.T) {
	m, _ := machineAndPod(t, strings.ReplaceAll(overlay, "OPTIONS", "")+"ip rule add sport 50000-50009 lookup 100 pref 107")
	const want = "v0 policy rule 107 depends on source ports, which differ between packets of the tunnel"
	if topo := topologyOf(t, m); len(topo.NextHops) > 0 || refusals(topo) != want {
		t.Errorf("next hops are %+v, and refused is %q, want none and %q", topo.NextHops, refusals(topo), want)
	}
}

// What is bound to a port of a VRF, or to one of a bridge or bond in it, is routed by that.
func TestInVRF(t *testing.T) {
	link := func(index, master int) *netlink.Dummy {
		return &netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Index: index, MasterIndex: master}}
	}
	red := &netlink.Vrf{LinkAttrs: netlink.LinkAttrs{Index: 9, Name: "red"}}
	for _, c := range []struct {
		name  string
		links []netlink.Link
		want  bool
	}{
		{"none", []netlink.Link{link(1, 0), red}, false},
		{"its port", []netlink.Link{link(1, 9), red}, true},
		{"in a bridge", []netlink.Link{link(1, 2), link(2, 9), red}, true},
		{"gone", []netlink.Link{link(1, 9)}, false},
		{"a loop in a list that changed", []netlink.Link{link(1, 2), link(2, 1), red}, false},
	} {
		if got := topology.InVRF(c.links, 1); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// overlay6 is a host with a tunnel over IPv6 to another host.
const overlay6 = `
for d in all default w0; do echo 0 > /proc/sys/net/ipv6/conf/$d/disable_ipv6; echo 0 > /proc/sys/net/ipv6/conf/$d/accept_dad; done
echo 1 > /proc/sys/net/ipv6/conf/all/forwarding
ip link set w0 up
ip addr add fd00:c8::1/64 dev w0 nodad
ip link add v0 address 02:00:00:00:03:01 mtu 1430 type vxlan id 7 dstport 8472 local fd00:c8::1 dev w0 nolearning
ip link set v0 up
ip neigh add fd00:10::2 lladdr 02:00:00:00:03:02 dev v0 nud stale
ip neigh add fd00:10::3 lladdr 02:00:00:00:03:03 dev v0
bridge fdb append 02:00:00:00:03:02 dev v0 dst fd00:c8::2
bridge fdb append 02:00:00:00:03:04 dev v0 dst fd00:c8::4
ip link add w2 type veth peer name w3
ip link set w3 up
ip link set w2 up
`

// A next hop behind a tunnel over IPv6 is a neighbour of its device with a forwarding entry. It is known by the
// neighbour's address, because only the daemon has the kernel verify one that is stale: carried packets do not.
func TestNeighboursBehindTunnel6(t *testing.T) {
	m, _ := machineAndPod(t, overlay6)
	testenv.InNetns(t, m, func() error {
		topo, err := topology.Read(topology.DeviceNames{Wire: "w0", Tunnels: []string{"v0"}, Family: audit.IPv6}, noPrograms)
		testenv.Must(t, err)
		if len(topo.NextHops) != 1 {
			t.Errorf("next hops are %+v, want one", topo.NextHops)
			return nil
		}
		p := topo.NextHops[0]
		if at := topo.TC[p.WireDevice].Name; p.Addr.String() != "fd00:10::2" || at != "v0" || p.Encap.Remote.String() != "fd00:c8::2" {
			t.Errorf("the next hop is %v on %s, at %v, want fd00:10::2 on v0, at fd00:c8::2", p.Addr, at, p.Encap.Remote)
		}
		return nil
	})
}

// Over IPv6, the kernel chooses the way of each outer packet. A peer is known while that way is by the device
// that the tunnel is bound to, and by none other.
func TestRouteToTunnelPeer6(t *testing.T) {
	for _, c := range []struct {
		more, refused string
		mtu           int // 0: no next hop
	}{
		{"", "", 1430},
		{"ip route add fd00:c8::2 dev w2", "v0 its peer fd00:c8::2 is reached by w2, and not by w0, which it is bound to", 0},
		{"ip route add fd00:c8::2 dev w0 mtu 1400", "", 1330},
		{"ip route add fd00:c8::2 dev w2 table 100; ip -6 rule add ipproto udp dport 8472 lookup 100", "v0 its peer fd00:c8::2 is reached by w2, and not by w0, which it is bound to", 0},
		{"ip -6 rule add ipproto udp sport 50000-50009 lookup 100 pref 107", "v0 policy rule 107 depends on source ports, which differ between packets of the tunnel", 0},
		{"ip -6 rule add ipproto tcp sport 50000-50009 lookup 100 pref 107", "", 1430},
		{"ip route add fd00:c8::2 nexthop via fe80::8 dev w0 nexthop via fe80::9 dev w0", "v0 the route to its peer fd00:c8::2 has several next hops", 0},
		{"ip -6 route add default nexthop via fe80::8 dev w0 nexthop via fe80::9 dev w0", "", 1430},
		{"ip route add fd00:99::/64 dev w0 mtu 1390 table 100", "", 1320}, // policy rules may choose it for outer packets
	} {
		m, _ := machineAndPod(t, overlay6+c.more)
		testenv.InNetns(t, m, func() error {
			topo, err := topology.Read(topology.DeviceNames{Wire: "w0", Tunnels: []string{"v0"}, Family: audit.IPv6}, noPrograms)
			testenv.Must(t, err)
			mtu := 0
			for _, p := range topo.NextHops {
				mtu = p.MTU
			}
			if got := refusals(topo); got != c.refused || mtu != c.mtu {
				t.Errorf("after %q, refused is %q, and next hops are %+v, want %q and an MTU of %d bytes", c.more, got, topo.NextHops, c.refused, c.mtu)
			}
			return nil
		})
	}
}
