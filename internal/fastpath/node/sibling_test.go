package node_test

import (
	"net"
	"net/netip"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/fastpath/node"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/agenttest"
	"github.com/venturi-net/venturi/internal/testenv/traffic"
)

// podPair are the addresses of two pods, of either version of IP, the first one's node being the first.
type podPair struct {
	clientAddr, podAddr netip.Addr
	nodeAddr            string // of the node, which pods reach by their gateway
}

var (
	siblings4 = podPair{netip.MustParseAddr("10.244.1.2"), netip.MustParseAddr("10.244.1.3"), "192.0.10.1"}
	siblings6 = podPair{netip.MustParseAddr("fd00:f4:1::2"), netip.MustParseAddr("fd00:f4:1::3"), "fd00:c8::1"}
)

// answeredPort is where second pods answer.
const answeredPort = 7777

// server is where the second pod answers.
func (s podPair) server() string { return netip.AddrPortFrom(s.podAddr, answeredPort).String() }

func (s podPair) isIPv6() bool { return s.clientAddr.Is6() }

// clientAt is an address of the client, for a port.
func (s podPair) clientAt(port uint16) string {
	return netip.AddrPortFrom(s.clientAddr, port).String()
}

type siblingWiring struct {
	wiring
	podPair
	add      string // what adds the second pod to the first node
	routed   bool   // its packets are, by routes to single pods
	services bool   // the replies of a Service find their way back
}

// siblingWirings are those of nodes with several pods. A bridge leads packets of its pods to each other
// past the rules for IPv4, or has them meet these.
var siblingWirings = []siblingWiring{
	{wirings[0], siblings4, "ip link set veth9 master cni0", false, true},
	{wiring{"bridge without rules", wirings[1].node + "; for f in /proc/sys/net/bridge/bridge-nf-call-iptables; do if [ -e $f ]; then echo 0 > $f; fi; done", bridgedPod}, siblings4, "ip link set veth9 master cni0", false, false},
	{wirings[2], siblings4, "echo 1 > /proc/sys/net/ipv4/conf/veth9/proxy_arp; echo 0 > /proc/sys/net/ipv4/neigh/veth9/proxy_delay; ip route add 10.244.1.3/32 dev veth9 scope link", true, true},
	{wirings[4], siblings4, "ip addr add 10.244.1.1/32 dev veth9; ip route add 10.244.1.3/32 dev veth9 src 10.244.1.1", true, true},
}

// wiringsHere are those of some wirings that are for this machine. In a guest, bridges ask no rules, and its CPU takes its
// time.
func wiringsHere(all []siblingWiring) []siblingWiring {
	if agenttest.InGuest() {
		return all[1:3]
	}
	return all
}

// siblingNode has a second pod on the first node.
type siblingNode struct {
	*cluster
	podPair
	pod *netcfg.Namespace
}

func newSibling(t *testing.T, w siblingWiring) *siblingNode {
	t.Helper()
	b := &siblingNode{cluster: newCluster(t, w.node, w.pod), podPair: w.podPair}
	owned, err := netcfg.Owned(testenv.Claim(t))
	testenv.Must(t, err)
	b.pod, err = owned.Create(owned.Name("sibling"))
	testenv.Must(t, err)
	t.Cleanup(b.pod.Close)
	b.addPod(t, w)
	b.serve(t)
	return b
}

// addPod joins the second pod to the node.
func (b *siblingNode) addPod(t *testing.T, w siblingWiring) {
	t.Helper()
	testenv.Shell(t, b.nodes[0].Path(), "ip link add veth9 type veth peer name eth0 netns "+b.pod.Name()+"; ip link set veth9 addrgenmode none; ip link set veth9 up; "+w.add)
	words := strings.NewReplacer("10.244.I.2", siblings4.podAddr.String(), "fd00:f4:I::2", siblings6.podAddr.String(), podLink, "fe80::3:1", "I", "1", "J", "2")
	testenv.Shell(t, b.pod.Path(), "echo 1 > /proc/sys/net/ipv6/conf/eth0/disable_ipv6; ip link set lo up; ip link set eth0 address 02:00:00:00:ee:03 up;"+words.Replace(w.pod))
}

// serve answers in the second pod, over UDP and TCP.
func (b *siblingNode) serve(t *testing.T) {
	t.Helper()
	server := b.openUDP(t, b.pod, b.server(), "")
	t.Cleanup(traffic.EchoUDP(server))
	serveTCP(t, b.pod, b.server())
}

// carry starts the process of the node, and waits until it carries. Of IPv6, it carries nothing else.
func (b *siblingNode) carry(t *testing.T) *exec.Cmd {
	t.Helper()
	args := []string{"0"}
	if b.isIPv6() {
		args = append(args, "only6")
	}
	cmd := b.start(t, 0, new(syscall.SysProcAttr), args...)
	for end := time.Now().Add(testenv.Timeout); ; time.Sleep(20 * time.Millisecond) {
		if s := b.statusOfFamily(t); s.Running && s.State != nil && s.State.Pods > 0 {
			return cmd
		}
		if time.Now().After(end) {
			t.Fatalf("after %v: %+v", testenv.Timeout, b.status(t, 0))
		}
	}
}

// statusOfFamily is what the node says of the pods' version of IP.
func (b *siblingNode) statusOfFamily(t *testing.T) node.Status {
	t.Helper()
	s := b.status(t, 0)
	if !b.isIPv6() {
		return s
	}
	if s.IPv6 == nil {
		return node.Status{}
	}
	return *s.IPv6
}

// carriedNow is how many packets the node has carried out of its pods.
func (b *siblingNode) carriedNow(t *testing.T) uint64 {
	t.Helper()
	out, _ := carriedOf(b.statusOfFamily(t).Stats)
	return out
}

