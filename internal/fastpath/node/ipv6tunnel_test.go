package node_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/fastpath/audit"
	"github.com/venturi-net/venturi/internal/fastpath/discover"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/testenv"
)

// tunnelled6 has IPv6 in VXLAN over IPv6.
var tunnelled6 = dualStack[2]

// What a pod sends over IPv6 in VXLAN is on the wire what it was before it was carried, byte for byte: inner
// and outer headers, UDP checksums and source ports, whatever class and hop limit the pod gives it.
func TestIPv6InTunnelIsSame(t *testing.T) {
	w := tunnelled6
	c := newCluster(t, w.node+wire6, w.pod)
	c.answerAt(t, "[fd00:f4:2::2]:7777")
	client := c.openUDP(t, c.pods[0], "[fd00:f4:1::2]:7000", "[fd00:f4:2::2]:7777")
	answered := func() error {
		_, err := client.Write([]byte("ping"))
		if err == nil {
			err = client.SetReadDeadline(time.Now().Add(testenv.Timeout))
		}
		if err == nil {
			_, err = client.Read(make([]byte, 64))
		}
		return err
	}
	testenv.Must(t, answered())
	kinds := []struct{ class, hops, noCheck, length int }{
		{0, 64, 0, 1}, {0, 64, 0, 100}, {0xb8, 64, 0, 100}, {1, 64, 0, 100}, {2, 64, 0, 100}, {3, 64, 0, 100}, {0x2f, 2, 0, 101}, {0, 255, 0, 1430 - 48}, {0, 64, 1, 100}, {0, 64, 0, 2},
	}
	frames := func() (all [][]byte) {
		const headers = 14 + 40 + 8 + 8 + 14 + 40 + 8
		wire := listen(t, c.nodes[1], headers)
		for _, k := range kinds {
			raw, err := client.SyscallConn()
			testenv.Must(t, err)
			testenv.Must(t, raw.Control(func(fd uintptr) {
				err = errors.Join(unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_TCLASS, k.class),
					unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS, k.hops),
					unix.SetsockoptInt(int(fd), unix.IPPROTO_UDP, unix.UDP_NO_CHECK6_TX, k.noCheck))
			}))
			testenv.Must(t, err)
			payload := bytes.Repeat([]byte{byte(len(all))}, k.length)
			_, err = client.Write(payload)
			testenv.Must(t, err)
			frame, err := wire.frameWith(payload)
			if err != nil {
				t.Fatalf("%+v: %v", k, err)
			}
			all = append(all, frame)
		}
		return all
	}
	before := frames()
	first, second := c.startBoth(t, "0", "ipv6")
	testenv.Must(t, client.SetReadDeadline(time.Now().Add(time.Millisecond)))
	for drained := error(nil); drained == nil; { // answers to the above
		_, drained = client.Read(make([]byte, 64))
	}
	c.untilCounted(t, c.carried6, answered)
	out, _ := c.carried6(t, 0)
	now := frames()
	if carried, _ := c.carried6(t, 0); carried < out+uint64(len(kinds)) {
		t.Fatalf("of %d packets, %d were carried", len(kinds), carried-out)
	}
	const outerCheck = 14 + 40 + 6
	for i, k := range kinds {
		if !bytes.Equal(before[i], now[i]) {
			t.Errorf("%+v: carried it is\n%x, and it was\n%x", k, now[i], before[i])
		}
		if binary.BigEndian.Uint16(now[i][outerCheck:]) == 0 {
			t.Errorf("%+v: has no outer checksum: %x", k, now[i])
		}
	}
	terminate(t, first, second)
}

// tap receives the frames with so many bytes of headers that come in by the device eth0 of a node or a pod.
type tap struct{ fd, headers int }

func listen(t *testing.T, n *netcfg.Namespace, headers int) tap {
	t.Helper()
	at := tap{headers: headers}
	testenv.InNetns(t, n.Path(), func() (err error) {
		const all = 0x0300 // ETH_P_ALL, in network order: before programs take what they carry
		if at.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, all); err != nil {
			return err
		}
		t.Cleanup(func() { unix.Close(at.fd) })
		eth0, err := net.InterfaceByName("eth0")
		if err != nil {
			return err
		}
		wait := unix.NsecToTimeval(int64(testenv.Timeout))
		return errors.Join(unix.Bind(at.fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: eth0.Index}), unix.SetsockoptTimeval(at.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait))
	})
	return at
}

