package host_test

import (
	"net"
	"net/netip"

	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/testenv"
)

// A card that something uses is known, and by what; one that merely has addresses is not in use.
func TestCardUse(t *testing.T) {
	testenv.Root(t)
	const base = `ip link add eth1 type veth peer name far; ip link set far up; ip link set eth1 up
ip addr add 192.0.2.1/24 dev eth1; ip addr add 2001:db8::1/64 dev eth1 nodad; ip route add 203.0.113.0/24 via 192.0.2.9;`
	for name, c := range map[string]struct{ script, want string }{
		"spare":          {"", ""},
		"bridge's port":  {"ip link add br0 type bridge; ip link set eth1 master br0", "it is a port of br0"},
		"macvlan":        {"ip link add up0 link eth1 type macvlan", "up0 is built on it"},
		"elsewhere":      {"ip link add up0 link eth1 netns FAR type macvlan", "up0 in /run/netns/FAR is built on it"},
		"VXLAN":          {"ip link add vx0 type vxlan id 7 dev eth1 dstport 4789", "vx0 is built on it"},
		"default route":  {"ip route add default via 192.0.2.9", "it has the default route"},
		"another table":  {"ip route add default via 192.0.2.9 table 77", "it has the default route"},
		"IPv6":           {"ip -6 route add default via 2001:db8::9", "it has the default route"},
		"control":        {"", "ssh connection that controls this machine comes from 203.0.113.7"},
		"others' routes": {"ip link add eth2 type veth peer name far2; ip link set eth2 up; ip addr add 192.0.3.1/24 dev eth2; ip link set far2 up; ip route add default via 192.0.3.2", ""},
	} {
		t.Run(name, func(t *testing.T) {
			n, far := testenv.Netns(t), testenv.Netns(t)
			testenv.Shell(t, n.Path(), base+strings.ReplaceAll(c.script, "FAR", far.Name()))
			var control netip.Addr
			if name == "control" {
				control = netip.MustParseAddr("203.0.113.7")
			}
			testenv.InNetns(t, n.Path(), func() error {
				use, err := host.CardUse("eth1", control)
				if want := strings.ReplaceAll(c.want, "FAR", far.Name()); err != nil || (want == "") != (use == "") || !strings.Contains(use, want) {
					t.Errorf("%q, %v, want %q", use, err, want)
				}
				return nil
			})
		})
	}
}

// Who serves an address of a card uses it, and so does who is connected by it; who serves all
// addresses does not.
func TestCardUseBySockets(t *testing.T) {
	testenv.Root(t)
	n := testenv.Netns(t)
	testenv.Shell(t, n.Path(), "ip link add eth1 type veth peer name far; ip link set far up; ip link set eth1 up; ip addr add 192.0.2.1/24 dev eth1; ip addr add 2001:db8::1/64 dev eth1 nodad")
	use := func(want string) {
		t.Helper()
		testenv.InNetns(t, n.Path(), func() error {
			use, err := host.CardUse("eth1", netip.Addr{})
			if err != nil || (want == "") != (use == "") || !strings.Contains(use, want) {
				t.Errorf("%q, %v, want %q", use, err, want)
			}
			return nil
		})
	}
	for _, c := range []struct{ network, addr, want string }{
		{"tcp", "0.0.0.0:7001", ""},
		{"tcp", "192.0.2.1:7001", "serves TCP port 7001 at its address 192.0.2.1"},
		{"tcp", "[2001:db8::1]:7001", "serves TCP port 7001 at its address 2001:db8::1"},
		{"udp", "192.0.2.1:7002", "serves UDP port 7002"},
	} {
		var close func() error
		testenv.InNetns(t, n.Path(), func() (err error) {
			close, err = listen(c.network, c.addr)
			return err
		})
		use(c.want)
		testenv.Must(t, close())
		use("")
	}
	var conn net.Conn
	testenv.InNetns(t, n.Path(), func() (err error) {
		conn, err = net.Dial("udp", "192.0.2.77:7003")
		return err
	})
	use("a connection by UDP uses it")
	testenv.Must(t, conn.Close())
	use("")
	var packets int
	testenv.InNetns(t, n.Path(), func() (err error) {
		card, err := net.InterfaceByName("eth1")
		if err != nil {
			return err
		}
		if packets, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err != nil {
			return err
		}
		return unix.Bind(packets, &unix.SockaddrLinklayer{Protocol: 0x0300, Ifindex: card.Index})
	})
	use("a program listens to its packets")
	testenv.Must(t, unix.Close(packets))
	use("")
}

func listen(network, addr string) (func() error, error) {
	if network == "udp" {
		c, err := net.ListenPacket(network, addr)
		if err != nil {
			return nil, err
		}
		return c.Close, nil
	}
	l, err := net.Listen(network, addr)
	if err != nil {
		return nil, err
	}
	return l.Close, nil
}
