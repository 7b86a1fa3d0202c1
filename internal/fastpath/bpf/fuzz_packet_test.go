package bpf_test

import (
	"bytes"
	"encoding/binary"
	"net"

	"github.com/venturi-net/venturi/internal/fastpath/bpf"
)

// packet makes one from the grammar: of a flow that is known or not, in a direction, with headers
// that are mostly right; of those that are not, mostly one field is wrong.
func (f *fuzzing) packet(into, encapsulated bool) []byte {
	flow := f.ref.flows[f.rng.IntN(len(f.ref.flows))]
	ends := flow.pod
	if into {
		ends = flow.wire
	}
	if f.chance(8) {
		ends[f.rng.IntN(len(ends))] ^= 1 << f.rng.IntN(8)
	}
	protocol := flow.protocol
	if f.chance(40) {
		protocol = choose(f, byte(1), 6, 17, 47, 132)
	}
	payload := choose(f, 0, 1, 7, 18, 100, f.rng.IntN(1200), 1400, 1421, 1422, 1423, 1410, 1409, 1439, 1440, 1441, 1452, 1453, 1500)
	ip := f.ipPacket(protocol, ends, into, payload)
	from, to := podMAC, gatewayMAC
	switch {
	case into && encapsulated:
		from, to = farTunnelMAC, tunnelMAC
	case into:
		from, to = farMAC, f.wireMAC
	case encapsulated:
		from, to = tunnelMAC, farTunnelMAC
	}
	if f.macs != nil {
		to, from = f.macs[:6], f.macs[6:12]
	}
	frame := append(f.ethernet(from, to), ip...)
	switch {
	case encapsulated && f.kind == bpf.IPIP:
		frame = f.encapsulateIP(ip, into)
	case encapsulated:
		frame = f.encapsulate(frame, ip[1], into)
	}
	switch f.rng.IntN(24) {
	case 0: // cut short
		frame = frame[:max(34, f.rng.IntN(len(frame)))]
	case 1: // padded
		frame = append(frame, make([]byte, 1+f.rng.IntN(40))...)
	case 2: // one bit
		frame[f.rng.IntN(len(frame))] ^= 1 << f.rng.IntN(8)
	case 3: // some bytes
		at := f.rng.IntN(len(frame))
		for i := range min(1+f.rng.IntN(8), len(frame)-at) {
			frame[at+i] = byte(f.rng.Uint32())
		}
	}
	return runnable(frame)
}

// runnable pads a frame: the kernel runs nothing on less than an IP header.
func runnable(frame []byte) []byte {
	least := len(frame)
	switch {
	case frame[12] == 0x86 && frame[13] == 0xdd:
		least = 54
	case isIPv4(frame):
		least = 34
	}
	return append(frame, make([]byte, max(0, least-len(frame)))...)
}

func (f *fuzzing) ethernet(from, to net.HardwareAddr) []byte {
	eth := append(bytes.Clone(to), from...)
	switch f.rng.IntN(60) {
	case 0, 1:
		eth[f.rng.IntN(12)] ^= 1 << f.rng.IntN(8)
	case 2:
		copy(eth, bytes.Repeat([]byte{0xff}, 6))
	case 3:
		eth = append(eth, 0x81, 0, 0, byte(f.rng.Uint32())) // VLAN
	case 4:
		eth = append(eth, 0x88, 0xa8, 0, 1, 0x81, 0, 0, 2) // QinQ
	case 5:
		return append(eth, choose(f, []byte{0x86, 0xdd}, []byte{8, 6}, []byte{0, 50}, []byte{8, 1})...)
	}
	return append(eth, 8, 0)
}

