package node_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/fastpath/node"
	"github.com/venturi-net/venturi/internal/feature"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/journal"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/agenttest"
	"github.com/venturi-net/venturi/internal/testenv/fastpathtest"
)

// cluster is two nodes that are wired as by a CNI plugin, each with a pod.
type cluster struct {
	nodes, pods [2]*netcfg.Namespace
	journals    [2]string
}

// wiring is what is done on node I, whose peer is node J, and in its pod.
type wiring struct{ name, node, pod string }

var wirings = []wiring{
	{"Flannel vxlan", bridged + `
		ip link add flannel.1 address 02:00:00:00:cc:0I mtu 1450 type vxlan id 1 dstport 8472 local 192.0.10.I dev eth0 nolearning
		ip addr add 10.244.I.0/32 dev flannel.1
		ip link set flannel.1 up
		ip neigh add 10.244.J.0 lladdr 02:00:00:00:cc:0J dev flannel.1 nud permanent
		bridge fdb add 02:00:00:00:cc:0J dev flannel.1 dst 192.0.10.J
		ip route add 10.244.J.0/24 via 10.244.J.0 dev flannel.1 onlink`, bridgedPod},
	{"Flannel host-gw", bridged + "ip route add 10.244.J.0/24 via 192.0.10.J dev eth0", bridgedPod},
	{"Calico without encapsulation", routed + `
		ip route add blackhole 10.244.I.0/26 proto bird
		ip route add 10.244.J.0/26 via 192.0.10.J dev eth0 proto bird`, routedPod},
	{"Calico VXLAN", routed + `
		ip link add vxlan.calico address 02:00:00:00:cc:0I mtu 1450 type vxlan id 4096 dstport 4789 local 192.0.10.I dev eth0 nolearning
		ip addr add 10.244.I.0/32 dev vxlan.calico
		ip link set vxlan.calico up
		ip neigh add 10.244.J.0 lladdr 02:00:00:00:cc:0J dev vxlan.calico nud permanent
		bridge fdb add 02:00:00:00:cc:0J dev vxlan.calico dst 192.0.10.J
		ip route add 10.244.J.0/26 via 10.244.J.0 dev vxlan.calico onlink`, routedPod + "; ip link set eth0 mtu 1450"},
	{"plugin ptp", `
		ip addr add 10.244.I.1/32 dev veth0
		ip route add 10.244.I.2/32 dev veth0 src 10.244.I.1
		ip route add 10.244.J.0/24 via 192.0.10.J dev eth0`, `
		ip addr add 10.244.I.2/24 dev eth0
		ip route del 10.244.I.0/24 dev eth0
		ip route add 10.244.I.1/32 dev eth0
		ip route add 10.244.I.0/24 via 10.244.I.1
		ip route add default via 10.244.I.1`},
}

// calicoIPIP is by tunl0, which the kernel makes with the first ipip device.
var calicoIPIP = wiring{"Calico IPIP", routed + `
		ip link add ipip9 type ipip local 192.0.10.9
		ip link del ipip9
		ip link set tunl0 mtu 1480 up
		ip addr add 10.244.I.0/32 dev tunl0
		ip route add blackhole 10.244.I.0/26 proto bird
		ip route add 10.244.J.0/26 via 192.0.10.J dev tunl0 proto bird onlink`, routedPod + "; ip link set eth0 mtu 1480"}

// geneveMesh has a geneve device to each other node, and finds the MAC of its other end by ARP.
var geneveMesh = wiring{"Geneve", bridged + `
		ip link add geneveJ address 02:00:00:00:cc:0I mtu 1450 type geneve id 7 remote 192.0.10.J
		ip addr add 10.255.0.I/24 dev geneveJ
		ip link set geneveJ up
		ip route add 10.244.J.0/24 via 10.255.0.J dev geneveJ`, bridgedPod}

// supportedWirings are those that this kernel has devices for; in a guest, those that it has for them
// alone.
func supportedWirings() []wiring {
	var tunnels []wiring
	if answer, _ := feature.IPIP.Ask(); answer == feature.Yes {
		tunnels = append(tunnels, calicoIPIP)
	}
	if answer, _ := feature.Geneve.Ask(); answer == feature.Yes {
		tunnels = append(tunnels, geneveMesh)
	}
	if agenttest.InGuest() && len(tunnels) > 0 {
		return tunnels
	}
	return slices.Concat(wirings, tunnels)
}

const (
	bridged = `
		ip link add cni0 address 02:00:00:00:dd:0I mtu 1450 type bridge
		ip addr add 10.244.I.1/24 dev cni0
		ip link set cni0 up
		ip link set veth0 master cni0
	`
	bridgedPod = `
		ip link set eth0 mtu 1450
		ip addr add 10.244.I.2/24 dev eth0
		ip route add default via 10.244.I.1`
	routed = `
		ip route add default via 192.0.10.J dev eth0
		echo 1 > /proc/sys/net/ipv4/conf/veth0/proxy_arp
		echo 0 > /proc/sys/net/ipv4/neigh/veth0/proxy_delay
		ip route add 10.244.I.2/32 dev veth0 scope link
	`
	routedPod = `
		ip addr add 10.244.I.2/32 dev eth0
		ip route add 169.254.1.1 dev eth0 scope link
		ip route add default via 169.254.1.1 dev eth0`
)

