package e2e

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"
)

// view writes frames down as text which is the same for every path of a lab:
// addresses are those of a role. What a card or the receiver has yet to cut is cut.
type view struct {
	index int // of the path in the lab
	vni   uint32
	port  uint16             // of tunnels, UDP
	nodes map[netip.Addr]int // the machines by their addresses on the wire
	wire  bool               // frames are of the wire, where checksums of payloads are in every state
}

// mac names the addresses of a path by machine and role.
func (v view) mac(b []byte) string {
	if b[0] == 0x0a && b[1] == 0x76 && int(b[2])<<8|int(b[3]) == v.index {
		return fmt.Sprintf("m%d/%02x", b[4]+1, b[5])
	}
	return net.HardwareAddr(b).String()
}

// ip names the addresses of a path by machine and number.
func (v view) ip(b []byte) string {
	addr := netip.AddrFrom4([4]byte(b))
	if n := v.nodes[addr]; n != 0 {
		return fmt.Sprintf("m%d", n)
	}
	const block, machines = 64, 2
	if n := int(b[2])<<8 | int(b[3]); b[0] == 10 && b[1] == 244 && n/block/machines == v.index {
		return fmt.Sprintf("m%d.%d", n/block%machines+1, n%block)
	}
	return addr.String()
}

// isNoise tells whether a frame belongs to the traffic of pods. Machines and pods ask
// for addresses, and announce what they are there for, when they like.
func isNoise(b []byte) bool {
	if len(b) < ethLen+1 {
		return true
	}
	if isTag(b[12:]) && len(b) > ethLen+tagLen {
		return isNoise(b[tagLen:]) // where addresses are is not looked at
	}
	switch kind := binary.BigEndian.Uint16(b[12:]); {
	case kind == unix.ETH_P_ARP, kind == unix.ETH_P_IPV6:
		return false
	case kind == unix.ETH_P_IP && len(b) > ethLen+ipLen+1 && b[ethLen+9] == unix.IPPROTO_IGMP:
		return b[ethLen+1] != fromKernel
	case kind == unix.ETH_P_IP && len(b) > ethLen+ipLen+1 && b[ethLen+9] == unix.IPPROTO_ICMP:
		// Fragments that never become whole, and addresses that nobody has, are given
		// up long after; and of ways that are not there only the first few are told.
		kind, code := b[ethLen+ipLen], b[ethLen+ipLen+1]
		// Redirects are told to a source the rarer the more of them it was told, whichever the case.
		told := b[ethLen+1] == fromKernel && (kind == 3 && code <= 1 || kind == 5)
		return (kind != 11 || code != 1) && !told
	}
	return true
}

// isTag tells whether a VLAN tag begins here.
func isTag(b []byte) bool {
	kind := binary.BigEndian.Uint16(b)
	return kind == unix.ETH_P_8021Q || kind == unix.ETH_P_8021AD
}

// fromKernel is the TOS of what the kernel tells by itself.
const fromKernel = 0xc0

// read gives a line for each packet that a frame is, or is to be cut into.
func (v view) read(f frame) (lines []string) {
	var line string
	v.ether(f, f.bytes, func(s string) { line += s }, func(each []string) {
		for _, one := range each {
			lines = append(lines, line+one)
		}
	})
	return lines
}

// ether reads a header of Ethernet. say adds to the line of all packets of a
// frame, and end gives what each of them ends with.
func (v view) ether(f frame, b []byte, say func(string), end func([]string)) {
	if len(b) < ethLen {
		end([]string{fmt.Sprintf("short frame %x", b)})
		return
	}
	say(v.mac(b[6:12]) + ">" + v.mac(b[:6]))
	kind, b := binary.BigEndian.Uint16(b[12:]), b[ethLen:]
	for (kind == unix.ETH_P_8021Q || kind == unix.ETH_P_8021AD) && len(b) >= tagLen {
		say(fmt.Sprintf(" tag %x:%x", kind, binary.BigEndian.Uint16(b)))
		kind, b = binary.BigEndian.Uint16(b[2:]), b[tagLen:]
	}
	if kind != unix.ETH_P_IP {
		end([]string{fmt.Sprintf(" type %04x %d:%08x", kind, len(b), crc32.ChecksumIEEE(b))})
		return
	}
	v.packet(f, b, say, end)
}