// ipPacket makes an IP packet with what is in it.
func (f *fuzzing) ipPacket(protocol byte, ends tuple, into bool, payload int) []byte {
	local, remote := 0, 4
	if into {
		local, remote = 4, 0
	}
	transport := make([]byte, choose(f, 20, 20, 20, 32, 40, 60))
	if protocol != 6 {
		transport = transport[:8]
	}
	copy(transport[local/2:], ends[8:10])
	copy(transport[remote/2:], ends[10:12])
	body := make([]byte, payload)
	for i := range body {
		body[i] = byte(f.rng.Uint32())
	}
	if protocol == 6 {
		for i := 4; i < 12; i++ {
			transport[i] = byte(f.rng.Uint32())
		}
		transport[12], transport[13] = byte(len(transport)/4)<<4, choose(f, byte(0x10), 0x18, 0xd0, 0x30)
		if f.chance(24) {
			transport[13] = byte(f.rng.Uint32())
		}
		if f.chance(40) {
			transport[12] = byte(f.rng.Uint32())
		}
	} else {
		binary.BigEndian.PutUint16(transport[4:], uint16(8+payload))
		if f.chance(30) {
			binary.BigEndian.PutUint16(transport[4:], uint16(choose(f, 0, 7, 8, 9+payload, 7+payload, f.rng.IntN(1<<16))))
		}
	}
	ip := make([]byte, 20)
	ip[0], ip[1], ip[8], ip[9] = 0x45, choose(f, byte(0), 0, 1, 2, 3, 0xb8, byte(f.rng.Uint32())), choose(f, byte(64), 64, 64, 255, 2, 3, 1, 0), protocol
	if f.chance(2) {
		ip[8] = 64
	}
	ip[4], ip[5], ip[6] = byte(f.rng.Uint32()), byte(f.rng.Uint32()), choose(f, byte(0), 0x40, 0x40)
	if f.chance(20) {
		ip[6], ip[7] = choose(f, byte(0x20), 0x80, 0, 0x1f, 0x60), choose(f, byte(0), 1, 185)
	}
	copy(ip[12+local:], ends[0:4])
	copy(ip[12+remote:], ends[4:8])
	if f.chance(30) {
		ip = append(ip, make([]byte, 4*(1+f.rng.IntN(10)))...)
		ip[0] = 0x40 | byte(len(ip)/4)
	}
	binary.BigEndian.PutUint16(ip[2:], uint16(len(ip)+len(transport)+payload))
	if f.chance(24) {
		binary.BigEndian.PutUint16(ip[2:], uint16(choose(f, 0, 19, 20, 28, 39, 40, len(ip)+len(transport)+payload+1, len(ip)+len(transport)+payload-1, f.rng.IntN(1<<16))))
	}
	binary.BigEndian.PutUint16(ip[10:], ^words(ip))
	if f.chance(16) {
		binary.BigEndian.PutUint16(ip[10:], choose(f, uint16(0), 0xffff, 0xfeff, 0xfefe, uint16(f.rng.Uint32())))
	}
	segment := append(append(ip, transport...), body...)
	f.checksum(segment, len(ip), protocol)
	return segment
}

// checksum writes the checksum of a transport header: mostly right, or one around zero.
func (f *fuzzing) checksum(ip []byte, at int, protocol byte) {
	field := at + 6
	if protocol == 6 {
		field = at + 16
	}
	even := append(bytes.Clone(ip[at:]), make([]byte, (len(ip)-at)%2)...)
	pseudo := []byte{0, protocol, byte((len(ip) - at) >> 8), byte(len(ip) - at)}
	sum := ^words(append(append(bytes.Clone(ip[12:20]), pseudo...), even...))
	if f.chance(6) {
		sum = choose(f, uint16(0), 0xffff, 1, 0xfffe, uint16(f.rng.Uint32()))
	}
	binary.BigEndian.PutUint16(ip[field:], sum)
}

