package node_test

import (
	"bytes"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/gopacket/gopacket/layers"

	"github.com/venturi-net/venturi/internal/testenv"
)

// Connections of replays. The test makes all of their segments: no pod takes any.
const (
	beforeConnections        = 21000 // the port of the first pod; each connection has the next one
	connectionPort           = 7778  // of the second pod
	seqA, seqB        uint32 = 1_000_000, 5_000_000
	tcpLen                   = 20
)

// asSegment makes a packet of the first pod one of the latest connection, behind its handshake.
func (s *replayScene) asSegment(p *replayPacket) {
	p.ip.Protocol = layers.IPProtocolTCP
	p.tcp = layers.TCP{SrcPort: s.connection, DstPort: connectionPort, Seq: seqA, Ack: seqB, ACK: true, Window: 1000}
}

// answer is a packet of the second pod that answers one of the first.
func (s *replayScene) answer(p *replayPacket) *replayPacket {
	p.ip6.SrcIP, p.ip6.DstIP = p.ip6.DstIP, p.ip6.SrcIP
	p.tcp.SrcPort, p.tcp.DstPort = p.tcp.DstPort, p.tcp.SrcPort
	p.tcp.Seq, p.tcp.Ack = p.tcp.Ack, p.tcp.Seq
	p.eth.SrcMAC, p.eth.DstMAC = serverMAC, slices.Clone(s.gateway)
	if bytes.Equal(s.gateway, gatewayMAC) {
		p.eth.DstMAC[5]++ // that of the second node
	}
	return p
}

// connect opens a connection, and sends segments both ways until they are carried.
func (s *replayScene) connect() {
	s.t.Helper()
	s.connection++
	segment := func(change func(*layers.TCP)) *replayPacket {
		p := s.packet("")
		s.asSegment(p)
		change(&p.tcp)
		return p
	}
	syn := segment(func(l *layers.TCP) { l.SYN, l.ACK, l.Seq, l.Ack = true, false, seqA-1, 0 })
	reply := s.answer(segment(func(l *layers.TCP) { l.SYN, l.Ack = true, seqB-1 }))
	there, back := segment(func(*layers.TCP) {}), s.answer(segment(func(*layers.TCP) {}))
	s.send(byPod, syn.bytes(s.t), offload{})
	s.arrivals()
	s.sendOn(s.taps["pod"], reply.bytes(s.t), offload{})
	s.arrivals()
	for end := time.Now().Add(testenv.Timeout); ; {
		before := s.counts(byPod)
		for range replayTimes {
			s.send(byPod, there.bytes(s.t), offload{})
			s.sendOn(s.taps["pod"], back.bytes(s.t), offload{})
		}
		s.arrivals()
		carried := s.leastRise(byPod, before)
		if carried > replayTimes { // and a mark
			return
		}
		if time.Now().After(end) {
			s.t.Fatalf("%s: a connection is not carried: %d packets of %d: %+v; %+v", s.name, carried, replayTimes+1, s.status(s.t, 0), s.status(s.t, 1))
		}
	}
}

// ofConnection changes a segment of a connection.
func ofConnection(change func(l *layers.TCP)) func(*replayScene, *replayPacket) {
	return func(s *replayScene, p *replayPacket) {
		s.asSegment(p)
		change(&p.tcp)
	}
}

// sized gives it so many bytes of payload.
func sized(n int) func(*replayScene, *replayPacket) {
	return func(s *replayScene, p *replayPacket) {
		s.asSegment(p)
		p.payload = make([]byte, n)
	}
}

func partialTCPSum6(f []byte) []byte { return partialSumAt6(f, 16) }

