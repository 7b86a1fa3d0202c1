package e2e

import (
	"slices"

	"github.com/venturi-net/venturi/internal/fastpath/kernel"
	"github.com/venturi-net/venturi/internal/testenv/traffic"
)

var fragmentsOf = []replayed{
	{name: "fragments in order", frames: podCase(func(s *scene) []ip4 { return slices.Concat(pieces(s, 1, 40), pieces(s, 2, 8), pieces(s, 3, 1000)) })},
	{name: "fragments out of order", frames: podCase(func(s *scene) []ip4 {
		list := pieces(s, 4, 40)
		slices.Reverse(list)
		return list
	})},
	{name: "fragments twice, and over each other", frames: podCase(func(s *scene) []ip4 {
		list := pieces(s, 5, 40)
		over := pieces(s, 5, 56)
		return append(list[:2:2], over[1], list[1], list[2])
	})},
	{name: "fragments that lack one", frames: podCase(func(s *scene) []ip4 { return slices.Concat(pieces(s, 6, 40)[:1], pieces(s, 7, 40)[1:]) })},
	{name: "fragments behind the end of a packet", frames: podCase(func(s *scene) []ip4 {
		list := pieces(s, 8, 40)
		for i := range list {
			list[i].frag |= 0x1ff0
		}
		return list
	})},
}

// pieces are fragments of a datagram and of a segment.
func pieces(s *scene, id uint16, size int) (list []ip4) {
	for _, p := range []ip4{s.udp(pattern(1000, byte(id))), s.tcp(ack, pattern(1000, byte(id)))} {
		p.frag, p.id = 0, id
		list = append(list, cut(p, size)...)
		id += 0x100
	}
	return list
}

var segmentsOf = []replayed{
	{name: "flags of TCP within a connection", carried: true, frames: podCase(func(s *scene) (packets []ip4) {
		for i, flags := range []uint8{ack, ack | psh, ack | urg, ack | ece, ack | cwr, ack | ece | cwr, ack | psh | urg | ece | cwr} {
			segment := s.flow.segment(flags, pattern(10+i, 1))
			segment.urgent = 5
			packets = append(packets, segment.packetIn(s.request()))
		}
		return packets
	})},
	{name: "flags of TCP that nobody uses", frames: podCase(func(s *scene) (packets []ip4) {
		for i, flags := range []uint8{0, psh, urg, urg | psh, ece, cwr} {
			packets = append(packets, s.tcp(flags, pattern(10+i, 1)))
		}
		return packets
	})},
	{name: "a second SYN", frames: ofConnection(func(c tcpFlow) []tcp4 {
		return []tcp4{c.segment(syn, nil), c.segment(ack, pattern(10, 1)), c.segment(syn|ack, nil), c.segment(ack, pattern(11, 1))}
	})},
	{name: "the end of a connection", frames: ofConnection(func(c tcpFlow) []tcp4 {
		last := c.segment(fin|ack, nil)
		last.seq += 10
		after := c.segment(ack, nil)
		after.seq += 11
		return []tcp4{c.segment(ack|psh, pattern(10, 1)), last, after}
	})},
	{name: "a reset", frames: ofConnection(func(c tcpFlow) []tcp4 {
		return []tcp4{c.segment(ack, pattern(10, 1)), c.segment(rst, nil), c.segment(ack, pattern(11, 1)), c.segment(rst|ack, nil)}
	})},
	{name: "flags that end and begin at once", frames: ofConnection(func(c tcpFlow) []tcp4 {
		return []tcp4{c.segment(syn|fin, nil), c.segment(syn|rst, nil), c.segment(fin, nil), c.segment(fin|rst|ack, nil), c.segment(0xff, nil)}
	})},
	{name: "segments of no connection", frames: func(s *scene) (frames []frame) {
		c := tcpFlow{firstTCP + 999, firstTCP - 999}
		for i := range 12 {
			frames = append(frames, s.pod(c.segment(ack, pattern(10+i, 1)).packetIn(s.request()))...)
		}
		return frames
	}},
	{name: "segments in and out of the window", allowed: invalid, carried: true, frames: podCase(func(s *scene) (packets []ip4) {
		for i, off := range []int32{0, 1000, -1000, 100_000, -100_000, 10_000_000, -10_000_000, 1 << 30, -1 << 31} {
			a, b := s.flow.segment(ack, pattern(10+i, 1)), s.flow.segment(ack, pattern(10+i, 2))
			a.seq += uint32(off)
			b.ack += uint32(off)
			packets = append(packets, a.packetIn(s.request()), b.packetIn(s.request()))
		}
		return packets
	})},
	{name: "header lengths of TCP", frames: podCase(func(s *scene) (packets []ip4) {
		for i, words := range []uint8{1, 4, 6, 15} {
			segment := s.flow.segment(ack, pattern(10+i, 1))
			segment.words = words
			packets = append(packets, segment.packetIn(s.request()))
		}
		return packets
	})},
	{name: "options of TCP", allowed: invalid, carried: true, frames: podCase(func(s *scene) (packets []ip4) {
		for i, o := range [][]byte{
			{1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2}, {1, 1, 5, 10, 0, 76, 75, 64, 0, 76, 75, 94}, {253, 4, 1, 2}, {8, 0, 0, 0}, {8, 200, 0, 0}, make([]byte, 40),
		} {
			segment := s.flow.segment(ack, pattern(10+i, 1))
			segment.options = o
			packets = append(packets, segment.packetIn(s.request()))
		}
		return packets
	})},
}

