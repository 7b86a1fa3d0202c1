package node_test

import (
	"strconv"
	"strings"
)

// dualStack are nodes and pods with both versions of IP, whose neighbours of IPv6 find each other.
var dualStack = []wiring{
	{"Flannel host-gw", wirings[1].node + on6("eth0 veth0 cni0", nodeLink) + `
		ip addr add fd00:f4:I::1/64 dev cni0 nodad`, wirings[1].pod + on6("eth0", podLink) + `
		ip addr add fd00:f4:I::2/64 dev eth0 nodad
		ip route add default via fd00:f4:I::1`},
	{"Calico without encapsulation", wirings[2].node + on6("eth0 veth0", nodeLink) + `
		ip addr add fe80::1/64 dev veth0 nodad
		ip route add fd00:f4:I::2/128 dev veth0`, wirings[2].pod + on6("eth0", podLink) + `
		ip addr add fd00:f4:I::2/128 dev eth0 nodad
		ip route add default via fe80::1 dev eth0`},
	{"Flannel vxlan", wirings[0].node + on6("eth0 veth0 cni0 flannel.1", nodeLink) + `
		ip addr add fd00:f4:I::1/64 dev cni0 nodad
		` + tunnel6("flannel-v6.1", 8472), wirings[0].pod + on6("eth0", podLink) + `
		ip link set eth0 mtu 1430
		ip addr add fd00:f4:I::2/64 dev eth0 nodad
		ip route add default via fd00:f4:I::1`},
	{"Calico VXLAN without Felix's rules", wirings[3].node + on6("eth0 veth0 vxlan.calico", nodeLink) + `
		ip addr add fe80::1/64 dev veth0 nodad
		ip route add fd00:f4:I::2/128 dev veth0
		` + tunnel6("vxlan-v6.calico", 4789), wirings[3].pod + on6("eth0", podLink) + `
		ip link set eth0 mtu 1430
		ip addr add fd00:f4:I::2/128 dev eth0 nodad
		ip route add default via fe80::1 dev eth0`},
}

// tunnel6 joins two nodes by a vxlan device over IPv6.
func tunnel6(device string, port int) string {
	return strings.NewReplacer("DEVICE", device, "PORT", strconv.Itoa(port)).Replace(`
		ip link add DEVICE address 02:00:00:00:c6:0I mtu 1430 type vxlan id 1 dstport PORT local fd00:c8::I dev eth0 nolearning
		ip link set DEVICE addrgenmode none
		echo 0 > /proc/sys/net/ipv6/conf/DEVICE/disable_ipv6
		ip addr add fd00:f4:I::/128 dev DEVICE nodad
		ip link set DEVICE up
		ip neigh add fd00:f4:J:: lladdr 02:00:00:00:c6:0J dev DEVICE nud permanent
		bridge fdb add 02:00:00:00:c6:0J dev DEVICE dst fd00:c8::J
		ip route add fd00:f4:J::/64 via fd00:f4:J:: dev DEVICE onlink
		`)
}

// Addresses of nodes and pods that are valid on a link only.
const (
	nodeLink = "fe80::1:I"
	podLink  = "fe80::2:I"
)

// on6 switches IPv6 on for devices, and gives each an address on its link: the kernel would take a while
// for one of its own.
func on6(devices, link string) string {
	return `
		for d in ` + devices + `; do ip link set $d addrgenmode none; done
		for d in all default ` + devices + `; do echo 0 > /proc/sys/net/ipv6/conf/$d/disable_ipv6; echo 0 > /proc/sys/net/ipv6/conf/$d/accept_dad; done
		for d in ` + devices + `; do ip addr add ` + link + `/64 dev $d nodad; done
		`
}

// wire6 joins two nodes by IPv6.
const wire6 = `
		echo 1 > /proc/sys/net/ipv6/conf/all/forwarding
		ip addr add fd00:c8::I/64 dev eth0 nodad
		ip -6 route show exact fd00:f4:J::/64 | grep -q . || ip route add fd00:f4:J::/64 via fd00:c8::J dev eth0
		`
