package e2e

import (
	"encoding/binary"
	"net"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"
)

// outer is what the first machine puts around a packet of its pod on the wire.
type outer struct {
	dst, src net.HardwareAddr
	tags     []uint16
	kind     uint16
	ip       ip4
	isIPIP   bool // there is nothing more around it; otherwise all of the following
	udp      udp4
	header   [2]uint32 // of VXLAN or Geneve
	options  []byte    // of Geneve
	innerDst net.HardwareAddr
	innerSrc net.HardwareAddr
	inner    []uint16 // tags
	innerIs  uint16   // kind
}

// tunnelHeaders is that, as the path has it. Without a tunnel there is only Ethernet.
func (s *scene) tunnelHeaders() outer {
	return outer{
		dst: s.wires[1], src: s.wires[0], kind: unix.ETH_P_IP,
		ip:       ip4{ttl: 64, id: 0x77, src: s.nodes[0], dst: s.nodes[1]},
		isIPIP:   s.isIPIP(),
		udp:      udp4{from: 50000, to: s.view.port, sum: noSum},
		header:   [2]uint32{s.plainHeader(), s.view.vni << 8},
		innerDst: s.mac(1, tunnelRole), innerSrc: s.mac(0, tunnelRole), innerIs: unix.ETH_P_IP,
	}
}

// plainHeader is what the header of a tunnel in UDP begins with.
func (s *scene) plainHeader() uint32 {
	if s.isGeneve() {
		return 0x6558 // no options, Ethernet inside
	}
	return 1 << 27 // there is a VNI
}

// wrap gives the frame on the wire of a packet.
func (s *scene) wrap(o outer, packet []byte) frame {
	if !s.tunnels() {
		return frame{bytes: eth(o.dst, o.src, o.kind, packet, o.tags...)}
	}
	return frame{bytes: eth(o.dst, o.src, o.kind, o.tunnelled(packet).bytes(), o.tags...)}
}

func (o outer) tunnelled(packet []byte) ip4 {
	if o.isIPIP {
		o.ip.proto, o.ip.payload = unix.IPPROTO_IPIP, packet
		return o.ip
	}
	head := append(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, o.header[0]), o.header[1]), o.options...)
	o.udp.payload = append(head, eth(o.innerDst, o.innerSrc, o.innerIs, packet, o.inner...)...)
	return o.udp.packetIn(o.ip)
}

// routedOn is a packet that the first machine has forwarded.
func routedOn(p ip4) []byte {
	if p.ttl > 0 {
		p.ttl--
	}
	return p.bytes()
}

// wired gives each packet of a case as it is on the wire.
func wired(fn func(s *scene) []frame) func(s *scene) []frame {
	return func(s *scene) (frames []frame) {
		for _, f := range fn(s) {
			frames = append(frames, frame{s.wrap(s.tunnelHeaders(), f.bytes[ethLen:]).bytes, f.vnet})
		}
		return frames
	}
}

// flows are packets of those that are carried, made known by a number.
func (s *scene) flows(n int) []ip4 {
	return []ip4{s.udp(pattern(10+n, 5)), s.tcp(ack|psh, pattern(10+n, 6))}
}

// outers varies what is around the packets of the flows.
func outers(values []int, change func(s *scene, o *outer, value int)) func(s *scene) []frame {
	return func(s *scene) (frames []frame) {
		for i, value := range values {
			for _, p := range s.flows(i) {
				o := s.tunnelHeaders()
				change(s, &o, value)
				frames = append(frames, s.wrap(o, routedOn(p)))
			}
		}
		return frames
	}
}

