package node_test

import (
	"net"

	"github.com/gopacket/gopacket/layers"
)

// MACs of the nodes on the wire, and of their tunnels over IPv6. The last ones are of another peer of the second node.
var (
	wireMACs   = [3]net.HardwareAddr{{2, 0, 0, 0, 0xc8, 1}, {2, 0, 0, 0, 0xc8, 2}, {2, 0, 0, 0, 0xc8, 9}}
	tunnelMACs = [3]net.HardwareAddr{{2, 0, 0, 0, 0xc6, 1}, {2, 0, 0, 0, 0xc6, 2}, {2, 0, 0, 0, 0xc6, 9}}
)

// tunnelLen is that of the headers around a frame in a tunnel: Ethernet, IPv6, UDP and VXLAN.
const tunnelLen = ethLen + ip6Len + 8 + 8

// forward makes a packet one that the first node has sent to the second.
func (s *replayScene) forward(p *replayPacket) {
	p.ip6.HopLimit--
	p.eth.SrcMAC, p.eth.DstMAC = wireMACs[0], wireMACs[1]
	if s.tunnelPort == 0 {
		return
	}
	p.tunnel = &replayPacket{
		eth: p.eth, ip: layers.IPv4{Protocol: layers.IPProtocolUDP},
		ip6:     &layers.IPv6{Version: 6, HopLimit: 64, SrcIP: net.ParseIP("fd00:c8::1"), DstIP: net.ParseIP("fd00:c8::2")},
		udp:     layers.UDP{SrcPort: 50000, DstPort: s.tunnelPort},
		payload: []byte{1 << 3, 0, 0, 0, 0, 0, 1, 0}, // the header of VXLAN: there is a VNI, and it is 1
	}
	p.eth.SrcMAC, p.eth.DstMAC = tunnelMACs[0], tunnelMACs[1]
}
