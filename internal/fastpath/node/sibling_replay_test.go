package node_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/traffic"
)

// MACs of the pods of one node, and of their gateways.
var (
	clientMAC  = net.HardwareAddr{2, 0, 0, 0, 0xee, 2}
	siblingMAC = net.HardwareAddr{2, 0, 0, 0, 0xee, 3}
	gatewayMAC = net.HardwareAddr{2, 0, 0, 0, 0xdd, 1}
)

const replayPort = 20001

// siblingScene is a node with two pods, between which frames are sent as they are.
type siblingScene struct {
	*siblingNode
	t           *testing.T
	isFast      bool
	client, pod int    // sockets of their devices
	to          string // an address that leads to the second pod
	gateway     net.HardwareAddr
	marks       uint32
	lastCarried uint64
}

// replayedSibling is a frame of the first pod: what is changed of its layers, and of their bytes.
type replayedSibling struct {
	name    string
	change  func(s *siblingScene, p *replayPacket)
	bytes   func(frame []byte) []byte
	offload offload // what is still to be done with it
}

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
	payload gopacket.Payload
}

const (
	needsSum, gsoTCP, gsoUDP = 1, 1, 5
	ethLen, ipLen, ip6Len    = 14, 20, 40
)

var siblingReplays = []replayedSibling{
	{name: "plain"},
	{name: "empty", change: func(_ *siblingScene, p *replayPacket) { p.payload = nil }},
	{name: "largest", change: func(_ *siblingScene, p *replayPacket) { p.payload = make([]byte, 1400-28) }},
	{name: "too large", change: func(_ *siblingScene, p *replayPacket) { p.payload = make([]byte, 1401-28) }},
	{name: "too large, may be cut", change: func(_ *siblingScene, p *replayPacket) { p.payload, p.ip.Flags = make([]byte, 1401-28), 0 }},
	{name: "may be cut", change: func(_ *siblingScene, p *replayPacket) { p.ip.Flags = 0 }},
	{name: "TOS", change: func(_ *siblingScene, p *replayPacket) { p.ip.TOS = 0xb8 }},
	{name: "congestion", change: func(_ *siblingScene, p *replayPacket) { p.ip.TOS = 3 }},
	{name: "TTL 2", change: func(_ *siblingScene, p *replayPacket) { p.ip.TTL = 2 }},
	{name: "TTL 1", change: func(_ *siblingScene, p *replayPacket) { p.ip.TTL = 1 }},
	{name: "TTL 255", change: func(_ *siblingScene, p *replayPacket) { p.ip.TTL = 255 }},
	{name: "options", change: func(_ *siblingScene, p *replayPacket) { p.ip.Options = []layers.IPv4Option{{OptionType: 1}} }},
	{name: "fragment", change: func(_ *siblingScene, p *replayPacket) { p.ip.Flags, p.ip.FragOffset = 0, 100 }},
	{name: "from another address", change: func(_ *siblingScene, p *replayPacket) { p.ip.SrcIP = net.IP{10, 244, 1, 77} }},
	{name: "from another MAC", change: func(_ *siblingScene, p *replayPacket) { p.eth.SrcMAC = net.HardwareAddr{2, 0, 0, 0, 0xee, 9} }},
	{name: "to another MAC", change: func(_ *siblingScene, p *replayPacket) { p.eth.DstMAC = net.HardwareAddr{2, 0, 0, 0, 0xee, 9} }},
	{name: "to the gateway's MAC", change: func(s *siblingScene, p *replayPacket) { p.eth.DstMAC = s.gateway }},
	{name: "to the pod's MAC", change: func(_ *siblingScene, p *replayPacket) { p.eth.DstMAC = siblingMAC }},
	{name: "to all", change: func(_ *siblingScene, p *replayPacket) { p.eth.DstMAC = net.HardwareAddr{255, 255, 255, 255, 255, 255} }},
	{name: "to another port", change: func(_ *siblingScene, p *replayPacket) { p.udp.DstPort++ }},
	{name: "from another port", change: func(_ *siblingScene, p *replayPacket) { p.udp.SrcPort++ }},
	{name: "padded", bytes: func(f []byte) []byte { return append(f, make([]byte, 9)...) }},
	{name: "cut short", bytes: func(f []byte) []byte { return f[:len(f)-5] }},
	{name: "tagged", bytes: func(f []byte) []byte { return slices.Insert(f, 12, 0x81, 0, 0, 5) }},
	{name: "no checksum", bytes: func(f []byte) []byte { f[ethLen+ipLen+6], f[ethLen+ipLen+7] = 0, 0; return f }},
	{name: "wrong length of UDP", bytes: func(f []byte) []byte { f[ethLen+ipLen+5]++; return f }},
	{name: "checksum to be completed", bytes: partialSum, offload: offload{Flags: needsSum, SumStart: ethLen + ipLen, SumOffset: 6}},
	{name: "large one that a device cuts", change: func(_ *siblingScene, p *replayPacket) { p.payload = make([]byte, 5000) }, bytes: partialSum,
		offload: offload{Flags: needsSum, GSO: gsoUDP, HeaderLen: ethLen + ipLen + 8, Size: 1000, SumStart: ethLen + ipLen, SumOffset: 6}},
	{name: "large one whose parts are too large", change: func(_ *siblingScene, p *replayPacket) { p.payload = make([]byte, 5000) }, bytes: partialSum,
		offload: offload{Flags: needsSum, GSO: gsoUDP, HeaderLen: ethLen + ipLen + 8, Size: 1380, SumStart: ethLen + ipLen, SumOffset: 6}},
	{name: "opens a connection", change: tcpWith(func(l *layers.TCP) { l.SYN = true })},
	{name: "of no connection", change: tcpWith(func(l *layers.TCP) { l.ACK = true })},
	{name: "resets one", change: tcpWith(func(l *layers.TCP) { l.RST = true })},
}