// packet reads an IPv4 packet. What stands behind it in a frame is padding, which
// its receiver does not look at.
func (v view) packet(f frame, b []byte, say func(string), end func([]string)) {
	if len(b) < ipLen || int(b[0]&15)*4 < ipLen || len(b) < int(b[0]&15)*4 {
		end([]string{fmt.Sprintf(" bad ip %d:%08x", len(b), crc32.ChecksumIEEE(b))})
		return
	}
	head := int(b[0]&15) * 4
	length, id, frag := int(binary.BigEndian.Uint16(b[2:])), binary.BigEndian.Uint16(b[4:]), binary.BigEndian.Uint16(b[6:])
	tunnel := v.wire && b[9] == unix.IPPROTO_UDP && len(b) >= head+udpLen && binary.BigEndian.Uint16(b[head+2:]) == v.port
	say(fmt.Sprintf(" v%d tos%02x frag%04x ttl%d %s>%s", b[0]>>4, b[1], frag, b[8], v.ip(b[12:]), v.ip(b[16:])))
	if head > ipLen {
		say(" options" + options(b[ipLen:head]))
	}
	if onesComplementSum(0, b[:head]) != 0xffff {
		say(" bad-ip-sum")
	}
	switch {
	case length > len(b):
		say(fmt.Sprintf(" short by %d", length-len(b)))
	case length < head:
		say(fmt.Sprintf(" length %d", length))
	default:
		b = b[:length]
	}
	if tunnel && frag&^dontFragment == 0 {
		v.tunnel(f, b[head:], say, end)
		return
	}
	if v.wire && b[9] == unix.IPPROTO_IPIP && frag&^dontFragment == 0 { // its number may differ
		say(" ")
		v.packet(f, b[head:], say, end)
		return
	}
	whole := packet{head: b[:head], body: b[head:], id: id}
	switch {
	case frag&^dontFragment != 0:
		end([]string{fmt.Sprintf(" id%04x proto%d %s", id, b[9], opaque(whole.body))})
	case b[9] == unix.IPPROTO_UDP && len(whole.body) >= udpLen:
		end(v.udp(f, whole))
	case b[9] == unix.IPPROTO_TCP && len(whole.body) >= tcpLen && int(whole.body[12]>>4)*4 <= len(whole.body):
		end(v.tcp(f, whole))
	case b[9] == unix.IPPROTO_ICMP && len(whole.body) >= 8:
		end([]string{v.icmp(whole)})
	default:
		end([]string{fmt.Sprintf(" id%04x proto%d %s", id, b[9], opaque(whole.body))})
	}
}

// packet is one of IPv4 that has been cut into header and rest.
type packet struct {
	head, body []byte
	id         uint16
}

// tunnel reads what VXLAN or Geneve puts around a frame, but for what may differ: source port,
// checksum, and the number of the outer packet.
func (v view) tunnel(f frame, b []byte, say func(string), end func([]string)) {
	if len(b) < udpLen+vxlanLen {
		end([]string{" short tunnel"})
		return
	}
	if int(binary.BigEndian.Uint16(b[4:])) != len(b) {
		say(" bad-udp-length")
	}
	vni := binary.BigEndian.Uint32(b[udpLen+4:])
	if vni>>8 == v.vni {
		say(fmt.Sprintf(" tunnel(%x own %x)", b[udpLen:udpLen+4], vni&0xff))
	} else {
		say(fmt.Sprintf(" tunnel(%x %x)", b[udpLen:udpLen+4], vni))
	}
	say(" ")
	v.ether(f, b[udpLen+vxlanLen:], say, end)
}

// udp gives a line for each datagram.
func (v view) udp(f frame, p packet) (lines []string) {
	ports := fmt.Sprintf(" udp %d>%d", binary.BigEndian.Uint16(p.body), binary.BigEndian.Uint16(p.body[2:]))
	if f.GSO&^gsoECN != gsoUDP {
		length := int(binary.BigEndian.Uint16(p.body[4:]))
		if length != len(p.body) {
			ports += fmt.Sprintf(" length%+d", length-len(p.body))
		}
		return []string{fmt.Sprintf(" id%04x%s%s %s", p.id, ports, v.sum(f, p, udpSum), data(p.body[udpLen:]))}
	}
	for i, part := range slice(p.body[udpLen:], int(f.Size)) {
		lines = append(lines, fmt.Sprintf(" id%04x%s%s %s", p.id+uint16(i), ports, v.sum(f, p, udpSum), data(part)))
	}
	return lines
}