func newCluster(t *testing.T, onNode, inPod string) *cluster {
	t.Helper()
	testenv.Root(t)
	if answer, err := feature.Programs.Ask(); answer != feature.Yes {
		t.Skipf("this kernel has no fast path: %v", err)
	}
	w, err := netcfg.Owned(testenv.Claim(t))
	testenv.Must(t, err)
	c := &cluster{}
	for i := range c.nodes {
		c.journals[i] = filepath.Join(t.TempDir(), "journal")
		for name, n := range map[string]**netcfg.Namespace{"node": &c.nodes[i], "pod": &c.pods[i]} {
			*n, err = w.Create(w.Name(fmt.Sprint(name, i)))
			testenv.Must(t, err)
			t.Cleanup((*n).Close)
		}
		// A test that was killed leaves its folder, and namespaces' numbers are used again.
		id, err := host.ID(c.nodes[i].Path())
		testenv.Must(t, err)
		testenv.Must(t, os.RemoveAll(filepath.Join(node.Root, fmt.Sprint(id.Ino))))
		for _, n := range []*netcfg.Namespace{c.nodes[i], c.pods[i]} {
			testenv.Shell(t, n.Path(), "echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6; echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6")
		}
		testenv.Shell(t, c.nodes[i].Path(), "ip link add veth0 type veth peer name eth0 netns "+c.pods[i].Name())
	}
	testenv.Shell(t, c.nodes[0].Path(), "ip link add eth0 type veth peer name eth0 netns "+c.nodes[1].Name())
	for i := range c.nodes {
		words := strings.NewReplacer("I", fmt.Sprint(i+1), "J", fmt.Sprint(2-i))
		testenv.Shell(t, c.pods[i].Path(), "ip link set lo up; ip link set eth0 up;"+words.Replace(inPod))
		testenv.Shell(t, c.nodes[i].Path(), words.Replace(`
			ip link set lo up
			echo 1 > /proc/sys/net/ipv4/ip_forward
			ip addr add 192.0.10.I/24 dev eth0
			ip link set eth0 up
			ip link set veth0 up
		`+onNode))
		flushConntrack(t, c.nodes[i]) // every node tracks connections: this loads the module, whose sysctls are new
	}
	return c.describeIfFailed(t)
}

// enable starts the process of a node, and gives what ends it by a signal, or waits for its end.
func (c *cluster) enable(t *testing.T, i int, trial string) *exec.Cmd {
	t.Helper()
	return c.start(t, i, new(syscall.SysProcAttr), trial)
}

// enableFilters does so with tc filters, and with mounts of its own, as in a container.
func (c *cluster) enableFilters(t *testing.T, i int) *exec.Cmd {
	t.Helper()
	return c.start(t, i, &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}, "0", "filters")
}

func (c *cluster) start(t *testing.T, i int, how *syscall.SysProcAttr, args ...string) *exec.Cmd {
	t.Helper()
	return c.startRole(t, i, "enable", t.Output(), how, args...)
}

// startRole starts a process of this test on a node.
func (c *cluster) startRole(t *testing.T, i int, role string, out io.Writer, how *syscall.SysProcAttr, args ...string) *exec.Cmd {
	t.Helper()
	command := testenv.RoleCommand(t, role)
	cmd := exec.Command(command[0], slices.Concat(command[1:], []string{c.journals[i]}, args)...)
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = out, t.Output(), how
	testenv.Must(t, host.Do(c.nodes[i].Path(), cmd.Start))
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if err := c.disable(t, i); err != nil {
			t.Errorf("disable: %v", err)
		}
	})
	return cmd
}

func (c *cluster) disable(t *testing.T, i int) error {
	t.Helper()
	j, err := openJournal(c.journals[i])
	if err != nil {
		return err
	}
	defer j.Close()
	_, err = j.Undo(nil, journal.UndoOptions{})
	return err
}

// status is that of a node, without what stands in tables.
func (c *cluster) status(t *testing.T, i int) (s node.Status) {
	t.Helper()
	testenv.InNetns(t, c.nodes[i].Path(), func() (err error) {
		s, err = node.ReadStates()
		return err
	})
	return s
}

// wholeStatus is all of it, with the flows of pods and peers.
func (c *cluster) wholeStatus(t *testing.T, i int) (s node.Status) {
	t.Helper()
	testenv.InNetns(t, c.nodes[i].Path(), func() (err error) {
		s, err = node.ReadStatus()
		return err
	})
	return s
}

// carried is how many packets a node has carried out of its pod and into it.
func (c *cluster) carried(t *testing.T, i int) (out, in uint64) {
	t.Helper()
	return carriedOf(c.status(t, i).Stats)
}

// carriedOf are the packets that were carried out of a node's pod and into it.
func carriedOf(stats []fastpath.Stat) (out, in uint64) {
	for _, s := range stats {
		switch s.Count {
		case bpf.CarriedOut:
			out = s.Packets
		case bpf.CarriedIn:
			in = s.Packets
		}
	}
	return out, in
}

