package e2e

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ti-mo/conntrack"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/fastpathtest"
	"github.com/venturi-net/venturi/internal/testenv/traffic"
)

// relations are what pods have to do with others than each other's addresses. All
// hold with a fast path as they do without.
var relations = []struct {
	name  string
	check func(t *testing.T, l *lab.Lab, n int) // on the n-th path
}{
	{"Service", checkService},
	{"Service whose endpoint goes", checkEndpointGoes},
	{"NodePort", checkNodePort},
	{"NodePort for clients outside", checkNodePortOutside},
	{"Service of the pod itself", checkHairpin},
	{"pod beside", checkBeside},
	{"machines", checkMachines},
	{"outside", checkOutside},
	{"pod that sends on", checkSendsOn},
	{"tunnel between pods", checkTunnelOfPods},
}

// Traffic of Services, of machines and of pods that are more than an end of a flow
// is what it is without a fast path.
func TestFastPathServices(t *testing.T) {
	requireFastPath(t)
	requireTools(t)
	l := testenv.Lab(t, lab.Options{Paths: []string{"vxlan", "routed", "vxlan+fast", "routed+fast"}, Services: 30})
	for _, r := range relations {
		for n, arm := range l.Arms {
			t.Run(r.name+" "+arm.Name, func(t *testing.T) { r.check(t, l, n) })
		}
	}
}

// client asks, one question at a time.
type client struct {
	*net.UDPConn
	asked uint64
}

func clientAt(t *testing.T, at host.Endpoint) *client {
	t.Helper()
	c := &client{UDPConn: traffic.ListenUDP(t, at)}
	t.Cleanup(func() { c.Close() })
	return c
}

// serve answers at an end, over UDP and TCP, until the test is over.
func serve(t *testing.T, at host.Endpoint) netip.AddrPort {
	t.Helper()
	server, listener := listenBoth(t, at)
	t.Cleanup(traffic.EchoUDP(server))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			if err := traffic.EchoTCP(listener); isClosed(err) {
				return
			}
		}
	}()
	t.Cleanup(func() { listener.Close(); <-done })
	return addrPort(server)
}

// listenBoth listens at the same port over UDP and TCP. What is free over one may be
// in use over the other.
func listenBoth(t testing.TB, at host.Endpoint) (server *net.UDPConn, listener net.Listener) {
	t.Helper()
	testenv.Must(t, host.Do(at.Namespace, func() (err error) {
		for range 10 {
			if listener, err = net.Listen("tcp", netip.AddrPortFrom(at.Addr, 0).String()); err != nil {
				return err
			}
			if server, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(listener.Addr().(*net.TCPAddr).AddrPort())); err == nil {
				return nil
			}
			listener.Close()
		}
		return err
	}))
	return server, listener
}

// ask wants so many questions answered, each from where it was sent to.
func (c *client) ask(t *testing.T, to netip.AddrPort, questions int) {
	t.Helper()
	for buf := make([]byte, 64); questions > 0; questions-- {
		c.asked++
		_, err := c.WriteToUDPAddrPort(binary.BigEndian.AppendUint64(nil, c.asked), to)
		testenv.Must(t, err)
		testenv.Must(t, c.SetReadDeadline(time.Now().Add(testenv.Timeout)))
		n, from, err := c.ReadFromUDPAddrPort(buf)
		if err != nil {
			t.Fatalf("question %d, to %v: %v", c.asked, to, err)
		}
		if from != to || n != 8 || binary.BigEndian.Uint64(buf) != c.asked {
			t.Fatalf("question %d, to %v: answered from %v, with %x", c.asked, to, from, buf[:n])
		}
	}
}

// questions are so many that a flow which may be carried is.
const questions = 300

// connects carries content over TCP, and back.
func connects(t *testing.T, from host.Endpoint, to netip.AddrPort) {
	t.Helper()
	testenv.Must(t, host.Do(from.Namespace, func() error { return traffic.CarryTCP(from.Addr, to) }))
}

// runOn does something on the first machine for the n-th path, see [placeholders].
func runOn(t *testing.T, l *lab.Lab, n int, do, undo string) {
	t.Helper()
	here := []watched{{words: placeholders(t, l, n, 0)}}
	shell(t, l.Machines[0], here, do)
	t.Cleanup(func() { shell(t, l.Machines[0], here, undo) })
}