// tcp gives a line for each segment.
func (v view) tcp(f frame, p packet) (lines []string) {
	b := p.body
	head := int(b[12]>>4) * 4
	if head < tcpLen {
		return []string{fmt.Sprintf(" id%04x bad tcp %s", p.id, opaque(b))}
	}
	size := len(b) // of what is cut
	if f.GSO&^gsoECN == gsoTCP {
		size = int(f.Size)
	}
	parts := slice(b[head:], size)
	for i, part := range parts {
		flags := b[13]
		if i > 0 {
			flags &^= cwr
		}
		if i < len(parts)-1 {
			flags &^= fin | psh
		}
		lines = append(lines, fmt.Sprintf(" id%04x tcp %d>%d seq%d ack%d flags%02x window%d urgent%d options %x%s %s", p.id+uint16(i),
			binary.BigEndian.Uint16(b), binary.BigEndian.Uint16(b[2:]), binary.BigEndian.Uint32(b[4:])+uint32(i*size), binary.BigEndian.Uint32(b[8:]),
			flags, binary.BigEndian.Uint16(b[14:]), binary.BigEndian.Uint16(b[18:]), b[tcpLen:head], v.sum(f, p, tcpSum), data(part)))
	}
	return lines
}

// slice cuts what a card would cut.
func slice(b []byte, size int) (parts [][]byte) {
	if size == 0 {
		return [][]byte{b}
	}
	for len(b) > size {
		parts, b = append(parts, b[:size]), b[size:]
	}
	return append(parts, b)
}

func data(b []byte) string { return fmt.Sprintf("%d:%08x", len(b), crc32.ChecksumIEEE(b)) }

// sum tells what the receiver takes a checksum for.
func (v view) sum(f frame, p packet, offset int) string {
	switch {
	case v.wire:
		return ""
	case f.Flags&needsSum != 0:
		return " sum" // its receiver takes it as it is
	case offset == udpSum && binary.BigEndian.Uint16(p.body[offset:]) == 0:
		return " no-sum"
	case onesComplementSum(pseudo(p.head[12:16], p.head[16:20], p.head[9], len(p.body)), p.body) == 0xffff:
		return " sum"
	case f.Flags&sumLooked != 0:
		return " trusted-sum" // and it is wrong
	}
	return " bad-sum"
}

// icmp writes a message down, and the packet that it is about. An error has the
// number that its sender came to.
func (v view) icmp(p packet) string {
	b := p.body
	text := fmt.Sprintf(" icmp %d/%d", b[0], b[1])
	if onesComplementSum(0, b) != 0xffff {
		text += " bad-sum"
	}
	switch b[0] {
	case 0:
		return text + fmt.Sprintf(" %x %s", b[4:8], data(b[8:]))
	case 3, 4, 11, 12:
		text += fmt.Sprintf(" %x", b[4:8])
	case 5:
		text += " " + v.ip(b[4:8])
	case 14: // in it are times
		return text + fmt.Sprintf(" %x %d bytes", b[4:8], len(b)-8)
	default:
		return text + fmt.Sprintf(" id%04x %x %s", p.id, b[4:8], data(b[8:]))
	}
	about := b[8:]
	if len(about) < ipLen || len(about) < int(about[0]&15)*4 {
		return text + " about " + opaque(about)
	}
	head := int(about[0]&15) * 4
	return text + fmt.Sprintf(" about v%x tos%02x length%d id%04x frag%04x ttl%d proto%d %s>%s%s %s", about[0],
		about[1], binary.BigEndian.Uint16(about[2:]), binary.BigEndian.Uint16(about[4:]), binary.BigEndian.Uint16(about[6:]), about[8], about[9],
		v.ip(about[12:]), v.ip(about[16:]), options(about[ipLen:max(head, ipLen)]), opaque(about[head:]))
}

// opaque writes down what may hold a checksum of TCP or UDP, which is of the addresses
// too, or may not be computed yet: so the first bytes are left out.
func opaque(b []byte) string {
	return fmt.Sprintf("%d:%08x", len(b), crc32.ChecksumIEEE(b[min(len(b), tcpLen):]))
}

// options writes down those of an IP header: what they gather on the way is left
// out, it is addresses and times.
func options(b []byte) (text string) {
	for len(b) > 0 {
		n := 1
		if b[0] > 1 && len(b) > 1 {
			n = max(1, min(int(b[1]), len(b)))
		}
		text += fmt.Sprintf(" %x", b[:min(n, 3)])
		b = b[n:]
	}
	return text
}
