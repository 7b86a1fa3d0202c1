package node_test

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/gopacket/gopacket/layers"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/agenttest"
)

// nodePods6 are the addresses of the pods of two nodes.
var nodePods6 = podPair{netip.MustParseAddr("fd00:f4:1::2"), netip.MustParseAddr("fd00:f4:2::2"), "fd00:c8::1"}

// MACs of the nodes on the wire, and of their tunnels over IPv6. The last ones are of another peer of the second node.
var (
	wireMACs   = [3]net.HardwareAddr{{2, 0, 0, 0, 0xc8, 1}, {2, 0, 0, 0, 0xc8, 2}, {2, 0, 0, 0, 0xc8, 9}}
	tunnelMACs = [3]net.HardwareAddr{{2, 0, 0, 0, 0xc6, 1}, {2, 0, 0, 0, 0xc6, 2}, {2, 0, 0, 0, 0xc6, 9}}
)

// tunnelLen is that of the headers around a frame in a tunnel: Ethernet, IPv6, UDP and VXLAN.
const tunnelLen = ethLen + ip6Len + 8 + 8

// replayWiring is one of dualStack.
type replayWiring struct {
	wiring
	routed  bool   // to single pods
	tracked bool   // connections are
	tunnel  string // its device
	port    layers.UDPPort
}

var replayWirings6 = []replayWiring{
	{wiring: dualStack[0], tracked: true},
	{wiring: dualStack[1], routed: true},
	{wiring: dualStack[2], tunnel: "flannel-v6.1", port: 8472},
	{wiring: dualStack[3], routed: true, tracked: true, tunnel: "vxlan-v6.calico", port: 4789},
}

// scene is two nodes, of which some have a fast path.
func (w replayWiring) scene(t *testing.T, name string, fast [2]bool) *replayScene {
	t.Helper()
	script := w.node + wire6 + "ip link set eth0 address 02:00:00:00:c8:0I\n"
	if w.tracked {
		script += tracked6 + "\n"
	}
	c := newCluster(t, script, w.pod)
	testenv.Shell(t, c.pods[1].Path(), "ip link set eth0 address "+serverMAC.String())
	c.answerAt(t, nodePods6.server())
	s := newReplayScene(t, c, nodePods6, c.pods[1], nodePods6.server(), w.routed)
	s.name, s.tunnelPort, s.padded = name, w.port, true
	s.senders[byNode], s.taps["wire"] = s.open(c.nodes[0]), s.open(c.nodes[1])
	// The other peer is there, but never answers.
	other := "ip neigh add fd00:c8::9 lladdr 02:00:00:00:c8:09 dev eth0 nud permanent\n"
	if w.port == 0 {
		other += "ip route add fd00:f4:9::/64 via fd00:c8::9 dev eth0"
	} else {
		other += strings.ReplaceAll(`ip neigh add fd00:f4:9:: lladdr 02:00:00:00:c6:09 dev DEVICE nud permanent
			bridge fdb add 02:00:00:00:c6:09 dev DEVICE dst fd00:c8::9
			ip route add fd00:f4:9::/64 via fd00:f4:9:: dev DEVICE onlink`, "DEVICE", w.tunnel)
	}
	testenv.Shell(t, c.nodes[1].Path(), other)
	// The first pod can send what is too large for the wire, and the second cannot get what is not.
	for _, end := range []struct{ pod, node, mtu string }{{c.pods[0].Path(), c.nodes[0].Path(), "1600"}, {c.pods[1].Path(), c.nodes[1].Path(), "1400"}} {
		testenv.Shell(t, end.node, "ip link set veth0 mtu "+end.mtu)
		// Fragments that never become whole are told of when they are given up.
		testenv.Shell(t, end.pod, "ip link set eth0 mtu "+end.mtu+"; echo 3600 > /proc/sys/net/ipv6/ip6frag_time")
		testenv.Shell(t, end.node, "for f in /proc/sys/net/netfilter/nf_conntrack_frag6_timeout; do if [ -e $f ]; then echo 3600 > $f; fi; done")
	}
	s.warm() // now the neighbours are known
	for i, on := range fast {
		if on {
			c.start(t, i, new(syscall.SysProcAttr), "0", "only6")
			c.untilNodeAttached(t, i, false)
		}
	}
	s.counts = func(by sender) (all []uint64) {
		for i := int(by); i < len(fast); i++ {
			if fast[i] {
				stats, err := fastpath.ReadStats(c.pins6(t, i))
				testenv.Must(t, err)
				out, in := carriedOf(stats)
				all = append(all, [2]uint64{out, in}[i])
			}
		}
		return all
	}
	for _, n := range c.nodes {
		flushConntrack(t, n)
	}
	return s
}

