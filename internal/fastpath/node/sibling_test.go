package node_test

import (
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/agenttest"
	"github.com/venturi-net/venturi/internal/testenv/traffic"
)

const (
	clientSibling = "10.244.1.2" // the first node's pod
	podSibling    = "10.244.1.3" // another one of the same node
	portSibling   = "10.244.1.3:7777"
)

type siblingWiring struct {
	wiring
	add      string // what adds the second pod to the first node
	services bool   // the replies of a Service find their way back
}

// siblingWirings are those of nodes with several pods. A bridge leads packets of its pods to each other
// past the rules for IPv4, or has them meet these.
var siblingWirings = []siblingWiring{
	{wirings[0], "ip link set veth9 master cni0", true},
	{wiring{"bridge without rules", wirings[1].node + "; for f in /proc/sys/net/bridge/bridge-nf-call-iptables; do if [ -e $f ]; then echo 0 > $f; fi; done", bridgedPod}, "ip link set veth9 master cni0", false},
	{wirings[2], "echo 1 > /proc/sys/net/ipv4/conf/veth9/proxy_arp; echo 0 > /proc/sys/net/ipv4/neigh/veth9/proxy_delay; ip route add 10.244.1.3/32 dev veth9 scope link", true},
	{wirings[4], "ip addr add 10.244.1.1/32 dev veth9; ip route add 10.244.1.3/32 dev veth9 src 10.244.1.1", true},
}

// siblingWiringsHere are those for this machine. In a guest, bridges ask no rules, and its CPU takes its time.
func siblingWiringsHere() []siblingWiring {
	if agenttest.InGuest() {
		return siblingWirings[1:3]
	}
	return siblingWirings
}

// siblingNode has a second pod on the first node.
type siblingNode struct {
	*cluster
	pod *netcfg.Namespace
}

func newSibling(t *testing.T, onNode, inPod, add string) *siblingNode {
	t.Helper()
	b := &siblingNode{cluster: newCluster(t, onNode, inPod)}
	w, err := netcfg.Owned(testenv.Claim(t))
	testenv.Must(t, err)
	b.pod, err = w.Create(w.Name("sibling"))
	testenv.Must(t, err)
	t.Cleanup(b.pod.Close)
	testenv.Shell(t, b.nodes[0].Path(), "ip link add veth9 type veth peer name eth0 netns "+b.pod.Name()+"; ip link set veth9 up; "+add)
	words := strings.NewReplacer("10.244.I.2", podSibling, "I", "1", "J", "2")
	testenv.Shell(t, b.pod.Path(), "echo 1 > /proc/sys/net/ipv6/conf/eth0/disable_ipv6; ip link set lo up; ip link set eth0 address 02:00:00:00:ee:03 up;"+words.Replace(inPod))
	b.serve(t)
	return b
}

// serve answers in the second pod, over UDP and TCP.
func (b *siblingNode) serve(t *testing.T) {
	t.Helper()
	server := b.openUDP(t, b.pod, portSibling, "")
	t.Cleanup(traffic.EchoUDP(server))
	serveTCP(t, b.pod, portSibling)
}

// flow opens a UDP flow to an address that leads to the second pod, and waits for the first answer: links
// that were just set up may lose what is sent.
func (b *siblingNode) flow(t *testing.T, to string) (exchange func() error) {
	t.Helper()
	send := b.exchanges(t, to)
	err := send(testenv.Timeout / 20)
	for end := time.Now().Add(testenv.Timeout); err != nil && time.Now().Before(end); {
		err = send(testenv.Timeout / 20)
	}
	testenv.Must(t, err)
	return func() error { return send(testenv.Timeout) }
}

// connect carries content over TCP to an address that leads to the second pod, and back.
func (b *siblingNode) connect(to string) error {
	return host.Do(b.pods[0].Path(), func() error {
		return traffic.CarryTCP(netip.MustParseAddr(clientSibling), netip.MustParseAddrPort(to))
	})
}