// frameWith is the next frame that comes in and ends in some bytes.
func (p tap) frameWith(end []byte) ([]byte, error) {
	for buf := make([]byte, 1<<16); ; {
		n, from, err := unix.Recvfrom(p.fd, buf, 0)
		if err != nil {
			return nil, err
		}
		if l, ok := from.(*unix.SockaddrLinklayer); ok && l.Pkttype == unix.PACKET_HOST && n == p.headers+len(end) && bytes.HasSuffix(buf[:n], end) {
			return bytes.Clone(buf[:n]), nil
		}
	}
}

// When the way to a peer of the tunnel becomes too narrow, by a route or by what a router says, carrying ends
// for what does not fit any longer, and the pod learns what does.
func TestIPv6InTunnelLearnsMTU(t *testing.T) {
	for name, narrow := range map[string]func(*testing.T, *cluster){
		"a route": func(t *testing.T, c *cluster) {
			testenv.Shell(t, c.nodes[0].Path(), "ip -6 route add fd00:c8::2/128 dev eth0 mtu 1400")
		},
		"a router": func(t *testing.T, c *cluster) { c.tooBig(t, 1400) },
		"the setting of the wire": func(t *testing.T, c *cluster) {
			testenv.Shell(t, c.nodes[0].Path(), "echo 1400 > /proc/sys/net/ipv6/conf/eth0/mtu")
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := tunnelled6
			c := newCluster(t, w.node+wire6, w.pod)
			c.answerAt(t, "[fd00:f4:2::2]:7777")
			client := c.openUDP(t, c.pods[0], "[fd00:f4:1::2]:0", "[fd00:f4:2::2]:7777")
			exchange := func() error {
				_, err := client.Write(make([]byte, 1430-48))
				if err == nil {
					err = client.SetReadDeadline(time.Now().Add(testenv.Timeout))
				}
				if err == nil {
					_, err = client.Read(make([]byte, 64))
				}
				return err
			}
			testenv.Must(t, exchange())
			first, second := c.startBoth(t, "0", "ipv6")
			c.untilCounted(t, c.carried6, exchange)
			narrow(t, c)
			for end := time.Now().Add(testenv.Timeout); ; time.Sleep(time.Millisecond) {
				_, _ = client.Write(make([]byte, 1430-48)) // it may be too large now
				out, err := exec.Command("ip", "-n", c.pods[0].Name(), "-6", "route", "get", "fd00:f4:2::2").CombinedOutput()
				testenv.Must(t, err)
				if strings.Contains(string(out), "mtu 1330") {
					break
				}
				if time.Now().After(end) {
					t.Fatalf("after %v, the pod has not learned of it: %s", testenv.Timeout, out)
				}
			}
			terminate(t, first, second)
		})
	}
}

// The neighbour behind a tunnel of IPv6 is verified when it is stale, although no packet that is carried does so.
func TestIPv6InTunnelVerifiesNeighbour(t *testing.T) {
	w := tunnelled6
	c := newCluster(t, w.node+wire6+"ip addr add fe80::f:I/64 dev flannel-v6.1 nodad", w.pod) // to ask from
	exchange := c.flow6(t)
	testenv.Must(t, exchange())
	first, second := c.startBoth(t, "0", "ipv6")
	c.untilCounted(t, c.carried6, exchange)
	c.onNode(t, 0, "ip neigh replace fd00:f4:J:: lladdr 02:00:00:00:c6:0J dev flannel-v6.1 nud stale")
	for end := time.Now().Add(testenv.Timeout); ; time.Sleep(time.Millisecond) {
		testenv.Must(t, exchange())
		is, err := exec.Command("ip", "-n", c.nodes[0].Name(), "neigh", "show", "to", "fd00:f4:2::", "dev", "flannel-v6.1").CombinedOutput()
		testenv.Must(t, err)
		if strings.Contains(string(is), "REACHABLE") {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("after %v, the neighbour is not verified: %s", testenv.Timeout, is)
		}
	}
	terminate(t, first, second)
}

