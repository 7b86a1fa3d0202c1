package e2e

import (
	"net"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/testenv/traffic"
)

// podReplays are cases of what a pod can send.
var podReplays = slices.Concat(sizesOf, headersOf, brokenOf, linksOf, icmpOf, fragmentsOf, segmentsOf, gsoOf)

// podCase makes a case of the packets that fn gives.
func podCase(fn func(s *scene) []ip4) func(s *scene) []frame {
	return func(s *scene) []frame { return s.pod(fn(s)...) }
}

// tcp is a segment of the connection that cases share.
func (s *scene) tcp(flags uint8, payload []byte) ip4 {
	return s.flow.segment(flags, payload).packetIn(s.request())
}

// varied gives a datagram and a segment for each of several values.
func varied(values []int, change func(p *ip4, value int)) func(s *scene) []frame {
	return podCase(func(s *scene) (packets []ip4) {
		for i, value := range values {
			for _, p := range []ip4{s.udp(pattern(10+i, 1)), s.tcp(ack|psh, pattern(10+i, 2))} {
				change(&p, value)
				packets = append(packets, p)
			}
		}
		return packets
	})
}

func upTo(n int) (list []int) {
	for i := range n {
		list = append(list, i)
	}
	return list
}

var sizesOf = []replayed{
	{name: "UDP of every size class", carried: true, frames: podCase(func(s *scene) (packets []ip4) {
		mtu := s.arm.Client().MTU
		for _, size := range []int{0, 1, 2, 17, 18, 19, 63, 64, 65, 511, 1024, 1300, mtu - traffic.UDPHeaders - 1, mtu - traffic.UDPHeaders} {
			packets = append(packets, s.udp(pattern(size, 3)))
		}
		return packets
	})},
	{name: "UDP of 64 K in fragments", frames: podCase(func(s *scene) (packets []ip4) {
		for _, size := range []int{s.arm.Client().MTU - traffic.UDPHeaders + 1, 1473, 9000, 65000, traffic.MaxPayload} {
			p := s.udp(pattern(size, 4))
			p.frag, p.id = 0, uint16(size)
			packets = append(packets, cut(p, (s.arm.Client().MTU-ipLen)&^7)...)
		}
		return packets
	})},
	{name: "TCP of every size class", carried: true, frames: podCase(func(s *scene) (packets []ip4) {
		for _, size := range []int{0, 1, 2, 5, 6, 7, 536, 1024, s.arm.Client().MTU - ipLen - tcpLen} {
			packets = append(packets, s.tcp(ack, pattern(size, 5)))
		}
		return packets
	})},
}

var headersOf = []replayed{
	{name: "every TOS", allowed: congested, carried: true, frames: varied(upTo(256), func(p *ip4, tos int) { p.tos = uint8(tos) })},
	{name: "TTL", carried: true, frames: varied([]int{0, 1, 2, 3, 64, 128, 255}, func(p *ip4, ttl int) { p.ttl = uint8(ttl) })},
	{name: "number of the packet", carried: true, frames: varied([]int{0, 1, 0x7fff, 0xffff}, func(p *ip4, id int) { p.id = uint16(id) })},
	{name: "DF, and the bit that nobody has", carried: true, frames: varied([]int{0, dontFragment, evilBit, evilBit | dontFragment}, func(p *ip4, bits int) {
		p.frag = uint16(bits)
	})},
	{name: "other versions", frames: varied([]int{1, 5, 6, 15}, func(p *ip4, version int) { p.version = uint8(version) })},
	{name: "header lengths", frames: varied([]int{1, 4, 6, 15}, func(p *ip4, words int) { p.words = uint8(words) })},
	{name: "total lengths", allowed: invalid, frames: varied([]int{1, 19, 20, 27, 28, 29, 37, 38, 39, 40, 1000, 65535}, func(p *ip4, length int) { p.length = uint16(length) })},
	{name: "options", frames: podCase(func(s *scene) (packets []ip4) {
		hop := s.arm.Server().Addr.As4()
		for i, o := range [][]byte{
			{1, 1, 1, 1}, {0, 0, 0, 0}, {7, 7, 4, 0, 0, 0, 0, 0}, {68, 8, 5, 0, 0, 0, 0, 0}, {148, 4, 0, 0},
			{131, 7, 4, hop[0], hop[1], hop[2], hop[3], 0}, {137, 7, 4, hop[0], hop[1], hop[2], hop[3], 0}, {130, 3, 0, 0}, {7, 200, 4, 0}, {99, 4, 1, 2},
		} {
			for _, p := range []ip4{s.udp(pattern(10+i, 6)), s.tcp(ack, pattern(10+i, 7))} {
				p.options = o
				packets = append(packets, p)
			}
		}
		return packets
	})},
}