// tcpReplays6 are segments of a connection of its own.
var tcpReplays6 = []replayedFrame{
	{name: "plain", change: ofConnection(func(*layers.TCP) {}), carried: true},
	{name: "empty", change: sized(0), carried: true},
	{name: "largest", change: sized(1400 - ip6Len - tcpLen), carried: true},
	{name: "too large", change: sized(1401 - ip6Len - tcpLen)},
	{name: "flags of data", change: ofConnection(func(l *layers.TCP) { l.PSH, l.URG, l.ECE, l.CWR, l.Urgent = true, true, true, true, 5 }), carried: true},
	{name: "no flags", change: ofConnection(func(l *layers.TCP) { l.ACK = false }), slow: true},
	{name: "opens it again", change: ofConnection(func(l *layers.TCP) { l.SYN, l.ACK = true, false }), slow: true},
	{name: "answers an opening", change: ofConnection(func(l *layers.TCP) { l.SYN = true }), slow: true},
	{name: "ends it", change: ofConnection(func(l *layers.TCP) { l.FIN = true }), slow: true},
	{name: "resets it", change: ofConnection(func(l *layers.TCP) { l.RST, l.ACK = true, false }), slow: true},
	{name: "of another connection", change: ofConnection(func(l *layers.TCP) { l.SrcPort += 1000 }), slow: true},
	{name: "outside of the window", change: ofConnection(func(l *layers.TCP) { l.Seq += 1 << 30 }), carried: true},
	{name: "options", change: ofConnection(func(l *layers.TCP) {
		l.Options = []layers.TCPOption{{OptionType: 1}, {OptionType: 1}, {OptionType: layers.TCPOptionKindTimestamps, OptionLength: 10, OptionData: make([]byte, 8)}}
	}), carried: true},
	{name: "header that is too short", change: ofConnection(func(*layers.TCP) {}), bytes: func(f []byte) []byte { f[ethLen+ip6Len+12] = 4 << 4; return f }, slow: true},
	{name: "header that is longer than all", change: sized(8), bytes: func(f []byte) []byte { f[ethLen+ip6Len+12] = 15 << 4; return f }, slow: true},
	{name: "wrong checksum", change: ofConnection(func(*layers.TCP) {}), bytes: func(f []byte) []byte { f[ethLen+ip6Len+16]++; return f }},
	{name: "hop limit 1", change: func(s *replayScene, p *replayPacket) { s.asSegment(p); p.ip6.HopLimit = 1 }, slow: true},
	{name: "class and congestion", change: func(s *replayScene, p *replayPacket) { s.asSegment(p); p.ip6.TrafficClass = 0x2f }},
	{name: "from another MAC", change: func(s *replayScene, p *replayPacket) {
		s.asSegment(p)
		p.eth.SrcMAC = net.HardwareAddr{2, 0, 0, 0, 0xee, 9}
	}, slow: true},
	{name: "checksum to be completed", change: ofConnection(func(*layers.TCP) {}), bytes: partialTCPSum6,
		offload: offload{Flags: needsSum, SumStart: ethLen + ip6Len, SumOffset: 16}},
	{name: "stream that a device cuts", change: sized(5000), bytes: partialTCPSum6,
		offload: offload{Flags: needsSum, GSO: gsoTCP6, HeaderLen: ethLen + ip6Len + tcpLen, Size: 1000, SumStart: ethLen + ip6Len, SumOffset: 16}, carried: true},
}

// Over IPv6, the fast path makes of the segments of a connection what the network makes of them, on both nodes, behind
// bridges and routed, on the wire itself and in a tunnel.
func TestReplaysTCPIPv6(t *testing.T) {
	for _, w := range []replayWiring{replayWirings6[0], replayWirings6[3]} {
		t.Run(w.name, func(t *testing.T) {
			slow, fast := w.scene(t, "without the fast path", [2]bool{}), w.scene(t, "on both nodes", [2]bool{true, true})
			slow.connection, fast.connection = beforeConnections, beforeConnections
			t.Run("from the pod", func(t *testing.T) { compareReplays(t, byPod, tcpReplays6, slow, fast) })
			wire := tcpReplays6
			if w.port != 0 {
				wire = slices.DeleteFunc(slices.Clone(wire), func(c replayedFrame) bool { return !isWhole(c) })
			}
			t.Run("on the wire", func(t *testing.T) { compareReplays(t, byNode, wire, slow, fast) })
		})
	}
}