// leaveUnanswered has all later cases send packets of a flow that the second pod does not answer.
func (s *replayScene) leaveUnanswered() {
	const port = answeredPort + 1
	s.to, s.unanswered = netip.AddrPortFrom(s.podAddr, port).String(), true
	s.openUDP(s.t, s.pods[1], s.to, "")
}

// forward makes a packet one that the first node has sent to the second.
func (s *replayScene) forward(p *replayPacket) {
	p.ip6.HopLimit--
	p.eth.SrcMAC, p.eth.DstMAC = wireMACs[0], wireMACs[1]
	if s.tunnelPort == 0 {
		return
	}
	p.tunnel = &replayPacket{
		eth: p.eth, ip: layers.IPv4{Protocol: layers.IPProtocolUDP},
		ip6:     &layers.IPv6{Version: 6, HopLimit: 64, SrcIP: net.ParseIP("fd00:c8::1"), DstIP: net.ParseIP("fd00:c8::2")},
		udp:     layers.UDP{SrcPort: 50000, DstPort: s.tunnelPort},
		payload: []byte{1 << 3, 0, 0, 0, 0, 0, 1, 0}, // the header of VXLAN: there is a VNI, and it is 1
	}
	p.eth.SrcMAC, p.eth.DstMAC = tunnelMACs[0], tunnelMACs[1]
}

// hopMACs are the MACs between which a packet is on the wire, or in the tunnel.
func (p *replayPacket) hopMACs() [3]net.HardwareAddr {
	if p.tunnel != nil {
		return tunnelMACs
	}
	return wireMACs
}

// nodeReplays6 are more frames of the first pod, for one on another node.
var nodeReplays6 = slices.Concat([]replayedFrame{
	{name: "ECT(0)", change: func(_ *replayScene, p *replayPacket) { p.ip6.TrafficClass = 2 }, carried: true},
	{name: "ECT(1)", change: func(_ *replayScene, p *replayPacket) { p.ip6.TrafficClass = 1 }, carried: true},
	{name: "class and congestion", change: func(_ *replayScene, p *replayPacket) { p.ip6.TrafficClass = 0x2f }, carried: true},
	{name: "first fragment", change: func(_ *replayScene, p *replayPacket) { p.payload = make([]byte, 64) }, bytes: withHeader(fragmentHeader, 0, 0, 1, 0, 0, 0, 9)},
	{name: "length of UDP zero", bytes: func(f []byte) []byte { f[ethLen+ip6Len+4], f[ethLen+ip6Len+5] = 0, 0; return f }},
	{name: "length of UDP too short", bytes: func(f []byte) []byte { f[ethLen+ip6Len+5]--; return f }},
	{name: "longer than it is", bytes: func(f []byte) []byte { f[ethLen+5]++; return f }},
	{name: "shorter than it is", bytes: func(f []byte) []byte { f[ethLen+5]--; return f }},
	{name: "echo", change: func(_ *replayScene, p *replayPacket) {
		p.ip.Protocol, p.icmp6.TypeCode = layers.IPProtocolICMPv6, layers.CreateICMPv6TypeCode(layers.ICMPv6TypeEchoRequest, 0)
	}},
}, sources6("::", "::1", "::ffff:10.244.1.2", "ff02::1", "fd00:c8::1", "fd00:c8::2", "fd00:f4:2::2", "2001:db8::1"),
	destinations6("::1", "ff02::1", "ff0e::1", "fd00:c8::1", "fd00:c8::2", "fd00:f4:1::2", "2001:db8::1"),
	nextHeaders6(4, 41, 47, 50, 51, 58, 59, 132, 135, 136, 253, 255))

// tooLarge6 are those that do not fit on the way, and so never come by the wire.
var tooLarge6 = []replayedFrame{
	{name: "too large for the tunnel", change: func(_ *replayScene, p *replayPacket) { p.payload = make([]byte, 1431-48) }},
	{name: "too large for the wire", change: func(_ *replayScene, p *replayPacket) { p.payload = make([]byte, 1501-48) }},
	{name: "large one whose parts are too large for the wire", change: func(_ *replayScene, p *replayPacket) { p.payload = make([]byte, 5000) }, bytes: partialSum6,
		offload: offload{Flags: needsSum, GSO: gsoUDP, HeaderLen: ethLen + ip6Len + 8, Size: 1480, SumStart: ethLen + ip6Len, SumOffset: 6}},
}

