package topology_test

import (
	"strings"
	"testing"
)

// Packets that exceed the MTU of any route to the peers are left to the kernel, whatever table the
// route is in and however it names its next hop.
func TestRoutesMTU(t *testing.T) {
	for _, c := range []struct {
		name, more string
		size       int
	}{
		{"of another table", "ip rule add from 10.0.1.2 lookup 100; ip route add 10.0.2.0/24 dev v0 mtu 1100 table 100", 1100},
		{"of a table with a large number", "ip rule add fwmark 1 lookup 70000; ip route add 10.0.2.0/24 dev v0 mtu 1090 table 70000", 1090},
		{"a next hop object", "ip nexthop add id 7 dev v0; ip route add 10.0.2.0/24 nhid 7 mtu 1070", 1070},
		{"a next hop object that is not resolved", "echo 0 > /proc/sys/net/ipv4/nexthop_compat_mode; ip nexthop add id 7 dev v0; ip route add 10.0.2.0/24 nhid 7 mtu 1060", 1060},
		{"by another device", "ip route add 10.0.2.0/24 dev br0 mtu 1050 table 100; ip route add 10.0.3.0/24 mtu 1040 nexthop dev br0 nexthop dev p0", 1450},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, _ := machineAndPod(t, strings.ReplaceAll(overlay, "OPTIONS", "")+c.more)
			topo := topologyOf(t, m)
			if len(topo.NextHops) != 1 || topo.NextHops[0].MTU != c.size {
				t.Errorf("peers %+v, want one for packets of %d bytes", topo.NextHops, c.size)
			}
		})
	}
}

// The same holds for routes to a pod.
func TestRoutesMTUOfPod(t *testing.T) {
	m, _ := machineAndPod(t, strings.ReplaceAll(overlay, "OPTIONS", "")+"ip rule add to 10.0.1.2 lookup 100; ip route add 10.0.1.2 dev br0 mtu 1100 table 100")
	if topo := topologyOf(t, m); len(topo.Pods) != 1 || topo.Pods[0].MTU != 1100 {
		t.Errorf("pods %+v, want one that takes packets of 1100 bytes", topo.Pods)
	}
}
