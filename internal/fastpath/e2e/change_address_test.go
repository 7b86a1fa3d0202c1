package e2e

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/traffic"
)

// move is how the address of the second machine's pod comes to another pod.
type move struct {
	name    string
	machine int    // machine of the new pod
	path    string // as of a situation
	// What is done there when the new pod's link is made, its port being new{n}, and
	// undone: see [placeholders]. The old pod lives on.
	do, undo string
	old      fate // of what the old pod sends, which still believes that it has the address
}

const movedMAC = "02:76:00:00:01:01"

// moves are tried in this order. The last takes the old pod's link away for good.
var moves = []move{
	{
		name: "to the same machine", machine: 1, path: "vxlan geneve", old: delivered,
		do: `ip link set new{n} master {gate}
			ip neigh replace {pod} lladdr ` + movedMAC + ` dev {gate} nud permanent`,
		undo: `ip neigh replace {pod} lladdr {podmac} dev {gate} nud permanent`,
	},
	{
		name: "to the same machine", machine: 1, path: "routed ipip", old: dropped, // what its port does not lead to
		do: `ip route replace {pod} dev new{n}
			ip neigh replace {pod} lladdr ` + movedMAC + ` dev new{n} nud permanent`,
		undo: `ip route replace {pod} dev {port}`,
	},
	{
		name: "to the other machine", machine: 0, path: "vxlan geneve", old: delivered,
		do: `ip link set new{n} master {gate}
			ip neigh replace {peer} lladdr ` + movedMAC + ` dev {gate} nud permanent
			ip route add {peer} dev {gate}`,
		// The pod was told to speak with its neighbour itself, and would go on to.
		undo: `ip route del {peer} dev {gate}; ip neigh del {peer} dev {gate}
			nsenter --net={podns} ip route flush cache`,
	},
	{
		name: "to the other machine", machine: 0, path: "routed ipip", old: delivered,
		do: `ip neigh replace {peer} lladdr ` + movedMAC + ` dev new{n} nud permanent
			ip route add {peer} dev new{n}`,
		undo: `ip route del {peer} dev new{n}`,
	},
	{
		name: "under the same name", machine: 1, path: "vxlan geneve", old: dropped,
		do: `ip link del {port}
			ip link set new{n} down
			ip link set new{n} name {port} master {gate} up
			ip neigh replace {pod} lladdr ` + movedMAC + ` dev {gate} nud permanent`,
	},
	{
		name: "under the same name", machine: 1, path: "routed ipip", old: dropped,
		do: `ip link del {port}
			ip link set new{n} down
			ip link set new{n} name {port} up
			ip neigh replace {pod} lladdr ` + movedMAC + ` dev {port} nud permanent
			ip route replace {pod} dev {port}`,
	},
}

// When a pod's address is given to another pod, packets of a flow that was carried
// reach the new pod and no more the old one.
func TestFastPathFollowsAddresses(t *testing.T) {
	requireFastPath(t)
	requireTools(t)
	paths := twins(withTunnels(basicFastPaths...))
	for _, services := range []int{0, 30} {
		l, flows := steadyLab(t, services, paths...)
		for _, m := range moves {
			if isForAny(m.path, paths) {
				t.Run(m.name+" "+m.path, func(t *testing.T) { m.check(t, l, flows) })
			}
		}
	}
}

func (m move) check(t *testing.T, l *lab.Lab, flows []*steady) {
	paths := watchPaths(t, l, flows, m.machine, m.path)
	checkWorking(t, paths)
	node := l.Machines[m.machine]
	var expected []expectation
	var pods []host.Endpoint
	for _, w := range paths {
		pod := m.newPod(t, l, w)
		there := &stream{sender: w.flow.ab.sender}
		again := listenAt(t, pod, addrPort(w.flow.b))
		t.Cleanup(receiving(there, again, addrPort(w.flow.a)))
		expected = append(expected, expectation{&w.flow.ab, dropped, w.Path + " to the old pod"},
			expectation{there, delivered, w.Path + " to the new pod"}, expectation{&w.flow.ba, m.old, w.Path + " from the old pod"})
		pods = append(pods, pod)
	}
	shell(t, node, paths, m.do)
	moved := time.Now()
	settled := waitAll(t, expected, moved)
	for _, w := range expected {
		t.Logf("%s: took hold after %v", w.name, w.way.last(!w.want, moved, settled))
	}
	waitAll(t, expected, moved)
	for _, w := range expected { // and so it stays
		if of := w.way.count(settled, time.Now()); w.want == dropped && of[delivered] > 0 {
			t.Errorf("%s: %d datagrams were delivered after all", w.name, of[delivered])
		}
	}
	if m.undo != "" {
		shell(t, node, paths, m.undo)
		checkWorking(t, paths)
		return
	}
	for i, w := range paths { // the fast path knows the new pod
		server, c := serve(t, pods[i]), clientAt(t, w.Client())
		carriedNow(t, w.Arm, func() { c.ask(t, server, 1) }, 0, 1, 2, 3)
	}
}

// newPod makes the pod that is to have the address, and its link.
func (m move) newPod(t *testing.T, l *lab.Lab, w watched) host.Endpoint {
	t.Helper()
	writer, err := netcfg.Owned(l.Name)
	testenv.Must(t, err)
	node := l.Machines[m.machine]
	n, err := writer.Create(writer.Name(node.Name + ".new" + w.words.Replace("{n}")))
	testenv.Must(t, err)
	t.Cleanup(func() {
		n.Close()
		testenv.Must(t, writer.Delete(n.Name()))
	})
	pod := host.Endpoint{Namespace: n.Path(), Addr: w.Server().Addr}
	here := []watched{w}
	shell(t, node, here, `ip link add new{n} mtu {podmtu} type veth peer name eth0 address `+movedMAC+` netns `+n.Path()+`
		[ {gate} != {port} ] || ip link set new{n} address {gatemac}
		ip link set new{n} up
		nsenter --net=`+n.Path()+` sh -c 'ip link set eth0 up
			ip addr add `+pod.Addr.String()+`/32 dev eth0
			ip route add 169.254.1.1 dev eth0; ip route add default via 169.254.1.1 dev eth0
			ip neigh add 169.254.1.1 lladdr {gatemac} dev eth0 nud permanent'`)
	return pod
}

// listenAt opens a socket at an address and port of a pod.
func listenAt(t testing.TB, at host.Endpoint, addr netip.AddrPort) (c *net.UDPConn) {
	t.Helper()
	testenv.Must(t, host.Do(at.Namespace, func() (err error) {
		c, err = net.ListenUDP("udp4", net.UDPAddrFromAddrPort(addr))
		return err
	}))
	testenv.Must(t, traffic.SetSocketOption(c, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 4<<20))
	return c
}

// receiving notes what arrives at a socket, until stop closes it.
func receiving(s *stream, at *net.UDPConn, from netip.AddrPort) (stop func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.receive(at, from)
	}()
	return func() { at.Close(); <-done }
}
