package shadow

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/venturi-net/venturi/internal/fastpath/bpf"
)

// Lengths of headers, and offsets in them.
const (
	ethLen, ipLen, udpLen, tunnelLen = 14, 20, 8, 8

	ipTOS, ipTotal, ipID, ipCheck, ipProtocol, ipAddrs = 1, 2, 4, 10, 9, 12
	tcpSeq, tcpOffset, tcpFlags, tcpCheck              = 4, 12, 13, 16
	udpLength, udpCheck                                = 4, 6

	tcp, udp = 6, 17

	ecnMask, ecnCE = 3, 3
)

// maxRecorded is MAX_RECORDED of the programs: how much of a packet is recorded, bytes.
const maxRecorded = 64000

// packet is one that would be sent, or is.
type packet struct {
	bpf.ShadowRecord
	bytes      []byte // as far as they are recorded
	length     int    // of all of it, without padding
	ip         int    // offset of the pod's IP header
	transport  int    // offset of what follows it
	payload    int    // offset of what follows the transport header
	outerWrong bool   // the checksum of the outer IP header is
	connection flowOf // of one that would be sent: its flow as the pod sees it, in the direction out
}

// decode reads a record, with the packet behind it. Of one that the network sends, the offset of
// the IP header is not known yet: see [packet.parse].
func decode(raw []byte) (*packet, error) {
	p := &packet{}
	n, err := binary.Decode(raw, binary.NativeEndian, &p.ShadowRecord)
	if err != nil {
		return nil, fmt.Errorf("decode a record of a packet: %w", err)
	}
	recorded := min(int(p.Length), maxRecorded)
	if headers := int(p.Headers); len(raw)-n < recorded || headers > len(p.Header) || int(p.Replaces) > recorded {
		return nil, fmt.Errorf("a record of a packet has %d bytes, which is too short", len(raw))
	}
	p.bytes = append(append(make([]byte, 0, int(p.Headers)+recorded), p.Header[:p.Headers]...), raw[n+int(p.Replaces):n+recorded]...)
	p.length = int(p.Length) - int(p.Replaces) + int(p.Headers)
	if p.Headers > 0 {
		p.parse(int(p.Ip))
		p.connection = p.podFlow(raw[n:])
	}
	return p, nil
}

// parse finds the headers of a packet, and clears what may differ (see Shadow in
// docs/fast-path.md): the ID of an outer IP header, the source port and the checksum of the UDP
// header behind it, and the outer mark of congestion where the pod has marked it itself. What is
// behind the IP packet is padding.
func (p *packet) parse(ip int) {
	p.ip = ip
	at := p.layout()
	p.transport = min(ip+at.header, len(p.bytes))
	if len(p.bytes) < ip+at.header+udpLen {
		p.payload = len(p.bytes)
		return
	}
	if end := ip + at.before + p.word(ip+at.total); end >= p.transport && end < p.length {
		p.length, p.bytes = end, p.bytes[:min(end, len(p.bytes))]
	}
	p.payload = p.transport + udpLen
	if p.protocol() == tcp && len(p.bytes) > p.transport+tcpOffset {
		p.payload = p.transport + int(p.bytes[p.transport+tcpOffset]>>4)*4
	}
	p.payload = min(p.payload, len(p.bytes))
	if !p.isEncapsulated() {
		return
	}
	outer := p.bytes[ethLen : ethLen+ipLen]
	p.outerWrong = sum(outer) != 0xffff
	clear(outer[ipID : ipID+2])
	clear(outer[ipCheck : ipCheck+2])
	if p.bytes[ip+ipTOS]&ecnMask == ecnCE {
		outer[ipTOS] &^= ecnMask
	}
	if p.isInUDP() {
		datagram := p.bytes[ethLen+ipLen:]
		clear(datagram[:2])
		clear(datagram[udpCheck:udpLen])
	}
}

// parsed is a copy of a packet whose headers are found.
func (p *packet) parsed(ip int) *packet {
	at := *p
	at.bytes = bytes.Clone(p.bytes)
	at.parse(ip)
	return &at
}

// isEncapsulated: there are outer headers.
func (p *packet) isEncapsulated() bool { return p.ip > ethLen }

// isInUDP: there is more than an outer IP header, which VXLAN and Geneve put around packets.
func (p *packet) isInUDP() bool { return p.ip > ethLen+ipLen }

func (p *packet) word(at int) int { return int(binary.BigEndian.Uint16(p.bytes[at:])) }

// protocol is 0 if the packet is too short to have one.
func (p *packet) protocol() byte {
	if at := p.ip + p.layout().protocol; at < len(p.bytes) {
		return p.bytes[at]
	}
	return 0
}

// isTruncated: some of its bytes are not recorded.
func (p *packet) isTruncated() bool { return len(p.bytes) < p.length }

// flowOf identifies the flow and the direction of a packet.
type flowOf struct {
	direction, protocol byte
	addr                int      // length of an address, bytes
	ends                [36]byte // addresses and ports
}

func (p *packet) flow() (f flowOf) {
	at := p.layout()
	f.direction, f.protocol, f.addr = p.Direction, p.protocol(), at.addr
	copy(f.ends[:2*at.addr+4], p.bytes[p.ip+at.addrs:])
	return f
}

// podFlow is the flow of a packet that would be sent as the pod sees it: what it sends is not
// translated yet in the packet that is there.
func (p *packet) podFlow(is []byte) flowOf {
	f := p.flow()
	if p.Direction != 0 {
		return f.reversed()
	}
	ends := int(p.Replaces) - int(p.Headers-p.Ip) + p.layout().addrs
	copy(f.ends[:2*f.addr+4], is[max(ends, 0):])
	return f
}

// reversed is the same flow in the direction out of the pod.
func (f flowOf) reversed() flowOf {
	to, n := flowOf{protocol: f.protocol, addr: f.addr}, f.addr
	copy(to.ends[:n], f.ends[n:2*n])
	copy(to.ends[n:2*n], f.ends[:n])
	copy(to.ends[2*n:2*n+2], f.ends[2*n+2:2*n+4])
	copy(to.ends[2*n+2:2*n+4], f.ends[2*n:2*n+2])
	return to
}

func (f flowOf) String() string {
	n := f.addr
	end := func(addr, port int) netip.AddrPort {
		from, _ := netip.AddrFromSlice(f.ends[addr : addr+n])
		return netip.AddrPortFrom(from, binary.BigEndian.Uint16(f.ends[port:]))
	}
	name := map[byte]string{tcp: "TCP", udp: "UDP"}[f.protocol]
	return fmt.Sprintf("%s %v > %v", name, end(0, 2*n), end(n, 2*n+2))
}

// sum is the checksum of words, not complemented.
func sum(b []byte) uint16 {
	var total uint64
	for ; len(b) > 1; b = b[2:] {
		total += uint64(binary.BigEndian.Uint16(b))
	}
	if len(b) > 0 {
		total += uint64(b[0]) << 8
	}
	for total > 0xffff {
		total = total&0xffff + total>>16
	}
	return uint16(total)
}

// complete completes the checksum of the transport header, as the device does that sends it.
func (p *packet) complete() {
	if p.Partial == 0 || p.isTruncated() {
		return
	}
	at := p.transport + udpCheck
	if p.protocol() == tcp {
		at = p.transport + tcpCheck
	}
	if at+2 > len(p.bytes) {
		return
	}
	p.Partial = 0
	check := ^sum(p.bytes[p.transport:]) // the field has the sum of the addresses
	if check == 0 && p.protocol() == udp {
		check = 0xffff
	}
	binary.BigEndian.PutUint16(p.bytes[at:], check)
}