func tcpWith(change func(*layers.TCP)) func(*siblingScene, *replayPacket) {
	return func(_ *siblingScene, p *replayPacket) {
		p.ip.Protocol = layers.IPProtocolTCP
		change(&p.tcp)
	}
}

// partialSum leaves the checksum of UDP to a device: the field has the sum of the addresses.
func partialSum(f []byte) []byte {
	ip := f[ethLen : ethLen+ipLen]
	total := uint32(17) + uint32(len(f)-ethLen-ipLen)
	for i := 12; i < ipLen; i += 2 {
		total += uint32(binary.BigEndian.Uint16(ip[i:]))
	}
	binary.BigEndian.PutUint16(f[ethLen+ipLen+6:], uint16(total)+uint16(total>>16))
	return f
}

func newSiblingScene(t *testing.T, w siblingWiring, to string, fast bool) *siblingScene {
	b := newSibling(t, w)
	s := &siblingScene{siblingNode: b, t: t, isFast: fast, to: to, gateway: gatewayMAC}
	// Both nodes have the same addresses, and nobody else asks for any.
	testenv.Shell(t, b.pods[0].Path(), "ip link set eth0 address "+clientMAC.String()+"; ip route flush cache")
	if w.routed {
		s.gateway = net.HardwareAddr{0xee, 0xee, 0xee, 0xee, 0xee, 0xee}
		testenv.Shell(t, b.nodes[0].Path(), "ip link set veth0 address ee:ee:ee:ee:ee:ee; ip link set veth9 address ee:ee:ee:ee:ee:ee")
	}
	testenv.Shell(t, b.nodes[0].Path(), "ip neigh flush all; ip link set dev veth0 up")
	if w.services {
		testenv.Shell(t, b.nodes[0].Path(), "nft 'table ip service { chain c { type nat hook prerouting priority -100; ip daddr 10.96.0.10 udp dport 53 dnat to 10.244.1.3:7777; }; }'")
	}
	for _, pod := range []string{b.pods[0].Path(), b.pod.Path()} {
		testenv.Shell(t, pod, "ip neigh flush all; ping -c 1 -W 5 "+b.nodeAddr+" >/dev/null; nft 'table inet quiet { chain c { type filter hook input priority 0; meta l4proto tcp drop; }; }'")
	}
	b.openUDP(t, b.pods[0], b.clientAt(replayPort), "") // answers have somewhere to go
	b.openUDP(t, b.pods[0], b.clientAt(replayPort+9), "")
	for _, namespace := range []string{b.nodes[0].Path(), b.pods[0].Path(), b.pod.Path()} { // which of many errors are told would be chance
		testenv.Shell(t, namespace, `cd /proc/sys/net/ipv4; echo 0 > icmp_ratelimit; echo 1000000 > icmp_msgs_per_sec; echo 1000000 > icmp_msgs_burst; echo 0 > conf/all/send_redirects; for d in conf/*; do echo 0 > $d/send_redirects; done
			cd /proc/sys/net/ipv6; echo 0 > icmp/ratelimit; echo 0 > auto_flowlabels`)
	}
	// So would be how many packets to a Service that are not translated are told that there is no route.
	testenv.Shell(t, b.nodes[0].Path(), "ip route add blackhole 10.96.0.0/12")
	s.client, s.pod = s.open(b.pods[0].Path()), s.open(b.pod.Path())
	testenv.Shell(t, b.pod.Path(), "ip link set eth0 mtu 1400")
	testenv.Shell(t, b.nodes[0].Path(), "ip link set veth9 mtu 1400")
	if fast {
		b.carry(t)
	}
	flushConntrack(t, b.nodes[0])
	return s
}