var brokenOf = []replayed{
	{name: "checksum of the IP header", allowed: badSum, frames: varied([]int{0}, func(p *ip4, _ int) { p.badSum = true })},
	{name: "checksums", allowed: invalid, carried: true, frames: podCase(func(s *scene) (packets []ip4) {
		for i, state := range []sum{right, wrongSum, noSum} {
			segment := s.flow.segment(ack, pattern(30+i, 8))
			segment.sum = state
			packets = append(packets, udp4{from: s.from, to: s.to, payload: pattern(30+i, 9), sum: state}.packetIn(s.request()), segment.packetIn(s.request()))
		}
		return packets
	})},
	{name: "lengths of UDP", frames: podCase(func(s *scene) (packets []ip4) {
		for i, length := range []uint16{1, 7, 8, 9, 37, 39, 1000} {
			packets = append(packets, udp4{from: s.from, to: s.to, payload: pattern(30, byte(i)), length: length}.packetIn(s.request()))
		}
		return packets
	})},
	{name: "checksums that the card computes", carried: true, frames: func(s *scene) (frames []frame) {
		for i, size := range []int{0, 1, 2, 101, 1300} {
			segment := s.flow.segment(ack|psh, pattern(size, byte(i)))
			segment.sum = partial
			u := s.podFrame(0, udp4{from: s.from, to: s.to, payload: pattern(size, byte(i)), sum: partial}.packetIn(s.request()))
			u.vnet = vnet{Flags: needsSum, SumStart: ethLen + ipLen, SumOffset: udpSum, HeaderLen: ethLen + ipLen + udpLen}
			c := s.podFrame(0, segment.packetIn(s.request()))
			c.vnet = vnet{Flags: needsSum, SumStart: ethLen + ipLen, SumOffset: tcpSum, HeaderLen: ethLen + ipLen + tcpLen}
			frames = append(frames, u, c)
		}
		return frames
	}},
	{name: "frames with something behind the packet, and with less than it says", frames: func(s *scene) (frames []frame) {
		for _, p := range []ip4{s.udp(pattern(3, 1)), s.tcp(ack, pattern(3, 2))} {
			for _, n := range []int{1, 2, 20, 100} {
				f := s.podFrame(0, p)
				f.bytes = append(f.bytes, pattern(n, 3)...)
				frames = append(frames, f)
			}
			for _, n := range []int{1, 3, 11, 20} {
				f := s.podFrame(0, p)
				f.bytes = f.bytes[:len(f.bytes)-n]
				frames = append(frames, f)
			}
		}
		return frames
	}},
	{name: "headers that are not in one piece", carried: true, frames: func(s *scene) (frames []frame) {
		for _, p := range []ip4{s.udp(pattern(3000, 1)), s.tcp(ack, pattern(1300, 2))} {
			f := s.podFrame(0, p)
			if len(f.bytes) > s.arm.Client().MTU {
				f = s.podFrame(0, s.udp(pattern(1300, 1)))
			}
			for _, linear := range []uint16{14, 20, 34, 36, 42, 54} {
				f.HeaderLen = linear
				frames = append(frames, f)
			}
		}
		return frames
	}},
}

