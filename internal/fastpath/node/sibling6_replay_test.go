package node_test

import (
	"encoding/binary"
	"net"
	"slices"
	"testing"

	"github.com/gopacket/gopacket/layers"
)

// Headers that are put behind that of IPv6, in front of UDP.
const (
	hopByHop           = 0
	routingHeader      = 43
	fragmentHeader     = 44
	destinationOptions = 60
)

// podReplays6 are frames of the first pod over IPv6, for one of its node or of another.
var podReplays6 = []replayedFrame{
	{name: "plain", carried: true},
	{name: "empty", change: func(_ *replayScene, p *replayPacket) { p.payload = nil }, carried: true},
	{name: "largest", change: func(_ *replayScene, p *replayPacket) { p.payload = make([]byte, 1400-48) }, carried: true},
	{name: "too large", change: func(_ *replayScene, p *replayPacket) { p.payload = make([]byte, 1401-48) }},
	{name: "class", change: func(_ *replayScene, p *replayPacket) { p.ip6.TrafficClass = 0xb8 }, carried: true},
	{name: "congestion", change: func(_ *replayScene, p *replayPacket) { p.ip6.TrafficClass = 3 }, carried: true},
	{name: "another flow label", change: func(_ *replayScene, p *replayPacket) { p.ip6.FlowLabel = 0xfffff }, carried: true},
	{name: "no flow label", change: func(_ *replayScene, p *replayPacket) { p.ip6.FlowLabel = 0 }, carried: true},
	{name: "hop limit 2", change: func(_ *replayScene, p *replayPacket) { p.ip6.HopLimit = 2 }},
	{name: "hop limit 1", change: func(_ *replayScene, p *replayPacket) { p.ip6.HopLimit = 1 }},
	{name: "hop limit 0", change: func(_ *replayScene, p *replayPacket) { p.ip6.HopLimit = 0 }},
	{name: "hop limit 255", change: func(_ *replayScene, p *replayPacket) { p.ip6.HopLimit = 255 }, carried: true},
	{name: "hop-by-hop options", bytes: withHeader(hopByHop, 0, 1, 4, 0, 0, 0, 0)},
	{name: "destination options", bytes: withHeader(destinationOptions, 0, 1, 4, 0, 0, 0, 0)},
	{name: "routing header", bytes: withHeader(routingHeader, 0, 0, 0, 0, 0, 0, 0)},
	{name: "last fragment", bytes: withHeader(fragmentHeader, 0, 0x03, 0x20, 0, 0, 0, 7)},
	{name: "fragment that is all", bytes: withHeader(fragmentHeader, 0, 0, 0, 0, 0, 0, 8)},
	{name: "from another address", change: func(_ *replayScene, p *replayPacket) { p.ip6.SrcIP = net.ParseIP("fd00:f4:1::77") }},
	{name: "from the sibling's address", change: func(_ *replayScene, p *replayPacket) { p.ip6.SrcIP = net.ParseIP("fd00:f4:1::3") }},
	{name: "from an address of the link", change: func(_ *replayScene, p *replayPacket) { p.ip6.SrcIP = net.ParseIP("fe80::2:1") }},
	{name: "from another MAC", change: func(_ *replayScene, p *replayPacket) { p.eth.SrcMAC = net.HardwareAddr{2, 0, 0, 0, 0xee, 9} }},
	{name: "to another MAC", change: func(_ *replayScene, p *replayPacket) { p.eth.DstMAC = net.HardwareAddr{2, 0, 0, 0, 0xee, 9} }},
	{name: "to the gateway's MAC", change: func(s *replayScene, p *replayPacket) { p.eth.DstMAC = s.gateway }},
	{name: "to the pod's MAC", change: func(_ *replayScene, p *replayPacket) { p.eth.DstMAC = serverMAC }},
	{name: "to all", change: func(_ *replayScene, p *replayPacket) { p.eth.DstMAC = net.HardwareAddr{255, 255, 255, 255, 255, 255} }},
	{name: "to a group", change: func(_ *replayScene, p *replayPacket) { p.eth.DstMAC = net.HardwareAddr{0x33, 0x33, 0, 0, 0, 1} }},
	{name: "to another port", change: func(_ *replayScene, p *replayPacket) { p.udp.DstPort++ }},
	{name: "from another port", change: func(_ *replayScene, p *replayPacket) { p.udp.SrcPort++ }},
	{name: "padded", bytes: func(f []byte) []byte { return append(f, make([]byte, 9)...) }},
	{name: "cut short", bytes: func(f []byte) []byte { return f[:len(f)-5] }},
	{name: "no length", bytes: func(f []byte) []byte { f[ethLen+4], f[ethLen+5] = 0, 0; return f }},
	{name: "of version 4", bytes: func(f []byte) []byte { f[ethLen] = 0x45; return f }},
	{name: "tagged", bytes: func(f []byte) []byte { return slices.Insert(f, 12, 0x81, 0, 0, 5) }},
	{name: "no checksum", bytes: func(f []byte) []byte { f[ethLen+ip6Len+6], f[ethLen+ip6Len+7] = 0, 0; return f }},
	{name: "wrong checksum", bytes: func(f []byte) []byte { f[ethLen+ip6Len+6]++; return f }},
	{name: "wrong length of UDP", bytes: func(f []byte) []byte { f[ethLen+ip6Len+5]++; return f }},
	{name: "checksum to be completed", bytes: partialSum6, offload: offload{Flags: needsSum, SumStart: ethLen + ip6Len, SumOffset: 6}},
	{name: "large one that a device cuts", change: func(_ *replayScene, p *replayPacket) { p.payload = make([]byte, 5000) }, bytes: partialSum6,
		offload: offload{Flags: needsSum, GSO: gsoUDP, HeaderLen: ethLen + ip6Len + 8, Size: 1000, SumStart: ethLen + ip6Len, SumOffset: 6}},
	{name: "large one whose parts are too large", change: func(_ *replayScene, p *replayPacket) { p.payload = make([]byte, 5000) }, bytes: partialSum6,
		offload: offload{Flags: needsSum, GSO: gsoUDP, HeaderLen: ethLen + ip6Len + 8, Size: 1380, SumStart: ethLen + ip6Len, SumOffset: 6}},
	{name: "opens a connection", change: tcpWith(func(l *layers.TCP) { l.SYN = true })},
	{name: "of no connection", change: tcpWith(func(l *layers.TCP) { l.ACK = true })},
	{name: "resets one", change: tcpWith(func(l *layers.TCP) { l.RST = true })},
}

