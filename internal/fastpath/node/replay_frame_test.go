package node_test

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"github.com/venturi-net/venturi/internal/testenv"
)

// offload is struct virtio_net_hdr.
type offload struct {
	Flags, GSO          uint8
	HeaderLen, Size     uint16
	SumStart, SumOffset uint16
}

type replayPacket struct {
	eth     layers.Ethernet
	ip      layers.IPv4
	ip6     *layers.IPv6 // in its place
	udp     layers.UDP
	tcp     layers.TCP
	icmp6   layers.ICMPv6
	payload gopacket.Payload
	tunnel  *replayPacket // whose payload ends in it; nil: there is none
}

const (
	needsSum, sumLooked   = 1, 2 // in Flags
	gsoTCP6, gsoUDP       = 4, 5
	offloadLen            = 10
	ethLen, ipLen, ip6Len = 14, 20, 40
)

func (p *replayPacket) bytes(t *testing.T) []byte {
	t.Helper()
	var ip interface {
		gopacket.NetworkLayer
		gopacket.SerializableLayer
	} = &p.ip
	if p.ip6 != nil {
		p.ip6.NextHeader = p.ip.Protocol
		ip = p.ip6
	}
	all := []gopacket.SerializableLayer{&p.eth, ip, &p.udp, p.payload}
	switch p.ip.Protocol {
	case layers.IPProtocolTCP:
		all[2] = &p.tcp
	case layers.IPProtocolICMPv6:
		all[2] = &p.icmp6
	}
	testenv.Must(t, p.udp.SetNetworkLayerForChecksum(ip))
	testenv.Must(t, p.tcp.SetNetworkLayerForChecksum(ip))
	testenv.Must(t, p.icmp6.SetNetworkLayerForChecksum(ip))
	b := gopacket.NewSerializeBuffer()
	testenv.Must(t, gopacket.SerializeLayers(b, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, all...))
	return bytes.Clone(b.Bytes())
}

// isNeighbours: pods and node ask for each other's MACs when they like, and tell of groups. Over IPv6 a node
// also tells pods of shorter ways, once a second.
func isNeighbours(frame []byte) bool {
	if len(frame) <= ethLen+ip6Len {
		return len(frame) > ethLen && frame[12] == 8 && frame[13] == 6
	}
	const icmp6, solicitation, redirect = 58, 133, 137
	if frame[12] != 0x86 || frame[13] != 0xdd {
		return frame[12] == 8 && frame[13] == 6
	}
	kind := frame[ethLen+ip6Len:]
	switch frame[ethLen+6] {
	case 0: // in front of a report of groups are options
		return kind[0] == icmp6
	case icmp6:
		return kind[0] >= solicitation && kind[0] <= redirect
	}
	return false
}

// isOf tells a protocol of IP.
func isOf(frame []byte, protocol byte) bool {
	if len(frame) > ethLen+ip6Len && frame[12] == 0x86 && frame[13] == 0xdd {
		return frame[ethLen+6] == protocol
	}
	return len(frame) > ethLen+ipLen && frame[ethLen+9] == protocol
}

// normalize leaves out of a frame what may differ: the ID of the packet around an ICMP message of the node's own, which
// the node counts; and that somebody has looked at the checksums, if they are right.
func normalize(frame []byte) []byte {
	frame = bytes.Clone(frame)
	if ip := frame[offloadLen+ethLen:]; len(ip) >= ipLen && ip[0]>>4 == 4 && ip[9] == 1 {
		clear(ip[4:6])
		clear(ip[10:12])
	}
	if hasRightSum6(frame[offloadLen:]) {
		frame[0] &^= sumLooked
	}
	return frame
}

// hasRightSum6 tells whether a frame is a packet of IPv6 whose transport has the right checksum.
func hasRightSum6(frame []byte) bool {
	if len(frame) < ethLen+ip6Len || frame[ethLen]>>4 != 6 {
		return false
	}
	length := int(binary.BigEndian.Uint16(frame[ethLen+4:]))
	end := ethLen + ip6Len + length
	return len(frame) >= end && onesComplementSum(uint32(frame[ethLen+6])+uint32(length), frame[ethLen+8:end]) == 0xffff
}

// onesComplementSum is the sum of words in ones' complement.
func onesComplementSum(start uint32, b []byte) uint16 {
	sum := start
	for ; len(b) > 1; b = b[2:] {
		sum += uint32(binary.BigEndian.Uint16(b))
	}
	if len(b) > 0 {
		sum += uint32(b[0]) << 8
	}
	sum = sum&0xffff + sum>>16
	return uint16(sum) + uint16(sum>>16)
}

// withoutPadding leaves out what is behind a packet of IPv6 in a frame.
func withoutPadding(frame []byte) []byte {
	if ip := frame[offloadLen+ethLen:]; len(ip) >= ip6Len && ip[0]>>4 == 6 {
		if length := binary.BigEndian.Uint16(ip[4:]); length > 0 {
			return frame[:min(len(frame), offloadLen+ethLen+ip6Len+int(length))]
		}
	}
	return frame
}
