package node_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/fastpath/audit"
	"github.com/venturi-net/venturi/internal/fastpath/discover"
	"github.com/venturi-net/venturi/internal/testenv"
)

// On nodes with both versions of IP, flows of both are carried, each by what its own rules say, and
// afterwards the nodes are as before.
func TestEnableDualStack(t *testing.T) { eachDualStack(t, checkDualStack) }

func checkDualStack(t *testing.T, w wiring, attach string) {
	c := newCluster(t, w.node+wire6, w.pod)
	four := c.flow(t)
	six := c.flow6(t)
	testenv.Must(t, four())
	testenv.Must(t, six()) // now the neighbours are known
	testenv.InNetns(t, c.nodes[0].Path(), func() error {
		p, err := discover.Find(audit.IPv6)
		if err == nil && (!p.CarriesAll() || p.Wire != "eth0" || len(p.Pods) != 1 || p.Pods[0].Addr != "fd00:f4:1::2" || len(p.Peers) != 1 || p.Peers[0].Addr.String() != "fd00:c8::2") {
			t.Errorf("the plan for IPv6 is %+v", p)
		}
		return err
	})
	how := new(syscall.SysProcAttr)
	if attach == byFilters {
		testenv.Shell(t, c.nodes[1].Path(), "tc qdisc add dev eth0 clsact") // somebody else's: it stays
		how.Unshareflags = syscall.CLONE_NEWNS                              // its pins end with it, and its filters do not
	}
	before := [2]string{c.snapshot(t, 0), c.snapshot(t, 1)}
	first, second := c.start(t, 0, new(syscall.SysProcAttr), "0", "ipv6", attach), c.start(t, 1, how, "0", "ipv6", attach)
	c.untilAttached(t, true)
	c.untilCarried(t, four)
	c.untilCounted(t, c.carried6, six)
	if found := strings.Count(c.filters(t, 0, "eth0"), "venturi "); attach == byFilters && found < 2 {
		t.Errorf("the wire has %d filters of ours", found)
	}
	for _, family := range []string{"IPv4", "IPv6"} {
		// A test of another package may have a BPF program at a hook of netfilter, which keeps all slow.
		for end := time.Now().Add(testenv.Timeout); ; time.Sleep(5 * time.Millisecond) {
			testenv.Must(t, errors.Join(four(), six()))
			m := c.metrics(t, 0)
			if m["venturi_fastpath_carrying "+family] == 1 && m["venturi_fastpath_pods "+family] == 1 && m["venturi_fastpath_peers "+family] == 1 &&
				m["venturi_fastpath_flows "+family] > 0 && m["venturi_fastpath_packets_total "+family+" carried_out"] >= 100 && m["venturi_fastpath_bytes_total "+family+" carried_in"] > 0 {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("after %v, metrics of %s: %v", testenv.Timeout, family, m)
			}
		}
	}

	// A rule for IPv6 that decides by more than the flow keeps it slow, and IPv4 carried.
	testenv.Shell(t, c.nodes[0].Path(), "nft 'table ip6 slow { chain c { type filter hook forward priority 0; ip6 hoplimit 1 drop; }; }'")
	c.untilOff6(t, six)
	c.untilCarried(t, four)
	testenv.Shell(t, c.nodes[0].Path(), "nft delete table ip6 slow")
	c.untilCounted(t, c.carried6, six)
	// And the other way round.
	testenv.Shell(t, c.nodes[0].Path(), "nft 'table ip slow { chain c { type filter hook forward priority 0; ip ttl 1 drop; }; }'")
	c.untilOff(t, "ip slow c")
	c.untilCounted(t, c.carried6, six)
	testenv.Shell(t, c.nodes[0].Path(), "nft delete table ip slow")

	terminate(t, first)
	c.check(t, 0, before[0])
	testenv.Must(t, second.Process.Kill())
	_ = second.Wait()
	testenv.Must(t, six())
	testenv.Must(t, c.disable(t, 1))
	c.check(t, 1, before[1])
	testenv.Must(t, four())
	testenv.Must(t, six())
}