// slowly does something, of which the first machine is to carry nothing. To the second it
// can be a flow like any other.
func slowly(t *testing.T, arm lab.Arm, do func()) {
	t.Helper()
	if len(arm.Pins) == 0 {
		do()
		return
	}
	before := fastpathtest.CarriedPackets(t, arm)
	do()
	if now := fastpathtest.CarriedPackets(t, arm); now[0] != before[0] || now[1] != before[1] {
		t.Errorf("machines carried %v, and %v before", now, before)
	}
}

// carriedNow asks until a hundred packets are carried: those counts of [carried] grow.
func carriedNow(t *testing.T, arm lab.Arm, ask func(), counts ...int) {
	t.Helper()
	if len(arm.Pins) == 0 {
		ask()
		return
	}
	before := fastpathtest.CarriedPackets(t, arm)
	for end := time.Now().Add(testenv.Timeout); ; {
		ask()
		now := fastpathtest.CarriedPackets(t, arm)
		if !slices.ContainsFunc(counts, func(i int) bool { return now[i]-before[i] < 100 }) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("after %v, machines carried %v, and %v before", testenv.Timeout, now, before)
		}
	}
}

// virtual is the n-th path's address of a Service.
func virtual(arm lab.Arm, n int) netip.AddrPort {
	addr := netip.AddrFrom4([4]byte{10, 96, 200, byte(n + 1)})
	if arm.Client().Addr.Is6() {
		addr = netip.MustParseAddr(fmt.Sprintf("fd00:96::%x", n+1))
	}
	return netip.AddrPortFrom(addr, 53)
}

// provide has the n-th path's Service on the first machine: each rule decides what is
// to its address. As kube-proxy does it, what connection tracking knows of a Service
// that is withdrawn is forgotten: a later client that happens to get the port of an
// earlier one would be sent to the endpoint which that one had.
func provide(t *testing.T, l *lab.Lab, n int, rules ...string) (withdraw func()) {
	t.Helper()
	at := virtual(l.Arms[n], n).Addr()
	here := []watched{{words: placeholders(t, l, n, 0)}}
	to := fmt.Sprintf("%s daddr %s ", tableFamily(at), at)
	shell(t, l.Machines[0], here, `nft 'table `+tableFamily(at)+` service{n} { chain c { type nat hook prerouting priority -100; `+
		to+strings.Join(rules, to)+` }; }'`)
	return func() {
		shell(t, l.Machines[0], here, `nft delete table `+tableFamily(at)+` service{n}`)
		forget(t, l.Machines[0], func(f conntrack.Flow) bool { return f.TupleOrig.IP.DestinationAddress == at })
	}
}

// checkService: the answers of a Service come from its virtual address, though the
// pod behind it is asked directly from the same port, and both is carried: also where the
// connection to the Service was first, and the direct one gets another port.
func checkService(t *testing.T, l *lab.Lab, n int) {
	arm := l.Arms[n]
	pod := serve(t, arm.Server())
	t.Cleanup(provide(t, l, n, fmt.Sprintf("meta l4proto { tcp, udp } dnat to %s;", pod)))
	for _, order := range [][2]netip.AddrPort{{pod, virtual(arm, n)}, {virtual(arm, n), pod}} {
		c := clientAt(t, arm.Client())
		for _, to := range order {
			carriedNow(t, arm, func() { c.ask(t, to, 1) }, 0, 1, 2, 3)
		}
		carriedNow(t, arm, func() {
			for _, to := range order {
				c.ask(t, to, 1)
			}
		}, 0, 1, 2, 3)
	}
	carriedNow(t, arm, func() { connects(t, arm.Client(), virtual(arm, n)) }, 0, 1, 2, 3)
}

// checkNodePort: so do those of a port of the first machine, for its pod and for the
// second machine. The pod's are masqueraded too, and carried both ways; behind the wire, over UDP.
func checkNodePort(t *testing.T, l *lab.Lab, n int) {
	arm := l.Arms[n]
	pod := serve(t, arm.Server())
	node := nodePort(t, l, n, "meta mark set 0x4000", pod)
	for _, from := range []host.Endpoint{arm.Client(), machineEnd(l, 1)} {
		clientAt(t, from).ask(t, node, questions)
		connects(t, from, node)
	}
	if strings.HasPrefix(arm.Path, "vxlan") {
		carriedNow(t, arm, func() { connects(t, arm.Client(), node) }, 0, 1, 2, 3)
	}
	c := clientAt(t, arm.Client())
	carriedNow(t, arm, func() { c.ask(t, node, 1) }, 0, 1, 2, 3)
}