// flow opens a UDP flow to an address that leads to the second pod, and waits for the first answer: links
// that were just set up may lose what is sent.
func (b *siblingNode) flow(t *testing.T, to string) (exchange func() error) {
	t.Helper()
	send := b.exchangesFrom(t, b.clientAt(0), to)
	err := send(testenv.Timeout / 20)
	for end := time.Now().Add(testenv.Timeout); err != nil && time.Now().Before(end); {
		err = send(testenv.Timeout / 20)
	}
	testenv.Must(t, err)
	return func() error { return send(testenv.Timeout) }
}

// connect carries content over TCP to an address that leads to the second pod, and back.
func (b *siblingNode) connect(to string) error {
	return host.Do(b.pods[0].Path(), func() error { return traffic.CarryTCP(b.clientAddr, netip.MustParseAddrPort(to)) })
}

// learnNeighbours has the node know its pods: each has sent something to it.
func (b *siblingNode) learnNeighbours(t *testing.T) {
	t.Helper()
	for pod, from := range map[*netcfg.Namespace]netip.Addr{b.pods[0]: b.clientAddr, b.pod: b.podAddr} {
		conn := b.openUDP(t, pod, netip.AddrPortFrom(from, 0).String(), net.JoinHostPort(b.nodeAddr, "9"))
		_, err := conn.Write([]byte{1})
		testenv.Must(t, err)
	}
}

// untilAllCarried exchanges until all packets of fifty exchanges are carried, both ways.
func (b *siblingNode) untilAllCarried(t *testing.T, exchange func() error) {
	t.Helper()
	const round = 50
	for end := time.Now().Add(testenv.Timeout); ; time.Sleep(10 * time.Millisecond) {
		before := b.carriedNow(t)
		for range round {
			testenv.Must(t, exchange())
		}
		now := b.carriedNow(t)
		if now-before >= 2*round {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("after %v, %d of %d packets are carried; %+v", testenv.Timeout, now-before, 2*round, b.status(t, 0))
		}
	}
}

// untilConnectionsCarried opens connections until a hundred of their packets are carried. On a busy machine
// the daemon may prepare one after it has ended.
func (b *siblingNode) untilConnectionsCarried(t *testing.T, to string) {
	t.Helper()
	was := b.carriedNow(t)
	for end := time.Now().Add(testenv.Timeout); ; {
		testenv.Must(t, b.connect(to))
		now := b.carriedNow(t)
		if now-was >= 100 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("after %v, %d packets of connections are carried: %+v", testenv.Timeout, now-was, b.status(t, 0).Stats)
		}
	}
}

// Between pods of one node, packets are carried from pod to pod, however the node leads them there.
func TestEnableSibling(t *testing.T) {
	for _, w := range wiringsHere(siblingWirings) {
		t.Run(w.name, w.checkEnableSibling)
	}
}

func (w siblingWiring) checkEnableSibling(t *testing.T) {
	b := newSibling(t, w)
	b.learnNeighbours(t)
	exchange := b.flow(t, b.server())
	before := b.snapshot(t, 0)
	cmd := b.carry(t)
	flushConntrack(t, b.nodes[0])
	b.untilAllCarried(t, exchange)
	b.untilConnectionsCarried(t, b.server())
	terminate(t, cmd)
	b.check(t, 0, before)
	testenv.Must(t, exchange())
}

// The same through a Service whose pod is a sibling of its client, with the rules of kube-proxy. What a pod
// sends to a Service of its own stays slow.
func TestEnableSiblingServices(t *testing.T) {
	for _, w := range wiringsHere(siblingWirings) {
		for _, proxy := range proxies {
			if !w.services {
				continue
			}
			t.Run(w.name+", "+proxy.name, func(t *testing.T) {
				b := newSibling(t, w)
				b.learnNeighbours(t)
				rules := strings.ReplaceAll(proxy.rules(0), "10.244.2.2", b.podAddr.String())
				b.loadProxy(t, 0, rules, proxy.program)
				exchange := b.flow(t, serviceAddress)
				b.carry(t)
				flushConntrack(t, b.nodes[0])
				b.untilAllCarried(t, exchange)
				b.untilConnectionsCarried(t, serviceAddress)
				b.loadProxy(t, 0, strings.ReplaceAll(proxy.rules(1000), "10.244.2.2", b.podAddr.String()), proxy.program)
				testenv.Must(t, exchange())
				b.untilAllCarried(t, exchange)
			})
		}
	}
}

// What would be carried between pods of one node is what the network hands on, to the byte.
func TestShadowSibling(t *testing.T) {
	for _, w := range wiringsHere(siblingWirings) {
		for _, to := range []string{w.server(), serviceAddress} {
			if to == serviceAddress && !w.services {
				continue
			}
			t.Run(w.name+", "+to, func(t *testing.T) { w.checkShadowSibling(t, to) })
		}
	}
}

func (w siblingWiring) checkShadowSibling(t *testing.T, to string) {
	b := newSibling(t, w)
	b.learnNeighbours(t)
	b.loadProxy(t, 0, strings.ReplaceAll(iptablesProxy(0), "10.244.2.2", siblings4.podAddr.String()), proxies[0].program)
	exchange := b.flow(t, to)
	args := []string{"12"} // two of each connection, and of the datagrams
	if b.isIPv6() {
		args = append(args, "ipv6")
	}
	r := b.shadow(t, 0, args...).result(t, func() error {
		if err := exchange(); err != nil {
			return err
		}
		return b.connect(to)
	})
	if r.Flows < 12 || r.IsDifferent() || r.NotForwarded() > 0 || r.In.Equal < 1000 || r.Out.Equal+r.Out.Different > 0 {
		t.Errorf("found %+v", r)
	}
}