// tooBig has the second node say of a packet of the first one's tunnel that only a smaller one gets through.
func (c *cluster) tooBig(t *testing.T, mtu uint32) {
	t.Helper()
	from, to := netip.MustParseAddr("fd00:c8::1").As16(), netip.MustParseAddr("fd00:c8::2").As16()
	message := binary.BigEndian.AppendUint32([]byte{2, 0, 0, 0}, mtu)
	message = append(message, 0x60, 0, 0, 0, 5, 0, unix.IPPROTO_UDP, 64)
	message = append(append(message, from[:]...), to[:]...)
	message = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(message, 50000), 8472)
	message = append(message, 5, 0, 1, 2)
	message = append(message, 8, 0, 0, 0, 0, 0, 1, 0)
	message = append(message, make([]byte, 64)...)
	testenv.InNetns(t, c.nodes[1].Path(), func() error {
		fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_RAW, unix.IPPROTO_ICMPV6)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.Sendto(fd, message, 0, &unix.SockaddrInet6{Addr: from})
	})
}

// What is not proven of a tunnel of IPv6 is refused, and named. Routes that end are no obstacle on the wire
// below it: the kernel looks up the way of each packet there.
func TestPlanRefusesTunnelsOfIPv6(t *testing.T) {
	again := func(options string) string {
		return "ip link del flannel-v6.1\n" + strings.NewReplacer("local fd00:c8::I dev eth0", options, "I", "1", "J", "2").Replace(tunnel6("flannel-v6.1", 8472))
	}
	for _, c := range []struct{ name, script, reason string }{
		{"not bound to a device", again("local fd00:c8::1"), "flannel-v6.1 is not bound to a device"},
		{"headers by packet", again("local fd00:c8::1 dev eth0 ttl inherit"), "flannel-v6.1 its outer headers are not the same for all packets (ttl inherit)"},
		{"marks in its headers", again("local fd00:c8::1 dev eth0 gbp"), "flannel-v6.1 its outer headers are not the same for all packets (gbp)"},
		{"over IPv4", "ip link del flannel-v6.1; ip -6 route add fd00:f4:2::/64 via fe80::9 dev flannel.1 onlink", "flannel.1 leads to fd00:f4:2::/64 by VXLAN over IPv4"},
		{"marks that it would see", "nft 'table ip6 m { chain c { type filter hook postrouting priority 0; meta mark set 7; }; }'", "rules may mark packets (ip6 m c) that then enter the tunnel"},
		{"no router", "echo 0 > /proc/sys/net/ipv6/conf/flannel-v6.1/forwarding", "does not forward IPv6 (net.ipv6.conf.flannel-v6.1.forwarding is 0)"},
		{"a route that ends", "ip -6 route add fd00:f4:9::/64 via fd00:f4:2:: dev flannel-v6.1 onlink expires 100", "in table 254 has a lifetime"},
		{"a filter below it", "tc qdisc add dev eth0 clsact; tc filter add dev eth0 ingress protocol ipv6 prio 7 u32 match u32 0 0 flowid 1:1", "flannel-v6.1 stands on eth0, which has tc filters at its ingress"},
		{"a chain below it", "nft 'table netdev m { chain c { type filter hook ingress device eth0 priority 0; }; }'", "flannel-v6.1 stands on eth0, which has an nftables chain"},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newCluster(t, tunnelled6.node+wire6+"ip -6 route add default via fd00:c8::9 dev eth0 expires 600", tunnelled6.pod)
			testenv.Must(t, n.flow6(t)())
			find := func() (p *discover.Plan) {
				testenv.InNetns(t, n.nodes[0].Path(), func() (err error) {
					p, err = discover.Find(audit.IPv6)
					return err
				})
				return p
			}
			if p := find(); !p.CarriesAll() || p.Tunnel != "flannel-v6.1" || p.VNI != 1 || p.Port != 8472 || len(p.Counters.Tunnels) != 0 {
				t.Fatalf("the plan was %+v", p)
			}
			testenv.Shell(t, n.nodes[0].Path(), c.script)
			p := find()
			all := []string{p.Off}
			for _, peer := range p.Peers {
				all = append(all, peer.Reason)
			}
			for _, l := range p.LeftAlone {
				all = append(all, fmt.Sprint(l.Device, " ", l.Reason))
			}
			if p.CarriesAny() || !strings.Contains(strings.Join(all, "\n"), c.reason) {
				t.Errorf("%q does not say %q; carries any: %v", all, c.reason, p.CarriesAny())
			}
		})
	}
}