func sources6(addrs ...string) (cases []replayedFrame) {
	for _, addr := range addrs {
		cases = append(cases, replayedFrame{name: "from " + addr, change: func(_ *replayScene, p *replayPacket) { p.ip6.SrcIP = net.ParseIP(addr).To16() }})
	}
	return cases
}

func destinations6(addrs ...string) (cases []replayedFrame) {
	for _, addr := range addrs {
		cases = append(cases, replayedFrame{name: "to " + addr, change: func(_ *replayScene, p *replayPacket) { p.ip6.DstIP = net.ParseIP(addr).To16() }})
	}
	return cases
}

func nextHeaders6(kinds ...byte) (cases []replayedFrame) {
	for _, kind := range kinds {
		cases = append(cases, replayedFrame{name: fmt.Sprint("next header ", kind), bytes: func(f []byte) []byte { f[ethLen+6] = kind; return f }})
	}
	return cases
}

// wireReplays6 are what comes to the second node by the wire. Those of pods do, too.
var wireReplays6 = []replayedFrame{
	{name: "from the other peer's MAC", change: func(_ *replayScene, p *replayPacket) { p.eth.SrcMAC = p.hopMACs()[2] }, slow: true},
	{name: "from the node's own MAC", change: func(_ *replayScene, p *replayPacket) { p.eth.SrcMAC = p.hopMACs()[1] }, slow: true},
	{name: "to the other peer's MAC", change: func(_ *replayScene, p *replayPacket) { p.eth.DstMAC = p.hopMACs()[2] }, slow: true},
	{name: "to the MAC that it is from", change: func(_ *replayScene, p *replayPacket) { p.eth.DstMAC = p.hopMACs()[0] }, slow: true},
	{name: "from an address of the other peer's", change: func(_ *replayScene, p *replayPacket) { p.ip6.SrcIP = net.ParseIP("fd00:f4:9::2") }, slow: true},
	{name: "all of the other peer's", change: func(_ *replayScene, p *replayPacket) {
		p.ip6.SrcIP, p.eth.SrcMAC = net.ParseIP("fd00:f4:9::2"), p.hopMACs()[2]
		if p.tunnel != nil {
			p.tunnel.eth.SrcMAC, p.tunnel.ip6.SrcIP = wireMACs[2], net.ParseIP("fd00:c8::9")
		}
	}, slow: true},
	{name: "from an address of the node's own pods", change: func(_ *replayScene, p *replayPacket) { p.ip6.SrcIP = net.ParseIP("fd00:f4:2::77") }, slow: true},
}