// learnNeighbours has the node know its pods: each has sent something to it.
func (b *siblingNode) learnNeighbours(t *testing.T) {
	t.Helper()
	for _, pod := range []*netcfg.Namespace{b.pods[0], b.pod} {
		conn := b.openUDP(t, pod, ":0", "192.0.10.1:9")
		_, err := conn.Write([]byte{1})
		testenv.Must(t, err)
	}
}

// untilAllCarried exchanges until all packets of fifty exchanges are carried, both ways.
func (b *siblingNode) untilAllCarried(t *testing.T, exchange func() error) {
	t.Helper()
	const round = 50
	for end := time.Now().Add(testenv.Timeout); ; time.Sleep(10 * time.Millisecond) {
		before, _ := b.carried(t, 0)
		for range round {
			testenv.Must(t, exchange())
		}
		now, _ := b.carried(t, 0)
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
	was, _ := b.carried(t, 0)
	for end := time.Now().Add(testenv.Timeout); ; {
		testenv.Must(t, b.connect(to))
		now, _ := b.carried(t, 0)
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
	for _, w := range siblingWiringsHere() {
		t.Run(w.name, func(t *testing.T) {
			b := newSibling(t, w.node, w.pod, w.add)
			b.learnNeighbours(t)
			exchange := b.flow(t, portSibling)
			before := b.snapshot(t, 0)
			cmd := b.enable(t, 0, "0")
			b.untilRunning(t, 0, true)
			flushConntrack(t, b.nodes[0])
			b.untilAllCarried(t, exchange)
			b.untilConnectionsCarried(t, portSibling)
			testenv.Must(t, cmd.Process.Signal(syscall.SIGTERM))
			testenv.Must(t, cmd.Wait())
			b.check(t, 0, before)
			testenv.Must(t, exchange())
		})
	}
}

// The same through a Service whose pod is a sibling of its client, with the rules of kube-proxy. What a pod
// sends to a Service of its own stays slow.
func TestEnableSiblingServices(t *testing.T) {
	for _, w := range siblingWiringsHere() {
		for _, proxy := range proxies {
			if !w.services {
				continue
			}
			t.Run(w.name+", "+proxy.name, func(t *testing.T) {
				b := newSibling(t, w.node, w.pod, w.add)
				b.learnNeighbours(t)
				rules := strings.ReplaceAll(proxy.rules(0), "10.244.2.2", podSibling)
				b.loadProxy(t, 0, rules, proxy.program)
				exchange := b.flow(t, serviceAddress)
				b.enable(t, 0, "0")
				b.untilRunning(t, 0, true)
				flushConntrack(t, b.nodes[0])
				b.untilAllCarried(t, exchange)
				b.untilConnectionsCarried(t, serviceAddress)
				b.loadProxy(t, 0, strings.ReplaceAll(proxy.rules(1000), "10.244.2.2", podSibling), proxy.program)
				testenv.Must(t, exchange())
				b.untilAllCarried(t, exchange)
			})
		}
	}
}

// What would be carried between pods of one node is what the network hands on, to the byte.
func TestShadowSibling(t *testing.T) {
	for _, w := range siblingWiringsHere() {
		for _, to := range []string{portSibling, serviceAddress} {
			if to == serviceAddress && !w.services {
				continue
			}
			t.Run(w.name+", "+to, func(t *testing.T) {
				b := newSibling(t, w.node, w.pod, w.add)
				b.learnNeighbours(t)
				b.loadProxy(t, 0, strings.ReplaceAll(iptablesProxy(0), "10.244.2.2", podSibling), proxies[0].program)
				exchange := b.flow(t, to)
				s := b.shadow(t, 0, "12") // two of each connection, and of the datagrams
				r := s.result(t, func() error {
					if err := exchange(); err != nil {
						return err
					}
					return b.connect(to)
				})
				if r.Flows < 12 || r.IsDifferent() || r.In.Equal < 1000 || r.Out.Equal+r.Out.Different > 0 {
					t.Errorf("found %+v", r)
				}
			})
		}
	}
}