var linksOf = []replayed{
	{name: "MACs that are not the gateway's", frames: func(s *scene) (frames []frame) {
		for i, dst := range []net.HardwareAddr{
			{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, {1, 0, 0x5e, 1, 2, 3}, {2, 9, 9, 9, 9, 9}, s.mac(0, podRole), s.mac(1, gatewayRole),
		} {
			for _, p := range []ip4{s.udp(pattern(20+i, 4)), s.tcp(ack, pattern(20+i, 4))} {
				frames = append(frames, frame{bytes: eth(dst, s.mac(0, podRole), unix.ETH_P_IP, p.bytes())})
			}
		}
		return frames
	}},
	{name: "MACs that are not the pod's", frames: func(s *scene) (frames []frame) {
		for i, src := range []net.HardwareAddr{{2, 9, 9, 9, 9, 9}, {0, 0, 0, 0, 0, 0}, {1, 0, 0x5e, 1, 2, 3}, s.gateway(0)} {
			for _, p := range []ip4{s.udp(pattern(20+i, 4)), s.tcp(ack, pattern(20+i, 4))} {
				frames = append(frames, frame{bytes: eth(s.gateway(0), src, unix.ETH_P_IP, p.bytes())})
			}
		}
		// The first of them ends the flow; the last tells the bridge where the pod is.
		return append(frames, s.podFrame(0, s.udp(pattern(30, 1))))
	}},
	{name: "tags of VLANs", frames: func(s *scene) (frames []frame) {
		for i, tags := range [][]uint16{{0}, {1}, {5}, {0x6005}, {5, 6}} {
			for _, p := range []ip4{s.udp(pattern(20+i, 4)), s.tcp(ack, pattern(20+i, 4))} {
				frames = append(frames, frame{bytes: eth(s.gateway(0), s.mac(0, podRole), unix.ETH_P_IP, p.bytes(), tags...)})
			}
		}
		return frames
	}},
	{name: "other protocols of Ethernet", frames: func(s *scene) (frames []frame) {
		for _, kind := range []uint16{0x0800 + 1, 0x88b5, 0x88cc, 40} {
			frames = append(frames, frame{bytes: eth(s.gateway(0), s.mac(0, podRole), kind, s.udp(pattern(9, 1)).bytes())})
		}
		return frames
	}},
	{name: "addresses that are not the pod's", frames: varied(upTo(7), func(p *ip4, i int) {
		far, near := p.dst, p.src
		p.src = []netip.Addr{near.Next(), far, netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("0.0.0.0"),
			netip.MustParseAddr("255.255.255.255"), netip.MustParseAddr("224.0.0.1"), netip.MustParseAddr("10.200.0.1")}[i]
	})},
	{name: "addresses of nobody", frames: varied(upTo(5), func(p *ip4, i int) {
		p.dst = []netip.Addr{p.dst.Next(), p.src, netip.MustParseAddr("255.255.255.255"), netip.MustParseAddr("224.0.0.1"), netip.MustParseAddr("192.0.2.1")}[i]
	})},
}

var icmpOf = []replayed{
	{name: "echo", frames: podCase(func(s *scene) (packets []ip4) {
		for _, size := range []int{0, 1, 56, 1300} {
			packets = append(packets, icmp4(s.request(), 8, 0, uint32(7<<16|size), pattern(size, 1)))
		}
		return packets
	})},
	{name: "other messages", frames: podCase(func(s *scene) (packets []ip4) {
		for _, kind := range []uint8{0, 4, 9, 10, 13, 15, 17, 42, 255} {
			packets = append(packets, icmp4(s.request(), kind, 0, 7, pattern(20, kind)))
		}
		return packets
	})},
	{name: "errors about the flows that are carried", frames: podCase(func(s *scene) (packets []ip4) {
		// What pod a got from pod b, and now complains of.
		about := []ip4{udp4{from: portB, to: portA, payload: pattern(30, 1)}.packetIn(s.reply()), s.flow.answer(ack, pattern(30, 1)).packetIn(s.reply())}
		for _, kind := range [][2]uint8{{3, 0}, {3, 1}, {3, 3}, {3, 4}, {3, 13}, {4, 0}, {5, 1}, {11, 0}, {12, 0}} {
			for _, p := range about {
				packets = append(packets, icmp4(s.request(), kind[0], kind[1], 1200, p.bytes()))
			}
		}
		return packets
	})},
	{name: "datagrams for nobody", frames: podCase(func(s *scene) (packets []ip4) {
		for i := range 12 { // more than make a flow known
			packets = append(packets, udp4{from: portA, to: closedPort, payload: pattern(20+i, 1)}.packetIn(s.request()))
		}
		return packets
	})},
	{name: "other protocols", frames: podCase(func(s *scene) (packets []ip4) {
		for _, proto := range []uint8{0, 2, 4, 41, 47, 50, 132, 136, 253, 255} {
			p := s.request()
			p.proto, p.payload = proto, pattern(40, proto)
			packets = append(packets, p)
		}
		return packets
	})},
}