// flow opens a UDP flow between the pods in which each datagram is answered. exchange sends
// one, and waits for the answer.
func (c *cluster) flow(t *testing.T) (exchange func() error) { return c.flowTo(t, "10.244.2.2:7777") }

// flowTo is the same, to an address that leads to the second pod.
func (c *cluster) flowTo(t *testing.T, address string) (exchange func() error) {
	t.Helper()
	c.answer(t)
	send := c.exchanges(t, address)
	return func() error { return send(testenv.Timeout) }
}

// flow6 begins a flow over IPv6 between the pods: each call is an exchange.
func (c *cluster) flow6(t *testing.T) func() error {
	t.Helper()
	c.answerAt(t, "[fd00:f4:2::2]:7777")
	send := c.exchangesFrom(t, "[fd00:f4:1::2]:0", "[fd00:f4:2::2]:7777")
	return func() error { return send(testenv.Timeout) }
}

// answer has the second pod answer datagrams.
func (c *cluster) answer(t *testing.T) {
	t.Helper()
	c.answerAt(t, podPort)
}

// answerAt does so at an address.
func (c *cluster) answerAt(t *testing.T, address string) {
	t.Helper()
	server := c.openUDP(t, c.pods[1], address, "")
	go func() {
		buf := make([]byte, 64)
		for {
			n, from, err := server.ReadFromUDPAddrPort(buf)
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err == nil {
				_, _ = server.WriteToUDPAddrPort(buf[:n], from)
			}
		}
	}()
}

// openUDP opens a socket in a namespace, which is connected if there is a remote address.
func (c *cluster) openUDP(t *testing.T, n *netcfg.Namespace, local, remote string) (conn *net.UDPConn) {
	t.Helper()
	network := "udp4"
	if strings.HasPrefix(local, "[") {
		network = "udp6"
	}
	testenv.InNetns(t, n.Path(), func() error {
		from, err := net.ResolveUDPAddr(network, local)
		testenv.Must(t, err)
		if remote == "" {
			conn, err = net.ListenUDP(network, from)
			return err
		}
		to, err := net.ResolveUDPAddr(network, remote)
		testenv.Must(t, err)
		conn, err = net.DialUDP(network, from, to)
		return err
	})
	t.Cleanup(func() { conn.Close() })
	return conn
}

// exchanges opens a UDP flow from the first pod to an address. exchange sends a datagram, and waits for
// the answer to it.
func (c *cluster) exchanges(t *testing.T, address string) (exchange func(wait time.Duration) error) {
	t.Helper()
	return c.exchangesFrom(t, "10.244.1.2:0", address)
}

// exchangesFrom does so from an address of that pod.
func (c *cluster) exchangesFrom(t *testing.T, local, address string) (exchange func(wait time.Duration) error) {
	t.Helper()
	client := c.openUDP(t, c.pods[0], local, address)
	number := uint64(0)
	return func(wait time.Duration) error {
		number++
		ping := binary.BigEndian.AppendUint64(nil, number)
		if err := client.SetReadDeadline(time.Now().Add(wait)); err != nil {
			return err
		}
		if _, err := client.Write(ping); err != nil {
			return err
		}
		for buf := make([]byte, 64); ; {
			n, err := client.Read(buf)
			if err != nil || string(buf[:n]) == string(ping) {
				return err
			}
		}
	}
}

// untilCarried exchanges until both nodes have carried a hundred more packets both ways.
func (c *cluster) untilCarried(t *testing.T, exchange func() error) {
	t.Helper()
	c.untilCounted(t, c.carried, exchange)
}

// untilCounted does so by what carried counts.
func (c *cluster) untilCounted(t *testing.T, carried func(t *testing.T, i int) (out, in uint64), exchange func() error) {
	t.Helper()
	var before [2][2]uint64
	for i := range c.nodes {
		before[i][0], before[i][1] = carried(t, i)
	}
	for end := time.Now().Add(testenv.Timeout); ; {
		for range 50 {
			testenv.Must(t, exchange())
		}
		least := ^uint64(0)
		for i := range c.nodes {
			out, in := carried(t, i)
			least = min(least, out-before[i][0], in-before[i][1])
		}
		if least >= 100 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("after %v, %d packets are carried on some way; %+v; %+v", testenv.Timeout, least, c.status(t, 0), c.status(t, 1))
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// snapshot is what there is on a node, one thing a line.
func (c *cluster) snapshot(t *testing.T, i int) string {
	t.Helper()
	return fastpathtest.NodeState(t, c.nodes[i].Path(), func(script string) (text string) {
		testenv.InNetns(t, c.nodes[i].Path(), func() error {
			out, err := exec.Command("sh", "-c", script).CombinedOutput()
			text = string(out)
			return err
		})
		return text
	})
}

// check compares a node with what it was.
func (c *cluster) check(t *testing.T, i int, before string) {
	t.Helper()
	fastpathtest.WaitUsualRCU(t)
	now := c.snapshot(t, i)
	if now == before {
		return
	}
	t.Errorf("node %d is not as it was:\n%s", i, testenv.Difference(before, now))
}
