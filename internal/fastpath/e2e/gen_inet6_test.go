package e2e

import (
	"fmt"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/lab"
)

// familyWords are the words in braces that stand for what differs between the versions of IP.
func familyWords(inet6 bool) []string {
	if inet6 {
		return []string{
			"{ip}", "ip6", "{ipv}", "ipv6", "{-4}", "-6", "{version}", "6", "{ethertype}", "ipv6", "{protocol}", "nexthdr", "{ttl}", "hoplimit", "{id}", "flowlabel",
			"{pods}", "fd00:f4::/32", "{elsewhere}", "2001:db8::/32", "{stranger}", "2001:db8::1", "{nowhere}", "fd00:c8::99", "{second}", secondHop, "{forwarding}", "ipv6/conf/all/forwarding",
		}
	}
	return []string{
		"{ip}", "ip", "{ipv}", "ipv4", "{-4}", "-4", "{version}", "4", "{ethertype}", "ip", "{protocol}", "protocol", "{ttl}", "ttl", "{id}", "id",
		"{pods}", "10.244.0.0/16", "{elsewhere}", "192.0.2.0/24", "{stranger}", "192.0.2.9", "{nowhere}", "10.200.0.99", "{second}", "{hop}", "{forwarding}", "ipv4/ip_forward",
	}
}

// secondHop is another address by which each machine knows the other one, as routing daemons know routers.
const secondHop = "fe80::c8"

func addSecondHops(t testing.TB, l *lab.Lab) {
	t.Helper()
	for i, m := range l.Machines {
		shellIn(t, m.Namespace, fmt.Sprintf("ip -6 neigh replace %s lladdr %s dev wire0", secondHop, wireMAC(1-i)))
	}
}

// withIPv6 is the lab with the first two arms alone, which are routed, as paths over IPv6: the second one
// with a fast path. tunnelled has the packets in VXLAN over IPv6.
func withIPv6(t testing.TB, l *lab.Lab, tunnelled bool) *lab.Lab {
	t.Helper()
	six := *l
	six.Arms = []lab.Arm{addIPv6(t, l, 0), addIPv6(t, l, 1)}
	for index := range six.Arms {
		if tunnelled {
			tunnelIPv6(t, l, index)
		}
	}
	six.Arms[0].Pins, six.Arms[1] = nil, startIPv6(t, l, 1, six.Arms[1], tunnelled)
	return &six
}

// sockaddr is an address for the kernel.
func sockaddr(addr netip.Addr, port int) unix.Sockaddr {
	if addr.Is6() {
		return &unix.SockaddrInet6{Port: port, Addr: addr.As16()}
	}
	return &unix.SockaddrInet4{Port: port, Addr: addr.As4()}
}

// domainOf is that of sockets with an address.
func domainOf(addr netip.Addr) int {
	if addr.Is6() {
		return unix.AF_INET6
	}
	return unix.AF_INET
}
