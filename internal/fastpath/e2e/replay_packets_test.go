package e2e

import (
	"encoding/binary"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"
)

// frame is one that is put on a device as it is, and what the kernel is told
// beside it (struct virtio_net_hdr).
type frame struct {
	bytes []byte
	vnet
}

// vnet is what the kernel tells of a frame beside it: what of it is still to be done.
type vnet struct {
	Flags, GSO          uint8
	HeaderLen, Size     uint16
	SumStart, SumOffset uint16
}

const (
	vnetLen   = 10 // bytes
	needsSum  = 1  // in Flags: the checksum is still to be computed
	sumLooked = 2  // in Flags: somebody has looked at the checksum
	gsoTCP    = 1
	gsoUFO    = 3
	gsoUDP    = 5
	gsoECN    = 0x80 // beside another: CWR stands in the first segment only
)

const (
	ethLen = 14
	ipLen  = 20
	udpLen = 8
	tcpLen = 20
	// vxlanLen is of the header; around a packet come those of IP, UDP and Ethernet.
	vxlanLen = 8
)

// sum is the state of a checksum in a packet.
type sum int

const (
	right sum = iota
	wrongSum
	noSum   // of UDP: zero
	partial // the card is to compute it
)

// ip4 is an IPv4 packet; what is left zero is as usual.
type ip4 struct {
	tos, ttl, proto  uint8
	id, frag         uint16 // frag: flags and offset
	src, dst         netip.Addr
	options, payload []byte
	version, words   uint8  // 0: right
	length           uint16 // 0: right
	badSum           bool
}

const (
	dontFragment  = 0x4000
	moreFragments = 0x2000
	evilBit       = 0x8000
)

func (p ip4) bytes() []byte {
	b := make([]byte, ipLen, ipLen+len(p.options)+len(p.payload))
	b = append(append(b, p.options...), p.payload...)
	head := ipLen + len(p.options)
	version, words, length := p.version, p.words, p.length
	if version == 0 {
		version = 4
	}
	if words == 0 {
		words = uint8(head / 4)
	}
	if length == 0 {
		length = uint16(min(len(b), 1<<16-1))
	}
	b[0], b[1], b[8], b[9] = version<<4|words, p.tos, p.ttl, p.proto
	binary.BigEndian.PutUint16(b[2:], length)
	binary.BigEndian.PutUint16(b[4:], p.id)
	binary.BigEndian.PutUint16(b[6:], p.frag)
	copy(b[12:], p.src.AsSlice())
	copy(b[16:], p.dst.AsSlice())
	check := ^onesComplementSum(0, b[:head])
	if p.badSum {
		check ^= 0x0101
	}
	binary.BigEndian.PutUint16(b[10:], check)
	return b
}

// onesComplementSum is the sum of words in ones' complement.
func onesComplementSum(start uint32, b []byte) uint16 {
	s := start
	for ; len(b) > 1; b = b[2:] {
		s += uint32(b[0])<<8 | uint32(b[1])
	}
	if len(b) > 0 {
		s += uint32(b[0]) << 8
	}
	for s>>16 != 0 {
		s = s&0xffff + s>>16
	}
	return uint16(s)
}

// pseudo is the sum of the pseudo header of TCP and UDP.
func pseudo(src, dst []byte, proto uint8, length int) uint32 {
	return uint32(onesComplementSum(uint32(proto)+uint32(length), append(append([]byte{}, src...), dst...)))
}

// seal writes the checksum of a segment, at an offset in it.
func seal(segment []byte, offset int, src, dst netip.Addr, proto uint8, state sum) {
	if proto == unix.IPPROTO_UDP { // what stands behind the datagram is not summed up
		segment = segment[:min(len(segment), max(udpLen, int(binary.BigEndian.Uint16(segment[4:]))))]
	}
	start := pseudo(src.AsSlice(), dst.AsSlice(), proto, len(segment))
	check := uint16(0)
	switch state {
	case right, wrongSum:
		if check = ^onesComplementSum(start, segment); check == 0 {
			check = 0xffff
		}
		if state == wrongSum {
			check ^= 0x1010
		}
	case partial:
		check = onesComplementSum(start, nil)
	case noSum:
	}
	binary.BigEndian.PutUint16(segment[offset:], check)
}