// filters are those of the device of a node, at both sides.
func (c *cluster) filters(t *testing.T, node int, device string) string {
	t.Helper()
	var text strings.Builder
	for _, side := range []string{"ingress", "egress"} {
		out, err := exec.Command("tc", "-n", c.nodes[node].Name(), "filter", "show", "dev", device, side).CombinedOutput()
		testenv.Must(t, err)
		text.Write(out)
	}
	return text.String()
}

// A second process takes over both versions: each datagram of IPv6 is answered meanwhile, and what was
// counted stays. One that carries IPv4 alone leaves nothing of IPv6.
func TestEnableReplacedDualStack(t *testing.T) {
	for _, attach := range attachments() {
		t.Run(attach, func(t *testing.T) { checkReplacedDualStack(t, attach) })
	}
}

func checkReplacedDualStack(t *testing.T, attach string) {
	w := dualStack[2]
	c := newCluster(t, w.node+wire6, w.pod)
	four := c.flow(t)
	six := c.flow6(t)
	testenv.Must(t, four())
	testenv.Must(t, six())
	before := c.snapshot(t, 0)
	running, other := c.startBoth(t, "0", "ipv6", attach)
	c.untilAttached(t, true)
	c.untilCounted(t, c.carried6, six)
	for range 2 {
		out, in := c.carried6(t, 0)
		running = c.replace(t, running, six, t.Output(), attach, "ipv6")
		c.untilCounted(t, c.carried6, six)
		if nowOut, nowIn := c.carried6(t, 0); nowOut < out+100 || nowIn < in+100 {
			t.Errorf("carried were %d packets out and %d in, and now %d and %d", out, in, nowOut, nowIn)
		}
	}
	running = c.replace(t, running, four, t.Output(), attach)
	c.untilCarried(t, four)
	if s := c.status(t, 0); s.IPv6 != nil {
		t.Errorf("IPv6 is carried no longer, and its status is %+v", s.IPv6)
	}
	if out, err := exec.Command("tc", "-n", c.nodes[0].Name(), "qdisc", "show", "dev", "flannel-v6.1").CombinedOutput(); err != nil || strings.Contains(string(out), "clsact") {
		t.Errorf("IPv6 is carried no longer, and its tunnel has %s (%v)", out, err)
	}
	testenv.Must(t, six())
	terminate(t, running, other)
	c.check(t, 0, before)
}

// While the daemon for IPv6 has failed, its state and the metrics say so, and IPv4 is carried on; then it is
// started again.
func TestEnableIPv6Again(t *testing.T) {
	for _, attach := range attachments() {
		t.Run(attach, func(t *testing.T) { checkIPv6Again(t, attach) })
	}
}

func checkIPv6Again(t *testing.T, attach string) {
	w := dualStack[0]
	c := newCluster(t, w.node+wire6, w.pod)
	four := c.flow(t)
	six := c.flow6(t)
	testenv.Must(t, four())
	testenv.Must(t, six())
	before := c.snapshot(t, 0)
	running, other := c.start(t, 0, new(syscall.SysProcAttr), "0", "ipv6", "retry", attach), c.start(t, 1, new(syscall.SysProcAttr), "0", "ipv6", attach)
	c.untilAttached(t, true)
	c.untilCounted(t, c.carried6, six)
	testenv.Must(t, os.Mkdir(c.status(t, 0).IPv6.Config.State+".new", 0o700)) // it cannot write its next state
	testenv.Shell(t, c.nodes[0].Path(), "nft 'table ip6 slow { chain c { type filter hook forward priority 0; ip6 hoplimit 1 drop; }; }'")
	for end := time.Now().Add(testenv.Timeout); ; time.Sleep(10 * time.Millisecond) {
		s := c.status(t, 0).IPv6
		if s != nil && s.State != nil && strings.Contains(s.State.Off, "its daemon has failed") {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("after %v, nothing says that it has failed: %+v", testenv.Timeout, s)
		}
	}
	m := c.metrics(t, 0)
	if carrying, ok := m["venturi_fastpath_carrying IPv6"]; !ok || carrying != 0 || m["venturi_fastpath_carrying IPv4"] != 1 {
		t.Errorf("metrics: %v", m)
	}
	testenv.Shell(t, c.nodes[0].Path(), "nft delete table ip6 slow")
	c.untilCarried(t, four)
	c.untilCounted(t, c.carried6, six)
	terminate(t, running, other)
	c.check(t, 0, before)
}