// ofConnection makes a case of the segments of a connection of its own, which is
// carried before.
func ofConnection(fn func(c tcpFlow) []tcp4) func(s *scene) []frame {
	return func(s *scene) (frames []frame) {
		c := s.connect()
		s.carryTCP(c)
		for _, segment := range fn(c) {
			frames = append(frames, s.podFrame(0, segment.packetIn(s.request())))
		}
		return frames
	}
}

var gsoOf = []replayed{
	{name: "streams that the card cuts", carried: true, frames: func(s *scene) (frames []frame) {
		mss := s.arm.Client().MTU - ipLen - tcpLen
		for i, size := range []int{mss + 1, 2 * mss, 9000, 20*mss + 7, 44 * mss} {
			size = min(size, 65000)
			frames = append(frames, s.stream(size, mss, uint16(1000*i), ack|psh, gsoTCP), s.stream(size, 536, uint16(1000*i), ack, gsoTCP))
		}
		return frames
	}},
	{name: "streams as large as can be", frames: func(s *scene) (frames []frame) {
		for i, size := range []int{65535 - 100, 65535 - 64 - 40, 65535 - 63 - 40, 65535 - 40} {
			frames = append(frames, s.stream(size, 1400, uint16(1000*i), ack, gsoTCP))
		}
		return frames
	}},
	{name: "streams with marks of congestion", allowed: congested, carried: true, frames: func(s *scene) (frames []frame) {
		for i, tos := range []uint8{1, 2, 3} {
			f := s.stream(5000, 1000, uint16(1000*i), ack|cwr|psh, gsoTCP|gsoECN)
			p := s.request()
			p.tos, p.id = tos, uint16(1000*i)
			segment := s.flow.segment(ack|cwr|psh, pattern(5000, 1))
			segment.sum = partial
			frames = append(frames, frame{s.podFrame(0, segment.packetIn(p)).bytes, f.vnet})
		}
		return frames
	}},
	{name: "datagrams that the card cuts into fragments", frames: func(s *scene) (frames []frame) {
		for i, length := range []int{2000, 9000, 60000} {
			f := s.burst(length, (s.arm.Client().MTU-ipLen)&^7, uint16(1000*i), gsoUFO)
			frames = append(frames, f)
		}
		return frames
	}},
	{name: "datagrams that the card cuts", bursts: true, carried: true, frames: func(s *scene) (frames []frame) {
		most := s.arm.Client().MTU - traffic.UDPHeaders
		for i, size := range []int{1, 100, 1000, most} {
			for _, count := range []int{2, 7, 40} {
				frames = append(frames, s.burst(min(size*count, 65000)-min(size-1, 3), size, uint16(1000*i+count), gsoUDP))
			}
		}
		return frames
	}},
}

// stream is a buffer of a connection that is cut into segments of a size.
func (s *scene) stream(size, mss int, id uint16, flags uint8, kind uint8) frame {
	segment := s.flow.segment(flags, pattern(size, byte(id)))
	segment.sum = partial
	p := s.request()
	p.id = id
	f := s.podFrame(0, segment.packetIn(p))
	f.vnet = vnet{Flags: needsSum, GSO: kind, Size: uint16(mss), HeaderLen: ethLen + ipLen + tcpLen, SumStart: ethLen + ipLen, SumOffset: tcpSum}
	return f
}

// takesBursts tells whether the kernel takes datagrams to be cut from a packet socket: it
// does since 6.2, and is taken for older without tcx.
func takesBursts() bool { return kernel.HasTCX() }

// burst is a buffer that is cut into datagrams of a size.
func (s *scene) burst(length, size int, id uint16, kind uint8) frame {
	p := s.request()
	p.id = id
	f := s.podFrame(0, udp4{from: s.from, to: s.to, payload: pattern(length, byte(id)), sum: partial}.packetIn(p))
	f.vnet = vnet{Flags: needsSum, GSO: kind, Size: uint16(size), HeaderLen: ethLen + ipLen + udpLen, SumStart: ethLen + ipLen, SumOffset: udpSum}
	return f
}