// udp4 is what UDP makes of a payload.
type udp4 struct {
	from, to uint16
	payload  []byte
	sum      sum
	length   uint16 // 0: right
}

const udpSum, tcpSum = 6, 16 // offsets of the checksums

// packetIn puts it into a packet.
func (u udp4) packetIn(p ip4) ip4 {
	b := make([]byte, udpLen, udpLen+len(u.payload))
	b = append(b, u.payload...)
	binary.BigEndian.PutUint16(b, u.from)
	binary.BigEndian.PutUint16(b[2:], u.to)
	length := u.length
	if length == 0 {
		length = uint16(min(len(b), 1<<16-1))
	}
	binary.BigEndian.PutUint16(b[4:], length)
	seal(b, udpSum, p.src, p.dst, unix.IPPROTO_UDP, u.sum)
	p.proto, p.payload = unix.IPPROTO_UDP, b
	return p
}

// tcp4 is a segment.
type tcp4 struct {
	from, to         uint16
	seq, ack         uint32
	flags            uint8
	window, urgent   uint16
	options, payload []byte
	sum              sum
	words            uint8 // 0: right
}

const (
	fin = 1 << iota
	syn
	rst
	psh
	ack
	urg
	ece
	cwr
)

func (s tcp4) packetIn(p ip4) ip4 {
	b := make([]byte, tcpLen, tcpLen+len(s.options)+len(s.payload))
	b = append(append(b, s.options...), s.payload...)
	words := s.words
	if words == 0 {
		words = uint8((tcpLen + len(s.options)) / 4)
	}
	binary.BigEndian.PutUint16(b, s.from)
	binary.BigEndian.PutUint16(b[2:], s.to)
	binary.BigEndian.PutUint32(b[4:], s.seq)
	binary.BigEndian.PutUint32(b[8:], s.ack)
	b[12], b[13] = words<<4, s.flags
	binary.BigEndian.PutUint16(b[14:], s.window)
	binary.BigEndian.PutUint16(b[18:], s.urgent)
	seal(b, tcpSum, p.src, p.dst, unix.IPPROTO_TCP, s.sum)
	p.proto, p.payload = unix.IPPROTO_TCP, b
	return p
}

// icmp4 is a message of ICMP in a packet.
func icmp4(p ip4, kind, code uint8, rest uint32, body []byte) ip4 {
	b := append([]byte{kind, code, 0, 0, 0, 0, 0, 0}, body...)
	binary.BigEndian.PutUint32(b[4:], rest)
	binary.BigEndian.PutUint16(b[2:], ^onesComplementSum(0, b))
	p.proto, p.payload = unix.IPPROTO_ICMP, b
	return p
}

// cut makes fragments of a packet, each with so many bytes of its payload.
func cut(p ip4, size int) (parts []ip4) {
	for at := 0; at < len(p.payload); at += size {
		part := p
		part.frag = p.frag&evilBit | uint16(at/8)
		part.payload = p.payload[at:min(at+size, len(p.payload))]
		if at+size < len(p.payload) {
			part.frag |= moreFragments
		}
		parts = append(parts, part)
	}
	return parts
}

// eth puts the header of Ethernet in front, with tags if there are any.
func eth(dst, src net.HardwareAddr, kind uint16, payload []byte, tags ...uint16) []byte {
	b := append(append([]byte{}, dst...), src...)
	for _, tag := range tags {
		b = binary.BigEndian.AppendUint16(b, unix.ETH_P_8021Q)
		b = binary.BigEndian.AppendUint16(b, tag)
	}
	return append(binary.BigEndian.AppendUint16(b, kind), payload...)
}

// pattern is a payload of so many bytes, which is known again.
func pattern(size int, what byte) []byte {
	b := make([]byte, size)
	for i := range b {
		b[i] = what + byte(i*7) + byte(i>>8)
	}
	return b
}
