package node_test

import (
	"encoding/binary"
	"net"
	"slices"
	"testing"

	"github.com/gopacket/gopacket/layers"

	"github.com/venturi-net/venturi/internal/testenv"
)

var siblingReplays = []replayedFrame{
	{name: "plain"},
	{name: "empty", change: func(_ *replayScene, p *replayPacket) { p.payload = nil }},
	{name: "largest", change: func(_ *replayScene, p *replayPacket) { p.payload = make([]byte, 1400-28) }},
	{name: "too large", change: func(_ *replayScene, p *replayPacket) { p.payload = make([]byte, 1401-28) }},
	{name: "too large, may be cut", change: func(_ *replayScene, p *replayPacket) { p.payload, p.ip.Flags = make([]byte, 1401-28), 0 }},
	{name: "may be cut", change: func(_ *replayScene, p *replayPacket) { p.ip.Flags = 0 }},
	{name: "TOS", change: func(_ *replayScene, p *replayPacket) { p.ip.TOS = 0xb8 }},
	{name: "congestion", change: func(_ *replayScene, p *replayPacket) { p.ip.TOS = 3 }},
	{name: "TTL 2", change: func(_ *replayScene, p *replayPacket) { p.ip.TTL = 2 }},
	{name: "TTL 1", change: func(_ *replayScene, p *replayPacket) { p.ip.TTL = 1 }},
	{name: "TTL 255", change: func(_ *replayScene, p *replayPacket) { p.ip.TTL = 255 }},
	{name: "options", change: func(_ *replayScene, p *replayPacket) { p.ip.Options = []layers.IPv4Option{{OptionType: 1}} }},
	{name: "fragment", change: func(_ *replayScene, p *replayPacket) { p.ip.Flags, p.ip.FragOffset = 0, 100 }},
	{name: "from another address", change: func(_ *replayScene, p *replayPacket) { p.ip.SrcIP = net.IP{10, 244, 1, 77} }},
	{name: "from another MAC", change: func(_ *replayScene, p *replayPacket) { p.eth.SrcMAC = net.HardwareAddr{2, 0, 0, 0, 0xee, 9} }},
	{name: "to another MAC", change: func(_ *replayScene, p *replayPacket) { p.eth.DstMAC = net.HardwareAddr{2, 0, 0, 0, 0xee, 9} }},
	{name: "to the gateway's MAC", change: func(s *replayScene, p *replayPacket) { p.eth.DstMAC = s.gateway }},
	{name: "to the pod's MAC", change: func(_ *replayScene, p *replayPacket) { p.eth.DstMAC = serverMAC }},
	{name: "to all", change: func(_ *replayScene, p *replayPacket) { p.eth.DstMAC = net.HardwareAddr{255, 255, 255, 255, 255, 255} }},
	{name: "to another port", change: func(_ *replayScene, p *replayPacket) { p.udp.DstPort++ }},
	{name: "from another port", change: func(_ *replayScene, p *replayPacket) { p.udp.SrcPort++ }},
	{name: "padded", bytes: func(f []byte) []byte { return append(f, make([]byte, 9)...) }},
	{name: "cut short", bytes: func(f []byte) []byte { return f[:len(f)-5] }},
	{name: "tagged", bytes: func(f []byte) []byte { return slices.Insert(f, 12, 0x81, 0, 0, 5) }},
	{name: "no checksum", bytes: func(f []byte) []byte { f[ethLen+ipLen+6], f[ethLen+ipLen+7] = 0, 0; return f }},
	{name: "wrong length of UDP", bytes: func(f []byte) []byte { f[ethLen+ipLen+5]++; return f }},
	{name: "checksum to be completed", bytes: partialSum, offload: offload{Flags: needsSum, SumStart: ethLen + ipLen, SumOffset: 6}},
	{name: "large one that a device cuts", change: func(_ *replayScene, p *replayPacket) { p.payload = make([]byte, 5000) }, bytes: partialSum,
		offload: offload{Flags: needsSum, GSO: gsoUDP, HeaderLen: ethLen + ipLen + 8, Size: 1000, SumStart: ethLen + ipLen, SumOffset: 6}},
	{name: "large one whose parts are too large", change: func(_ *replayScene, p *replayPacket) { p.payload = make([]byte, 5000) }, bytes: partialSum,
		offload: offload{Flags: needsSum, GSO: gsoUDP, HeaderLen: ethLen + ipLen + 8, Size: 1380, SumStart: ethLen + ipLen, SumOffset: 6}},
	{name: "opens a connection", change: tcpWith(func(l *layers.TCP) { l.SYN = true })},
	{name: "of no connection", change: tcpWith(func(l *layers.TCP) { l.ACK = true })},
	{name: "resets one", change: tcpWith(func(l *layers.TCP) { l.RST = true })},
}

func tcpWith(change func(*layers.TCP)) func(*replayScene, *replayPacket) {
	return func(_ *replayScene, p *replayPacket) {
		p.ip.Protocol = layers.IPProtocolTCP
		change(&p.tcp)
	}
}

// partialSum leaves the checksum of UDP to a device: the field has the sum of the addresses.
func partialSum(f []byte) []byte {
	length := len(f) - ethLen - ipLen
	binary.BigEndian.PutUint16(f[ethLen+ipLen+6:], onesComplementSum(17+uint32(length), f[ethLen+12:ethLen+ipLen]))
	return f
}

func newSiblingScene(t *testing.T, w siblingWiring, to string, fast bool) *replayScene {
	b := newSibling(t, w)
	if w.routed {
		testenv.Shell(t, b.nodes[0].Path(), "ip link set veth9 address "+routedMAC.String())
	}
	s := newReplayScene(t, b.cluster, w.podPair, b.pod, to, w.routed)
	s.name = map[bool]string{true: "with the fast path", false: "without it"}[fast]
	if to == w.server() && !w.routed {
		s.nextHop = serverMAC
	}
	if w.services {
		testenv.Shell(t, b.nodes[0].Path(), "nft 'table ip service { chain c { type nat hook prerouting priority -100; ip daddr 10.96.0.10 udp dport 53 dnat to 10.244.1.3:7777; }; }'")
	}
	// How many packets to a Service that are not translated are told that there is no route would be chance.
	testenv.Shell(t, b.nodes[0].Path(), "ip route add blackhole 10.96.0.0/12; ip link set veth9 mtu 1400")
	testenv.Shell(t, b.pod.Path(), "ip link set eth0 mtu 1400")
	if fast {
		b.carry(t)
		s.counts = func(sender) []uint64 { return []uint64{b.carriedNow(t)} }
	}
	flushConntrack(t, b.nodes[0])
	return s
}

// Between pods of one node, the fast path delivers what the network does, byte for byte, and drops
// what it drops: whatever a pod sends while its flow is carried.
func TestSiblingReplays(t *testing.T) {
	for _, w := range siblingWirings[:3] {
		for _, to := range []string{w.server(), serviceAddress} {
			if to == serviceAddress && !w.services {
				continue
			}
			t.Run(w.name+", "+to, func(t *testing.T) { w.replay(t, to, siblingReplays) })
		}
	}
}

// replay compares what arrives of some cases with the fast path and without.
func (w siblingWiring) replay(t *testing.T, to string, cases []replayedFrame) {
	compareReplays(t, byPod, cases, newSiblingScene(t, w, to, false), newSiblingScene(t, w, to, true))
}