// nodePort leads a port of the first machine to a pod, as a rule says more.
func nodePort(t *testing.T, l *lab.Lab, n int, rule string, pod netip.AddrPort) netip.AddrPort {
	t.Helper()
	node := netip.AddrPortFrom(machineEnd(l, 0).Addr, uint16(30080+n))
	family := tableFamily(node.Addr())
	runOn(t, l, n, fmt.Sprintf(`nft 'table %s node{n} {
		chain c { type nat hook prerouting priority -100; fib daddr type local meta l4proto { tcp, udp } th dport %d %s dnat to %s; }; }'`,
		family, node.Port(), rule, pod), `nft delete table `+family+` node{n}`)
	return node
}

// checkNodePortOutside: a client outside asks the pod of the first machine by a port of that, whose
// rules keep its address or masquerade it. What comes by the wire itself is carried over UDP where the
// fast path is one of the wire.
func checkNodePortOutside(t *testing.T, l *lab.Lab, n int) {
	arm := l.Arms[n]
	pod := serve(t, arm.Client())
	for name, rule := range map[string]string{"Local": "", "Cluster": "meta mark set 0x4000"} {
		t.Run(name, func(t *testing.T) {
			node, from := nodePort(t, l, n, rule, pod), machineEnd(l, 1)
			t.Cleanup(func() { forgetConnections(t, l.Machines[0]) })
			c := clientAt(t, from)
			both := func() { c.ask(t, node, 1); connects(t, from, node) }
			both()
			if strings.HasPrefix(arm.Path, "routed") {
				carriedNow(t, arm, func() { c.ask(t, node, 1) }, 0, 1)
				slowly(t, arm, func() { connects(t, from, node) })
				saysSlow(t, arm, "TCP")
			}
		})
	}
}

// checkHairpin: a pod reaches itself by its Service.
func checkHairpin(t *testing.T, l *lab.Lab, n int) {
	arm := l.Arms[n]
	pod := serve(t, arm.Client())
	t.Cleanup(provide(t, l, n, fmt.Sprintf("meta l4proto { tcp, udp } meta mark set 0x4000 dnat to %s;", pod)))
	slowly(t, arm, func() {
		clientAt(t, arm.Client()).ask(t, virtual(arm, n), questions)
		connects(t, arm.Client(), virtual(arm, n))
	})
}

// checkBeside: pods of one machine reach each other, of whatever paths.
func checkBeside(t *testing.T, l *lab.Lab, n int) {
	arm, beside := l.Arms[n], l.Arms[(n+1)%len(l.Arms)]
	pod := serve(t, beside.Client())
	slowly(t, arm, func() {
		clientAt(t, arm.Client()).ask(t, pod, questions)
		connects(t, arm.Client(), pod)
	})
}

// checkMachines: a pod and both machines reach each other.
func checkMachines(t *testing.T, l *lab.Lab, n int) {
	arm := l.Arms[n]
	pod := serve(t, arm.Client())
	for i := range l.Machines {
		host := machineEnd(l, i)
		clientAt(t, host).ask(t, pod, questions)
		connects(t, host, pod)
		server := serve(t, host)
		clientAt(t, arm.Client()).ask(t, server, questions)
		connects(t, arm.Client(), server)
	}
}

// outsideAddrs are addresses that are no pod's, behind the second machine.
var outsideAddrs = map[string]string{"ip": "192.0.2.1", "ip6": "2001:db8::1"}

