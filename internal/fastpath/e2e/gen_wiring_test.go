package e2e

import (
	"fmt"
	"testing"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/testenv"
)

// Tables of the routes into a machine's firewall namespace, from its pods and from the
// wire.
const (
	fromPodsTable = 90
	fromWireTable = 91
)

// firewalls makes a namespace on each machine which forwards what is led through it,
// and counts it for each path.
func firewalls(t *testing.T, l *lab.Lab, paths []*genPath) (namespaces []string) {
	w, err := netcfg.Owned(testenv.Claim(t))
	testenv.Must(t, err)
	for _, m := range l.Machines {
		n, err := w.Create(w.Name(m.Name))
		testenv.Must(t, err)
		t.Cleanup(n.Close)
		testenv.Must(t, host.Do(m.Namespace, func() error {
			return runScript(fmt.Sprintf(`
				ip link add fw0 type veth peer name in0 netns %[1]s
				ip link add fw1 type veth peer name in1 netns %[1]s
				ip addr add 192.0.2.1/30 dev fw0
				ip addr add 192.0.2.5/30 dev fw1
				echo 0 > /proc/sys/net/ipv6/conf/fw0/accept_dad
				echo 0 > /proc/sys/net/ipv6/conf/fw1/accept_dad
				ip addr add 2001:db8:0:1::1/64 dev fw0 nodad
				ip addr add 2001:db8:0:2::1/64 dev fw1 nodad
				echo 0 > /proc/sys/net/ipv4/conf/fw0/rp_filter
				echo 0 > /proc/sys/net/ipv4/conf/fw1/rp_filter
				ip link set fw0 up
				ip link set fw1 up
				nsenter --net=%[1]s sh -euc '
					ip addr add 192.0.2.2/30 dev in0
					ip addr add 192.0.2.6/30 dev in1
					for d in all default in0 in1; do echo 0 > /proc/sys/net/ipv6/conf/$d/accept_dad; done
					ip addr add 2001:db8:0:1::2/64 dev in0 nodad
					ip addr add 2001:db8:0:2::2/64 dev in1 nodad
					ip link set lo up
					ip link set in0 up
					ip link set in1 up
					echo 1 > /proc/sys/net/ipv4/ip_forward
					echo 1 > /proc/sys/net/ipv6/conf/all/forwarding
					echo 0 > /proc/sys/net/ipv4/conf/all/rp_filter
					ip route add default via 192.0.2.5
					ip route add default via 2001:db8:0:2::1'
				ip route add default via 192.0.2.2 table %[2]d
				ip route add default via 192.0.2.6 table %[3]d
				ip route add default via 2001:db8:0:1::2 table %[2]d
				ip route add default via 2001:db8:0:2::2 table %[3]d`, n.Path(), fromPodsTable, fromWireTable))
		}))
		for _, p := range paths {
			pod, from, family := p.Ends[len(namespaces)][0].Addr, "192.0.2.1", "ip"
			if pod.Is6() {
				from, family = "2001:db8:0:1::1", "ip6"
			}
			testenv.Must(t, host.Do(n.Path(), func() error {
				return runScript(fmt.Sprintf(`ip route add %[1]s via %[3]s
					nft 'table %[4]s seen { counter seen%[2]d { }; chain c { type filter hook forward priority -300; %[4]s saddr %[1]s counter name seen%[2]d; %[4]s daddr %[1]s counter name seen%[2]d; }; }'`, pod, p.number, from, family))
			}))
		}
		namespaces = append(namespaces, n.Path())
	}
	return namespaces
}

// wiring is what packets pass besides what the path is made of.
func (g *grammar) wiring() production {
	if g.chance(1, 3) {
		return twoBridges()
	}
	return throughFirewall()
}

// throughFirewall leads what pods send, and what is for them, through the namespace.
func throughFirewall() production {
	return production{
		name: "firewall namespace between pod and wire", firewall: true, resource: "wiring",
		do: fmt.Sprintf("ip {-4} rule add pref 9{n} iif {gate} to {peer} lookup %d\nip {-4} rule add pref 8{n} iif {out} to {pod} lookup %d",
			fromPodsTable, fromWireTable),
		undo: "ip {-4} rule del pref 9{n}\nip {-4} rule del pref 8{n}",
	}
}

// twoBridges puts a bridge between a pod and its own.
func twoBridges() production {
	return production{
		name: "two bridges", path: "vxlan", resource: "wiring",
		do: `ip link add second{n} up type bridge
			ip link add up{n} up type veth peer name down{n}
			ip link set down{n} up
			ip link set up{n} master {gate}
			ip link set down{n} master second{n}
			ip link set {port} master second{n}`,
		undo: `ip link set {port} master {gate}
			ip link del up{n}
			ip link del second{n}`,
	}
}

// firewallRule is a rule in the firewall namespace.
func (g *grammar) firewallRule() production {
	k := g.next()
	rule := g.scope() + " " + choose(g, "drop", "drop", "counter", "udp dport {dport} drop", "limit rate over 10/second burst 40 packets drop", "accept")
	return production{
		name: "rule of the firewall: " + rule, approximate: isInexact(rule),
		do:   fmt.Sprintf("nsenter --net={fw} nft 'table {ip} gen%dx{n} { chain c { type filter hook forward priority 0; %s; }; }'", k, rule),
		undo: fmt.Sprintf("nsenter --net={fw} nft delete table {ip} gen%dx{n}", k),
	}
}