func (s *siblingScene) open(namespace string) int {
	fd := traffic.OpenTap(s.t, namespace, "eth0")
	s.t.Cleanup(func() { unix.Close(fd) })
	for _, o := range []int{unix.PACKET_VNET_HDR, unix.PACKET_IGNORE_OUTGOING} {
		testenv.Must(s.t, unix.SetsockoptInt(fd, unix.SOL_PACKET, o, 1))
	}
	return fd
}

// packet is one of the flow, as its pod sends it.
func (s *siblingScene) packet(payload string) *replayPacket {
	to, err := netip.ParseAddrPort(s.to)
	testenv.Must(s.t, err)
	port := to.Port()
	p := &replayPacket{
		eth: layers.Ethernet{SrcMAC: clientMAC, DstMAC: s.gateway, EthernetType: layers.EthernetTypeIPv4},
		ip:  layers.IPv4{Version: 4, TTL: 64, Id: 4711, Protocol: layers.IPProtocolUDP, Flags: layers.IPv4DontFragment, SrcIP: s.clientAddr.AsSlice(), DstIP: to.Addr().AsSlice()},
		udp: layers.UDP{SrcPort: replayPort, DstPort: layers.UDPPort(port)}, tcp: layers.TCP{SrcPort: replayPort, DstPort: layers.TCPPort(port), Seq: 1, Window: 100},
		payload: []byte(payload),
	}
	if s.isIPv6() {
		p.eth.EthernetType = layers.EthernetTypeIPv6
		p.ip6 = &layers.IPv6{Version: 6, HopLimit: 64, FlowLabel: 0x54321, SrcIP: p.ip.SrcIP, DstIP: p.ip.DstIP}
	}
	if to.Addr() == s.podAddr && s.gateway[0] != 0xee {
		p.eth.DstMAC = siblingMAC
	}
	return p
}

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
	if p.ip.Protocol == layers.IPProtocolTCP {
		all[2] = &p.tcp
	}
	testenv.Must(t, p.udp.SetNetworkLayerForChecksum(ip))
	testenv.Must(t, p.tcp.SetNetworkLayerForChecksum(ip))
	b := gopacket.NewSerializeBuffer()
	testenv.Must(t, gopacket.SerializeLayers(b, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, all...))
	return bytes.Clone(b.Bytes())
}

func (s *siblingScene) send(frame []byte, o offload) {
	s.t.Helper()
	head, err := binary.Append(nil, binary.LittleEndian, o)
	testenv.Must(s.t, err)
	if _, err := unix.Writev(s.client, [][]byte{head, frame}); err != nil {
		s.t.Fatalf("send %d bytes: %v", len(frame), err)
	}
}