// checkOutside: answers come back to a pod whose address is not known outside. Behind the wire
// they are for the machine's own address, and carried to the pod over UDP where the fast path is one of the
// wire.
func checkOutside(t *testing.T, l *lab.Lab, n int) {
	arm := l.Arms[n]
	family := tableFamily(arm.Client().Addr)
	outside := netip.MustParseAddr(outsideAddrs[family])
	one, ready := netip.PrefixFrom(outside, outside.BitLen()).String(), ""
	if outside.Is6() {
		ready = " nodad\n timeout 10 sh -c 'until ip -6 route get " + outside.String() + " | grep -q ^local; do sleep 0.01; done'" // it comes a moment later
	}
	testenv.Must(t, host.Do(l.Machines[1].Namespace, func() error { return runScript("ip addr add " + one + " dev wire0" + ready) }))
	t.Cleanup(func() {
		testenv.Must(t, host.Do(l.Machines[1].Namespace, func() error { return runScript("ip addr del " + one + " dev wire0") }))
	})
	runOn(t, l, n, strings.NewReplacer("ONE", one, "FAMILY", family).Replace(`ip route add ONE via {other}
		nft 'table FAMILY outside { chain c { type nat hook postrouting priority 100; FAMILY daddr ONE masquerade; }; }'`),
		`ip route del `+one+`; nft delete table `+family+` outside`)
	server := serve(t, host.Endpoint{Namespace: l.Machines[1].Namespace, Addr: outside})
	c := clientAt(t, arm.Client())
	c.ask(t, server, questions)
	connects(t, arm.Client(), server)
	if strings.HasPrefix(arm.Path, "routed") {
		carriedNow(t, arm, func() { c.ask(t, server, 1) }, 0, 1)
		slowly(t, arm, func() { connects(t, arm.Client(), server) })
		saysSlow(t, arm, "TCP")
	}
}

// checkSendsOn: what a pod gets and sends on goes back into the network it came by,
// though the kernel takes it for encapsulated still.
func checkSendsOn(t *testing.T, l *lab.Lab, n int) {
	arm := l.Arms[n]
	pod := serve(t, arm.Client())
	gate := netip.AddrPortFrom(arm.Server().Addr, 7000)
	testenv.Must(t, host.Do(arm.Server().Namespace, func() error {
		return runScript(fmt.Sprintf(`echo 1 > /proc/sys/net/ipv4/ip_forward; echo 0 > /proc/sys/net/ipv4/conf/all/send_redirects
			echo 0 > /proc/sys/net/ipv4/conf/eth0/send_redirects
			nft 'table ip gate { chain pre { type nat hook prerouting priority -100; meta l4proto { tcp, udp } th dport %d dnat to %s; };
				chain post { type nat hook postrouting priority 100; masquerade; }; }'`, gate.Port(), pod))
	}))
	t.Cleanup(func() {
		testenv.Must(t, host.Do(arm.Server().Namespace, func() error { return runScript("nft delete table ip gate") }))
	})
	c := clientAt(t, arm.Client())
	carriedNow(t, arm, func() { c.ask(t, gate, 1) }, 0, 3)
	before := encapsulated(t, arm)
	c.ask(t, gate, questions)
	connects(t, arm.Client(), gate)
	if now := encapsulated(t, arm); arm.Path == "vxlan+fast" && now == before {
		t.Error("nothing was sent on that was encapsulated still")
	}
}

// encapsulated is how many packets went slow because they were, on the second machine.
func encapsulated(t *testing.T, arm lab.Arm) uint64 {
	t.Helper()
	if len(arm.Pins) == 0 {
		return 0
	}
	stats, err := fastpath.ReadStats(arm.Pins[1])
	testenv.Must(t, err)
	return stats[bpf.SlowEncapsulated].Packets
}

// checkTunnelOfPods: pods have a tunnel of their own inside of the network.
func checkTunnelOfPods(t *testing.T, l *lab.Lab, n int) {
	arm := l.Arms[n]
	var ends []host.Endpoint
	for i, pods := range arm.Ends[:2] {
		end, addr := pods[0], netip.AddrFrom4([4]byte{10, 99, 0, byte(i + 1)})
		testenv.Must(t, host.Do(end.Namespace, func() error { // one flow both ways, of the kind that is carried
			return runScript(fmt.Sprintf(`ip link add inner type vxlan id 99 local %s remote %s dstport 4790 srcport 4790 4791 dev eth0
				ip addr add %s/24 dev inner; ip link set inner up`, end.Addr, arm.Ends[1-i][0].Addr, addr))
		}))
		t.Cleanup(func() {
			testenv.Must(t, host.Do(end.Namespace, func() error { return runScript("ip link del inner") }))
		})
		end.Addr = addr
		ends = append(ends, end)
	}
	server := serve(t, ends[1])
	clientAt(t, ends[0]).ask(t, server, questions)
	connects(t, ends[0], server)
	traffic.CheckUDP(t, ends[0], ends[1], []int{1, 1300, 4000, traffic.MaxPayload})
}