// withHeader puts a header of a kind and of eight bytes behind that of IPv6. The first byte is the kind of what
// is behind it.
func withHeader(kind byte, rest ...byte) func(frame []byte) []byte {
	return func(f []byte) []byte {
		header := append([]byte{f[ethLen+6]}, rest...)
		f[ethLen+6] = kind
		binary.BigEndian.PutUint16(f[ethLen+4:], binary.BigEndian.Uint16(f[ethLen+4:])+uint16(len(header)))
		return slices.Insert(f, ethLen+ip6Len, header...)
	}
}

// partialSum6 leaves the checksum of UDP to a device: the field has the sum of the addresses.
func partialSum6(f []byte) []byte { return partialSumAt6(f, 6) }

// partialSumAt6 does so with that of any transport, which is at an offset of its header.
func partialSumAt6(f []byte, at int) []byte {
	length := len(f) - ethLen - ip6Len
	binary.BigEndian.PutUint16(f[ethLen+ip6Len+at:], onesComplementSum(uint32(f[ethLen+6])+uint32(length), f[ethLen+8:ethLen+ip6Len]))
	return f
}

// Over IPv6, too, what is delivered between pods of one node is what the network delivers.
func TestSiblingReplaysIPv6(t *testing.T) {
	for _, w := range siblingWirings6[:3] {
		t.Run(w.name, func(t *testing.T) { w.replay(t, w.server(), podReplays6) })
	}
}