// Where there is no IPv4, IPv6 is carried alone, also by a process that takes over, and leaves nothing.
func TestEnableIPv6Alone(t *testing.T) { eachDualStack(t, checkIPv6Alone) }

func checkIPv6Alone(t *testing.T, w wiring, attach string) {
	const noIPv4 = `
		ip -4 addr flush scope global
		ip -4 route flush table main
		`
	c := newCluster(t, w.node+wire6+noIPv4+"echo 0 > /proc/sys/net/ipv4/ip_forward", w.pod+noIPv4)
	c.answerAt(t, "[fd00:f4:2::2]:7777")
	exchange := patient(c.exchangesFrom(t, "[fd00:f4:1::2]:0", "[fd00:f4:2::2]:7777"))
	testenv.Must(t, exchange())
	testenv.InNetns(t, c.nodes[0].Path(), func() error {
		p, err := discover.Find(audit.IPv4)
		if err == nil && (p.CarriesAny() || !strings.Contains(p.Off, "plan --ipv6")) {
			t.Errorf("the plan for IPv4 is %+v", p)
		}
		if p, err = discover.Find(audit.IPv6); err == nil && !p.CarriesAll() {
			t.Errorf("the plan for IPv6 is %+v", p)
		}
		return err
	})
	before := [2]string{c.snapshot(t, 0), c.snapshot(t, 1)}
	first, second := c.start(t, 0, new(syscall.SysProcAttr), "0", "only6", "shadow", attach), c.start(t, 1, new(syscall.SysProcAttr), "0", "only6", attach)
	c.untilCounted(t, c.carried6, exchange)
	if s := c.status(t, 0); s.Config != nil || !s.Running || !s.IPv6.Running {
		t.Errorf("the status is %+v", s)
	}
	if m := c.metrics(t, 0); m["venturi_fastpath_carrying IPv6"] != 1 || m["venturi_fastpath_packets_total IPv6 carried_out"] == 0 || strings.Contains(fmt.Sprint(m), "IPv4") {
		t.Errorf("the metrics are %v", m)
	}
	out, _ := c.carried6(t, 0)
	next := c.start(t, 0, new(syscall.SysProcAttr), "0", "only6", "replace", attach)
	wait(t, first)
	c.untilCounted(t, c.carried6, exchange)
	if now, _ := c.carried6(t, 0); now < out+100 {
		t.Errorf("carried were %d packets out, and now %d", out, now)
	}
	terminate(t, next)
	c.check(t, 0, before[0])
	testenv.Must(t, second.Process.Kill())
	_ = second.Wait()
	testenv.Must(t, c.disable(t, 1))
	c.check(t, 1, before[1])
	testenv.Must(t, exchange())
}

// A router advertisement that gives a lifetime to the route of an earlier one sends no notification: the
// wire is left slow all the same, as its routes end unnoticed; and carried again when the next one takes
// the lifetime back.
func TestEnableIPv6Advertised(t *testing.T) {
	w := dualStack[0]
	c := newCluster(t, w.node+wire6+`
		echo 2 > /proc/sys/net/ipv6/conf/eth0/accept_ra
		`, w.pod)
	c.answerAt(t, "[fd00:f4:2::2]:7777")
	send := c.exchangesFrom(t, "[fd00:f4:1::2]:0", "[fd00:f4:2::2]:7777")
	exchange := func() error { return send(testenv.Timeout) }
	testenv.Must(t, exchange())
	const forever = math.MaxUint32
	c.advertise(t, forever)
	for end := time.Now().Add(testenv.Timeout); !strings.Contains(c.routes6(t), "fd00:99::/64"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("an advertisement makes no route: %s", c.routes6(t))
		}
	}
	first, second := c.startBoth(t, "0", "ipv6")
	c.untilCounted(t, c.carried6, exchange)
	c.advertise(t, 600)
	for end := time.Now().Add(testenv.Timeout); ; time.Sleep(10 * time.Millisecond) {
		testenv.Must(t, exchange())
		s := c.status(t, 0).IPv6
		if s != nil && s.State != nil && strings.Contains(fmt.Sprint(s.State.Refused), "the route to fd00:99::/64 in table 254 has a lifetime") {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("after %v, the wire is not left slow: %+v; %s", testenv.Timeout, s.State, c.routes6(t))
		}
	}
	c.advertise(t, forever)
	c.untilCounted(t, c.carried6, exchange)
	terminate(t, first, second)
}