// encapsulateIP puts an IP header around a packet: that which the peer sends, or this host.
func (f *fuzzing) encapsulateIP(ip []byte, into bool) []byte {
	outer := make([]byte, 20)
	outer[0], outer[1], outer[6], outer[8], outer[9] = 0x45, ip[1]&3, ip[6]&0x40, ip[8], 4
	if f.chance(16) {
		outer[1] = byte(f.rng.Uint32())
	}
	from, to, eth := remoteVTEP, localVTEP, f.ethernet(farMAC, f.wireMAC)
	if !into {
		from, to, eth = to, from, f.ethernet(f.wireMAC, farMAC)
	}
	copy(outer[12:], from.AsSlice())
	copy(outer[16:], to.AsSlice())
	outer[4], outer[5] = byte(f.rng.Uint32()), byte(f.rng.Uint32())
	binary.BigEndian.PutUint16(outer[2:], uint16(20+len(ip)))
	switch f.rng.IntN(40) {
	case 0:
		outer[12+f.rng.IntN(8)] ^= 1 << f.rng.IntN(8)
	case 1:
		outer[6], outer[7] = choose(f, byte(0x20), 0x80, 0x1f), choose(f, byte(0), 1)
	case 2:
		outer[6] ^= 0x40
	case 3:
		outer[8] = byte(f.rng.Uint32())
	case 4:
		outer[0], outer[9] = choose(f, byte(0x45), 0x46, 0x65), choose(f, byte(17), 6, 41)
	case 5:
		binary.BigEndian.PutUint16(outer[2:], uint16(f.rng.Uint32()))
	}
	binary.BigEndian.PutUint16(outer[10:], ^words(outer))
	if f.chance(60) {
		outer[10] ^= 1
	}
	return append(append(eth, outer...), ip...)
}

// encapsulate puts headers around a frame: those that the peer sends, or this host.
func (f *fuzzing) encapsulate(frame []byte, tos byte, into bool) []byte {
	outer := make([]byte, 36)
	ip, datagram := outer[:20], outer[20:]
	ip[0], ip[1], ip[8], ip[9] = 0x45, tos&3, 63, 17
	if f.chance(16) {
		ip[1] = byte(f.rng.Uint32())
	}
	from, to, eth := remoteVTEP, localVTEP, f.ethernet(farMAC, f.wireMAC)
	if !into {
		from, to, eth = to, from, f.ethernet(f.wireMAC, farMAC)
		ip[8] = 64
	}
	copy(ip[12:], from.AsSlice())
	copy(ip[16:], to.AsSlice())
	copy(ip[4:8], choose(f, []byte{0, 0, 0, 0}, []byte{1, 2, 0, 0}, []byte{1, 2, 0x40, 0}))
	binary.BigEndian.PutUint16(ip[2:], uint16(36+len(frame)))
	binary.BigEndian.PutUint16(datagram, 50000)
	binary.BigEndian.PutUint16(datagram[2:], port)
	binary.BigEndian.PutUint16(datagram[4:], uint16(16+len(frame)))
	binary.BigEndian.PutUint32(datagram[8:], plainHeader[f.kind])
	binary.BigEndian.PutUint32(datagram[12:], vni<<8)
	switch f.rng.IntN(50) {
	case 0:
		ip[12+f.rng.IntN(8)] ^= 1 << f.rng.IntN(8)
	case 1:
		ip[6], ip[7] = choose(f, byte(0x20), 0x80, 0x1f), choose(f, byte(0), 1)
	case 2:
		datagram[6+f.rng.IntN(2)] = byte(f.rng.Uint32()) // a checksum
	case 3:
		datagram[2+f.rng.IntN(4)] ^= 1 << f.rng.IntN(8)
	case 4:
		datagram[8+f.rng.IntN(8)] ^= 1 << f.rng.IntN(8) // the tunnel's header
	case 5:
		ip[0], ip[9] = choose(f, byte(0x45), 0x46, 0x65), choose(f, byte(17), 6)
	case 6:
		binary.BigEndian.PutUint16(ip[2:], uint16(f.rng.Uint32()))
	}
	binary.BigEndian.PutUint16(ip[10:], ^words(ip))
	if f.chance(60) {
		ip[10] ^= 1
	}
	return append(append(eth, outer...), frame...)
}