// wireReplays are cases of what can be on the wire. Those of pods are played there, too.
var wireReplays = slices.Concat(onWire(sizesOf[:1], headersOf, brokenOf[:3], fragmentsOf, segmentsOf), forKind("routed", onWire(gsoOf)), []replayed{
	{name: "marks of congestion, outside and inside", wire: true, carried: true, kind: anyTunnel, frames: func(s *scene) (frames []frame) {
		for outside := range uint8(4) {
			for inside := range uint8(4) {
				for _, p := range s.flows(int(outside*4 + inside)) {
					o := s.tunnelHeaders()
					o.ip.tos, p.tos = outside|0xb8, inside|0x28
					frames = append(frames, s.wrap(o, routedOn(p)))
				}
			}
		}
		return frames
	}},
	{name: "outer TTLs", wire: true, carried: true, kind: anyTunnel, frames: outers([]int{0, 1, 2, 255}, func(_ *scene, o *outer, ttl int) { o.ip.ttl = uint8(ttl) })},
	{name: "outer bits", wire: true, carried: true, kind: anyTunnel, frames: outers([]int{0, dontFragment, evilBit}, func(_ *scene, o *outer, bits int) { o.ip.frag = uint16(bits) })},
	{name: "outer addresses", wire: true, kind: anyTunnel, frames: outers(upTo(5), func(_ *scene, o *outer, i int) {
		other := []netip.Addr{netip.MustParseAddr("10.200.0.9"), o.ip.dst, netip.MustParseAddr("127.0.0.1")}
		if i < len(other) {
			o.ip.src = other[i]
		} else {
			o.ip.dst = netip.MustParseAddr([]string{"10.200.0.9", "10.200.0.255"}[i-len(other)])
		}
	})},
	{name: "outer checksums of UDP", wire: true, kind: inUDP, frames: outers([]int{int(right), int(wrongSum)}, func(_ *scene, o *outer, state int) { o.udp.sum = sum(state) })},
	{name: "outer checksum of IP", wire: true, kind: anyTunnel, frames: outers([]int{0}, func(_ *scene, o *outer, _ int) { o.ip.badSum = true })},
	{name: "outer versions", wire: true, kind: anyTunnel, frames: outers([]int{5, 6, 15}, func(_ *scene, o *outer, version int) { o.ip.version = uint8(version) })},
	{name: "outer lengths", wire: true, kind: anyTunnel, frames: outers([]int{20, 28, 36, 50, 60, 80, 2000}, func(_ *scene, o *outer, n int) { o.ip.length = uint16(n) })},
	{name: "outer lengths of UDP", wire: true, kind: inUDP, frames: outers([]int{1, 8, 16, 40, 60, 2000}, func(_ *scene, o *outer, n int) { o.udp.length = uint16(n) })},
	{name: "outer options", wire: true, kind: anyTunnel, frames: outers([]int{1, 7}, func(_ *scene, o *outer, kind int) { o.ip.options = []byte{byte(kind), byte(kind), 4, 0} })},
	{name: "outer ports", wire: true, carried: true, kind: inUDP, frames: outers([]int{0, 1, 8472, 65535}, func(_ *scene, o *outer, port int) { o.udp.from = uint16(port) })},
	{name: "outer fragments", wire: true, kind: anyTunnel, frames: func(s *scene) (frames []frame) {
		for i, p := range s.flows(1) {
			o := s.tunnelHeaders()
			o.ip.id = uint16(0x4400 + i)
			for _, part := range cut(o.tunnelled(routedOn(p)), 72) {
				frames = append(frames, frame{bytes: eth(o.dst, o.src, o.kind, part.bytes())})
			}
		}
		return frames
	}},
	{name: "headers of VXLAN", wire: true, kind: "vxlan", frames: outers(upTo(9), func(s *scene, o *outer, i int) {
		o.header = [][2]uint32{
			{0, o.header[1]}, {1<<27 | 1, o.header[1]}, {1<<27 | 1<<31, o.header[1]}, {1<<27 | 1<<21, o.header[1]}, {1 << 27, o.header[1] | 1},
			{1 << 27, o.header[1] | 0xff}, {1 << 27, 0}, {1 << 27, 0xfffff00}, {1<<32 - 1, o.header[1]},
		}[i]
	})},
	{name: "headers of Geneve", wire: true, kind: "geneve", frames: outers(upTo(12), func(_ *scene, o *outer, i int) {
		plain := o.header[0]
		o.header = [][2]uint32{
			{plain | 1<<30, o.header[1]}, {plain | 1<<23, o.header[1]}, {plain | 1<<22, o.header[1]}, {plain | 1<<16, o.header[1]}, {plain | 1<<24, o.header[1]},
			{unix.ETH_P_IP, o.header[1]}, {unix.ETH_P_IPV6, o.header[1]}, {0, o.header[1]}, {plain, o.header[1] | 1}, {plain, o.header[1] | 0xff}, {plain, 0}, {plain, 0xfffff00},
		}[i]
	})},
	{name: "options of Geneve", wire: true, kind: "geneve", frames: outers([]int{4, 8, 124, 252}, func(_ *scene, o *outer, length int) {
		o.header[0] |= uint32(length/4) << 24
		o.options = append([]byte{0x01, 0x02, 0x03, byte(length/4 - 1)}, pattern(length-4, 9)...)
	})},
	{name: "inner MACs", wire: true, kind: inUDP, frames: outers(upTo(6), func(s *scene, o *outer, i int) {
		switch list := []net.HardwareAddr{{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, {1, 0, 0x5e, 1, 2, 3}, s.mac(1, podRole), s.mac(0, tunnelRole)}; {
		case i < len(list):
			o.innerDst = list[i]
		default:
			o.innerSrc = []net.HardwareAddr{{0, 0, 0, 0, 0, 0}, {1, 0, 0x5e, 1, 2, 3}}[i-len(list)]
		}
	})},
	{name: "the receiver's own MAC as inner source", wire: true, kind: inUDP, frames: outers([]int{0}, func(s *scene, o *outer, _ int) {
		o.innerSrc = s.mac(1, tunnelRole)
	})},
	{name: "inner tags", wire: true, kind: inUDP, frames: outers([]int{0, 5}, func(_ *scene, o *outer, tag int) { o.inner = []uint16{uint16(tag)} })},
	{name: "inner protocols of Ethernet", wire: true, kind: inUDP, frames: outers([]int{0x801, unix.ETH_P_IPV6, unix.ETH_P_ARP, 40}, func(_ *scene, o *outer, kind int) { o.innerIs = uint16(kind) })},
	{name: "MACs on the wire", wire: true, frames: outers(upTo(6), func(_ *scene, o *outer, i int) {
		other := []net.HardwareAddr{{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, {1, 0, 0x5e, 1, 2, 3}, {2, 9, 9, 9, 9, 9}}[i%3]
		if i < 3 {
			o.dst = other
		} else {
			o.src = other
		}
	})},
	{name: "tags on the wire", wire: true, frames: outers([]int{0, 5}, func(_ *scene, o *outer, tag int) { o.tags = []uint16{uint16(tag)} })},
	{name: "padding on the wire", wire: true, carried: true, frames: func(s *scene) (frames []frame) {
		for _, n := range []int{1, 6, 18, 100} {
			for _, p := range s.flows(n) {
				f := s.wrap(s.tunnelHeaders(), routedOn(p))
				f.bytes = append(f.bytes, pattern(n, 1)...)
				frames = append(frames, f, s.wrap(s.tunnelHeaders(), append(routedOn(p), pattern(n, 1)...)))
			}
		}
		return frames
	}},
	{name: "frames that are cut off", wire: true, frames: func(s *scene) (frames []frame) {
		for _, n := range []int{1, 9, 20, 30, 45, 60} {
			for _, p := range s.flows(n) {
				f := s.wrap(s.tunnelHeaders(), routedOn(p))
				f.bytes = f.bytes[:max(ethLen+1, len(f.bytes)-n)]
				frames = append(frames, f)
			}
		}
		return frames
	}},
	{name: "addresses that are not the peer's pods'", wire: true, frames: wired(varied(upTo(4), func(p *ip4, i int) {
		p.src = []netip.Addr{p.src.Next(), p.dst, netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("10.200.0.2")}[i]
	}))},
	{name: "addresses of nobody on the wire", wire: true, frames: wired(varied(upTo(4), func(p *ip4, i int) {
		p.dst = []netip.Addr{p.dst.Next(), p.src, netip.MustParseAddr("224.0.0.1"), netip.MustParseAddr("192.0.2.1")}[i]
	}))},
})

// forKind leaves cases to paths of a kind.
func forKind(kind string, cases []replayed) []replayed {
	for i := range cases {
		cases[i].kind = kind
	}
	return cases
}

// onWire plays cases of the pod on the wire.
func onWire(lists ...[]replayed) (cases []replayed) {
	for _, c := range slices.Concat(lists...) {
		c.name += ", on the wire"
		c.frames, c.wire = wired(c.frames), true
		cases = append(cases, c)
	}
	return cases
}