// arrivals waits until what was sent has arrived or never will: behind it a mark is sent which is
// carried, and one which is not. It gives what both pods got, in no order.
func (s *siblingScene) arrivals() (lines []string) {
	s.t.Helper()
	s.marks++
	mark := fmt.Sprintf("mark %d", s.marks)
	for _, from := range []layers.UDPPort{replayPort, replayPort + 9} {
		p := s.packet(mark)
		p.udp.SrcPort = from
		s.send(p.bytes(s.t), offload{})
	}
	seen := 0
	for end := time.Now().Add(testenv.Timeout); seen < 2; {
		for name, fd := range map[string]int{"client": s.client, "pod": s.pod} {
			for buf := make([]byte, 1<<17); ; {
				n, _, err := unix.Recvfrom(fd, buf, 0)
				if err != nil {
					break
				}
				switch frame := buf[:n]; {
				case bytes.Contains(frame, []byte("mark ")):
					if name == "pod" && bytes.Contains(frame, []byte(mark)) {
						seen++
					}
				case isNeighbours(frame[10:]), isOf(frame[10:], 2), name == "client" && (isOf(frame[10:], 17) || isOf(frame[10:], fragmentHeader)),
					name == "pod" && (isOf(frame[10:], 1) || isOf(frame[10:], 58)):
				default:
					lines = append(lines, name+": "+hex.EncodeToString(withoutID(frame)))
				}
			}
		}
		if time.Now().After(end) {
			s.t.Fatalf("what is sent to mark the end does not arrive; there came %q", lines)
		}
		_, _ = unix.Poll([]unix.PollFd{{Fd: int32(s.pod), Events: unix.POLLIN}}, 10)
	}
	slices.Sort(lines)
	return lines
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

// isOf tells a protocol of IP. The second pod answers what reaches its socket, over UDP, and gets ICMP if
// nobody takes the answer.
func isOf(frame []byte, protocol byte) bool {
	if len(frame) > ethLen+ip6Len && frame[12] == 0x86 && frame[13] == 0xdd {
		return frame[ethLen+6] == protocol
	}
	return len(frame) > ethLen+ipLen && frame[ethLen+9] == protocol
}

// withoutID clears what the node counts in an ICMP message of its own: the ID of the packet around.
func withoutID(frame []byte) []byte {
	frame = bytes.Clone(frame)
	if ip := frame[10+ethLen:]; len(ip) >= ipLen && ip[0]>>4 == 4 && ip[9] == 1 {
		clear(ip[4:6])
		clear(ip[10:12])
	}
	return frame
}

// Between pods of one node, the fast path delivers what the network does, byte for byte, and drops
// what it drops: whatever a pod sends while its flow is carried.
func TestSiblingReplays(t *testing.T) {
	for _, w := range siblingWirings[:3] {
		for _, to := range []string{w.server(), serviceAddress} {
			if to == serviceAddress && !w.services {
				continue
			}
			t.Run(w.name+", "+to, func(t *testing.T) { w.replay(t, to, siblingReplays) })
		}
	}
}

// replay compares what arrives of some cases with the fast path and without.
func (w siblingWiring) replay(t *testing.T, to string, cases []replayedSibling) {
	slow, fast := newSiblingScene(t, w, to, false), newSiblingScene(t, w, to, true)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			fast.warm()
			slow.warm()
			want, got := slow.play(c), fast.play(c)
			if !slices.Equal(got, want) {
				t.Errorf("there arrive\n%s\nwithout the fast path\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		})
	}
}

// play sends a case's frame.
func (s *siblingScene) play(c replayedSibling) []string {
	p := s.packet("payload of a case")
	if c.change != nil {
		c.change(s, p)
	}
	frame := p.bytes(s.t)
	if c.bytes != nil {
		frame = c.bytes(frame)
	}
	s.send(frame, c.offload)
	return s.arrivals()
}

// warm sends packets of the flow until they are carried.
func (s *siblingScene) warm() {
	s.t.Helper()
	p := s.packet("mark of none")
	for end := time.Now().Add(testenv.Timeout); ; {
		was := s.carriedBefore()
		for range 10 {
			s.send(p.bytes(s.t), offload{})
		}
		s.arrivals()
		if s.lastCarried = s.carriedBefore() - was; !s.isFast || s.lastCarried >= 11 { // and some answers
			return
		}
		if time.Now().After(end) {
			s.t.Fatalf("it is not carried: %d packets of 11: %+v", s.lastCarried, s.statusOfFamily(s.t).Stats)
		}
	}
}

// carriedBefore is how many packets were carried until now.
func (s *siblingScene) carriedBefore() uint64 {
	if !s.isFast {
		return 0
	}
	return s.carriedNow(s.t)
}