// routes6 are those of the first node.
func (c *cluster) routes6(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("ip", "-n", c.nodes[0].Name(), "-6", "route").CombinedOutput()
	testenv.Must(t, err)
	return string(out)
}

// advertise has the second node advertise a prefix of the wire, with a lifetime in seconds.
func (c *cluster) advertise(t *testing.T, lifetime uint32) {
	t.Helper()
	ra := append([]byte{134, 0, 0, 0, 64, 0, 0, 0}, make([]byte, 8)...) // of no default router
	ra = append(ra, 3, 4, 64, 0x80)                                     // a prefix of 64 bits that is on the link
	ra = binary.BigEndian.AppendUint32(ra, lifetime)
	ra = binary.BigEndian.AppendUint32(ra, lifetime)
	ra = append(ra, 0, 0, 0, 0)
	prefix := netip.MustParseAddr("fd00:99::").As16()
	ra = append(ra, prefix[:]...)
	testenv.InNetns(t, c.nodes[1].Path(), func() error {
		fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_RAW, unix.IPPROTO_ICMPV6)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		eth0, err := net.InterfaceByName("eth0")
		if err != nil {
			return err
		}
		all := netip.MustParseAddr("ff02::1").As16()
		return errors.Join(unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_HOPS, 255),
			unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_IF, eth0.Index),
			unix.Sendto(fd, ra, 0, &unix.SockaddrInet6{Addr: all, ZoneId: uint32(eth0.Index)}))
	})
}

// carried6 is as carried, of IPv6.
func (c *cluster) carried6(t *testing.T, i int) (out, in uint64) {
	t.Helper()
	if s := c.status(t, i).IPv6; s != nil {
		return carriedOf(s.Stats)
	}
	return 0, 0
}

// untilOff6 exchanges until the first node carries no IPv6, and says so.
func (c *cluster) untilOff6(t *testing.T, exchange func() error) {
	t.Helper()
	for end := time.Now().Add(testenv.Timeout); ; time.Sleep(10 * time.Millisecond) {
		out, in := c.carried6(t, 0)
		for range 20 {
			testenv.Must(t, exchange())
		}
		s := c.status(t, 0).IPv6
		nowOut, nowIn := c.carried6(t, 0)
		if s != nil && s.State != nil && strings.Contains(s.State.Off, "ip6 slow c") && nowOut == out && nowIn == in {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("after %v, IPv6 is still carried: %+v", testenv.Timeout, s)
		}
	}
}

// What the fast path would send of IPv6 is what the network sends, out of a pod and into one.
func TestShadowOfIPv6(t *testing.T) {
	for _, w := range dualStack {
		t.Run(w.name, func(t *testing.T) {
			c := newCluster(t, w.node+wire6, w.pod)
			c.answerAt(t, "[fd00:f4:2::2]:7777")
			udp, tcp := patient(c.exchangesFrom(t, "[fd00:f4:1::2]:0", "[fd00:f4:2::2]:7777")), c.stream(t, "[fd00:f4:2::2]:7778")
			exchange := func() error {
				if err := udp(); err != nil {
					return err
				}
				return tcp()
			}
			testenv.Must(t, exchange())
			before := c.snapshot(t, 0)
			found := c.shadow(t, 0, "2", "ipv6").result(t, exchange)
			if found.IsDifferent() || found.NotForwarded() > 0 || found.Out.Equal == 0 || found.In.Equal == 0 || found.Flows < 2 {
				t.Errorf("the comparison found %+v", found)
			}
			c.check(t, 0, before)
		})
	}
}