// tunnelReplays6 are what a tunnel puts around the frames of pods.
var tunnelReplays6 = slices.Concat(congestion6(), []replayedFrame{
	{name: "from the other peer's MAC outside", change: func(_ *replayScene, p *replayPacket) { p.tunnel.eth.SrcMAC = wireMACs[2] }},
	{name: "from the node's own MAC outside", change: func(_ *replayScene, p *replayPacket) { p.tunnel.eth.SrcMAC = wireMACs[1] }},
	{name: "to the other peer's MAC outside", change: func(_ *replayScene, p *replayPacket) { p.tunnel.eth.DstMAC = wireMACs[2] }, slow: true},
	{name: "to all outside", change: func(_ *replayScene, p *replayPacket) { p.tunnel.eth.DstMAC = layers.EthernetBroadcast }},
	{name: "to a group outside", change: func(_ *replayScene, p *replayPacket) { p.tunnel.eth.DstMAC = net.HardwareAddr{0x33, 0x33, 0, 0, 0, 1} }},
	{name: "outer source is the other peer", change: func(_ *replayScene, p *replayPacket) { p.tunnel.ip6.SrcIP = net.ParseIP("fd00:c8::9") }},
	{name: "outer source is the node itself", change: func(_ *replayScene, p *replayPacket) { p.tunnel.ip6.SrcIP = net.ParseIP("fd00:c8::2") }},
	{name: "outer source is the loopback's", change: func(_ *replayScene, p *replayPacket) { p.tunnel.ip6.SrcIP = net.IPv6loopback }},
	{name: "outer source is a group", change: func(_ *replayScene, p *replayPacket) { p.tunnel.ip6.SrcIP = net.ParseIP("ff02::1") }},
	{name: "outer destination is the other peer", change: func(_ *replayScene, p *replayPacket) { p.tunnel.ip6.DstIP = net.ParseIP("fd00:c8::9") }},
	{name: "outer destination is a group", change: func(_ *replayScene, p *replayPacket) { p.tunnel.ip6.DstIP = net.ParseIP("ff02::1") }},
	{name: "outer hop limit 0", change: func(_ *replayScene, p *replayPacket) { p.tunnel.ip6.HopLimit = 0 }},
	{name: "outer hop limit 1", change: func(_ *replayScene, p *replayPacket) { p.tunnel.ip6.HopLimit = 1 }, carried: true},
	{name: "outer flow label", change: func(_ *replayScene, p *replayPacket) { p.tunnel.ip6.FlowLabel = 0xfffff }, carried: true},
	{name: "outer class", change: func(_ *replayScene, p *replayPacket) { p.tunnel.ip6.TrafficClass = 0xb8 }, carried: true},
	{name: "another outer source port", change: func(_ *replayScene, p *replayPacket) { p.tunnel.udp.SrcPort = 1 }, carried: true},
	{name: "another outer port", change: func(_ *replayScene, p *replayPacket) { p.tunnel.udp.DstPort = 9 }},
	{name: "no VNI", change: func(_ *replayScene, p *replayPacket) { p.tunnel.payload[0] = 0 }},
	{name: "reserved flag", change: func(_ *replayScene, p *replayPacket) { p.tunnel.payload[0] |= 1 }},
	{name: "reserved byte", change: func(_ *replayScene, p *replayPacket) { p.tunnel.payload[7] = 1 }},
	{name: "another VNI", change: func(_ *replayScene, p *replayPacket) { p.tunnel.payload[6] = 2 }},
	{name: "no outer checksum", outer: func(f []byte) []byte { f[ethLen+ip6Len+6], f[ethLen+ip6Len+7] = 0, 0; return f }},
	{name: "wrong outer checksum", outer: func(f []byte) []byte { f[ethLen+ip6Len+6]++; return f }},
	{name: "wrong outer length of UDP", outer: func(f []byte) []byte { f[ethLen+ip6Len+5]++; return f }},
	{name: "outer hop-by-hop options", outer: withHeader(hopByHop, 0, 1, 4, 0, 0, 0, 0)},
	{name: "outer destination options", outer: withHeader(destinationOptions, 0, 1, 4, 0, 0, 0, 0)},
	{name: "outer fragment", outer: withHeader(fragmentHeader, 0, 0, 1, 0, 0, 0, 10)},
	{name: "padded outside", outer: func(f []byte) []byte { return append(f, make([]byte, 9)...) }},
})

// congestion6 are all marks of congestion outside with all inside. The kernel takes them together, and drops some.
func congestion6() (cases []replayedFrame) {
	for outside := range uint8(4) {
		for inside := range uint8(4) {
			cases = append(cases, replayedFrame{name: fmt.Sprintf("congestion %d outside and %d inside", outside, inside), change: func(_ *replayScene, p *replayPacket) {
				p.tunnel.ip6.TrafficClass, p.ip6.TrafficClass = outside, 0x28|inside
			}})
		}
	}
	return cases
}

// isWhole tells that nothing is still to be done with a frame. What a tunnel has around others is not left to a device.
func isWhole(c replayedFrame) bool { return c.offload == offload{} }

// Over IPv6, from a pod to one of another node, the fast path delivers what the network does, byte for byte, and drops
// what it drops, on each node: whatever a pod sends or the wire brings while the flow is carried. So it does where the
// kernel of the other node is all that makes or takes what it carries, in short on two of the wirings.
func TestReplaysIPv6(t *testing.T) {
	for _, w := range replayWirings6 {
		t.Run(w.name, func(t *testing.T) {
			slow := w.scene(t, "without the fast path", [2]bool{})
			sending := []*replayScene{w.scene(t, "on both nodes", [2]bool{true, true})}
			receiving := sending
			if !w.tracked || agenttest.InFull() {
				second := w.scene(t, "on the second node", [2]bool{false, true})
				sending = append(sending, w.scene(t, "on the first node", [2]bool{true, false}), second)
				receiving = append(slices.Clone(receiving), second)
			}
			compare := func(t *testing.T) {
				pod := slices.Concat(podReplays6, nodeReplays6)
				t.Run("from the pod", func(t *testing.T) { compareReplays(t, byPod, slices.Concat(pod, tooLarge6), slow, sending...) })
				wire := slices.Concat(pod, wireReplays6)
				if w.port != 0 {
					wire = slices.Concat(slices.DeleteFunc(wire, func(c replayedFrame) bool { return !isWhole(c) }), tunnelReplays6)
				}
				t.Run("on the wire", func(t *testing.T) { compareReplays(t, byNode, wire, slow, receiving...) })
			}
			compare(t)
			if w.tracked { // its rules ask whether connections are answered
				return
			}
			for _, s := range append(sending, slow) {
				s.leaveUnanswered()
			}
			t.Run("unanswered", compare)
		})
	}
}
