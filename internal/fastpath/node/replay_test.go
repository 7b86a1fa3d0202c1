package node_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket/layers"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/traffic"
)

// MACs of the two pods, and of the first one's gateway: a bridge, or a node that routes to single pods.
var (
	clientMAC  = net.HardwareAddr{2, 0, 0, 0, 0xee, 2}
	serverMAC  = net.HardwareAddr{2, 0, 0, 0, 0xee, 3}
	gatewayMAC = net.HardwareAddr{2, 0, 0, 0, 0xdd, 1}
	routedMAC  = net.HardwareAddr{0xee, 0xee, 0xee, 0xee, 0xee, 0xee}
)

const replayPort = 20001

// replayScene has two pods, of one node or of two. To the second, frames are sent as they are.
type replayScene struct {
	*cluster
	podPair
	t       *testing.T
	name    string
	senders [2]int         // sockets that send
	taps    map[string]int // sockets that get what comes in: "client" and "pod" are those of the pods
	to      string         // an address that leads to the second pod
	gateway net.HardwareAddr
	nextHop net.HardwareAddr // of the first pod, on its way to the second
	// counts are of the packets that are carried on the way from a sender, at each place where they are.
	counts     func(by sender) []uint64
	tunnelPort layers.UDPPort // of VXLAN between two nodes; 0: there is none
	padded     bool           // the second pod may get padding from the wire, which nobody looks at
	unanswered bool           // the second pod does not answer packets of the flow
	marks      uint32
	connection layers.TCPPort // of the first pod, for the latest connection; 0: there are none
}

// sender is who sends a frame: the first pod, or the node that has forwarded it.
type sender int

const (
	byPod sender = iota
	byNode
)

// replayedFrame is a frame for the second pod: what is changed of its layers, and of their bytes.
type replayedFrame struct {
	name    string
	change  func(s *replayScene, p *replayPacket)
	bytes   func(frame []byte) []byte
	outer   func(frame []byte) []byte // changes the bytes of the frame that a tunnel puts around it
	offload offload                   // what is still to be done with it
	carried bool                      // it is, so that it is not two slow paths that are compared
	slow    bool                      // it is not: it is from somebody else, although it may arrive
}

// newReplayScene has two pods of a cluster ready for frames, and the nodes.
func newReplayScene(t *testing.T, c *cluster, pair podPair, second *netcfg.Namespace, to string, routed bool) *replayScene {
	t.Helper()
	s := &replayScene{cluster: c, podPair: pair, t: t, to: to, gateway: gatewayMAC, counts: func(sender) []uint64 { return nil }}
	// All scenes have the same addresses, and nobody else asks for any.
	first := c.pods[0]
	testenv.Shell(t, first.Path(), "ip link set eth0 address "+clientMAC.String()+"; ip route flush cache")
	for _, n := range c.nodes {
		if routed {
			s.gateway = routedMAC
			testenv.Shell(t, n.Path(), "ip link set veth0 address "+routedMAC.String())
		}
		testenv.Shell(t, n.Path(), "ip neigh flush all; ip link set dev veth0 up")
	}
	s.nextHop = s.gateway
	for _, pod := range []string{first.Path(), second.Path()} {
		testenv.Shell(t, pod, "ip neigh flush all; ping -c 1 -W 5 "+pair.nodeAddr+" >/dev/null; nft 'table inet quiet { chain c { type filter hook input priority 0; meta l4proto tcp drop; }; }'")
	}
	c.openUDP(t, first, pair.clientAt(replayPort), "") // answers have somewhere to go
	// Which of many errors are told would be chance.
	for _, namespace := range []string{c.nodes[0].Path(), c.nodes[1].Path(), first.Path(), second.Path()} {
		testenv.Shell(t, namespace, `cd /proc/sys/net/ipv4; echo 0 > icmp_ratelimit; echo 1000000 > icmp_msgs_per_sec; echo 1000000 > icmp_msgs_burst; echo 0 > conf/all/send_redirects; for d in conf/*; do echo 0 > $d/send_redirects; done
			cd /proc/sys/net/ipv6; echo 0 > icmp/ratelimit; echo 0 > auto_flowlabels`)
	}
	s.senders[byPod] = s.open(first)
	s.taps = map[string]int{"client": s.senders[byPod], "pod": s.open(second)}
	return s
}

func (s *replayScene) open(n *netcfg.Namespace) int {
	fd := traffic.OpenTap(s.t, n.Path(), "eth0")
	s.t.Cleanup(func() { unix.Close(fd) })
	for _, o := range []int{unix.PACKET_VNET_HDR, unix.PACKET_IGNORE_OUTGOING} {
		testenv.Must(s.t, unix.SetsockoptInt(fd, unix.SOL_PACKET, o, 1))
	}
	return fd
}

// packet is one of the flow, as its pod sends it.
func (s *replayScene) packet(payload string) *replayPacket {
	to, err := netip.ParseAddrPort(s.to)
	testenv.Must(s.t, err)
	port := to.Port()
	p := &replayPacket{
		eth: layers.Ethernet{SrcMAC: clientMAC, DstMAC: s.nextHop, EthernetType: layers.EthernetTypeIPv4},
		ip:  layers.IPv4{Version: 4, TTL: 64, Id: 4711, Protocol: layers.IPProtocolUDP, Flags: layers.IPv4DontFragment, SrcIP: s.clientAddr.AsSlice(), DstIP: to.Addr().AsSlice()},
		udp: layers.UDP{SrcPort: replayPort, DstPort: layers.UDPPort(port)}, tcp: layers.TCP{SrcPort: replayPort, DstPort: layers.TCPPort(port), Seq: 1, Window: 100},
		payload: []byte(payload),
	}
	if s.isIPv6() {
		p.eth.EthernetType = layers.EthernetTypeIPv6
		p.ip6 = &layers.IPv6{Version: 6, HopLimit: 64, FlowLabel: 0x54321, SrcIP: p.ip.SrcIP, DstIP: p.ip.DstIP}
	}
	return p
}

func (s *replayScene) send(by sender, frame []byte, o offload) {
	s.t.Helper()
	s.sendOn(s.senders[by], frame, o)
}

func (s *replayScene) sendOn(fd int, frame []byte, o offload) {
	s.t.Helper()
	head, err := binary.Append(nil, binary.LittleEndian, o)
	testenv.Must(s.t, err)
	if _, err := unix.Writev(fd, [][]byte{head, frame}); err != nil {
		s.t.Fatalf("send %d bytes: %v", len(frame), err)
	}
}

// arrivals waits until what was sent has arrived or never will: behind it a mark is sent which is carried, and one of
// a flow of its own, which is not. It gives what came to the taps, in no order.
func (s *replayScene) arrivals() (lines []string) {
	s.t.Helper()
	s.marks++
	mark := fmt.Sprintf("mark %d", s.marks)
	slow := s.packet(mark)
	slow.udp.SrcPort += 10 + layers.UDPPort(s.marks)
	marks := 4 // they arrive, and are answered
	if s.unanswered {
		slow.udp.DstPort, marks = answeredPort, 3
	}
	for _, p := range []*replayPacket{s.packet(mark), slow} {
		s.send(byPod, p.bytes(s.t), offload{})
	}
	seen, buf := 0, make([]byte, 1<<17)
	for end := time.Now().Add(testenv.Timeout); ; {
		last := seen >= marks // then all else is there, too
		for name, fd := range s.taps {
			for {
				n, _, err := unix.Recvfrom(fd, buf, 0)
				if err != nil {
					break
				}
				switch frame := buf[:n]; {
				case bytes.Contains(frame, []byte("mark ")):
					if name != "wire" && bytes.Contains(frame, []byte(mark)) {
						seen++
					}
				case s.isNoise(name, frame[offloadLen:]):
				default:
					if s.padded && name == "pod" {
						frame = withoutPadding(frame)
					}
					lines = append(lines, name+": "+hex.EncodeToString(normalize(frame)))
				}
			}
		}
		if last {
			slices.Sort(lines)
			return lines
		}
		if time.Now().After(end) {
			s.t.Fatalf("%s: what is sent to mark the end does not arrive; there came %q", s.name, lines)
		}
		if seen < marks {
			_, _ = unix.Poll([]unix.PollFd{{Fd: int32(s.taps["pod"]), Events: unix.POLLIN}, {Fd: int32(s.taps["client"]), Events: unix.POLLIN}}, 10)
		}
	}
}

// isNoise tells what comes to a tap whatever is sent, or at any time. The second pod answers what reaches its socket,
// over UDP, and gets ICMP if nobody takes the answer.
func (s *replayScene) isNoise(tap string, frame []byte) bool {
	if isNeighbours(frame) || isOf(frame, 2) {
		return true
	}
	switch tap {
	case "client":
		return isOf(frame, 17) || isOf(frame, fragmentHeader)
	case "wire":
		if s.tunnelPort != 0 {
			frame = frame[min(len(frame), tunnelLen):]
		}
	}
	return isOf(frame, 1) || isOf(frame, 58)
}

// play sends a case's frame. carried is how many packets were carried meanwhile, with the mark that is.
func (s *replayScene) play(c replayedFrame, by sender) (lines []string, carried uint64) {
	s.t.Helper()
	p := s.packet("payload of a case")
	if by == byNode {
		s.forward(p)
	}
	if c.change != nil {
		c.change(s, p)
	}
	frame := p.bytes(s.t)
	if c.bytes != nil {
		frame = c.bytes(frame)
	}
	if p.tunnel != nil {
		p.tunnel.payload = append(p.tunnel.payload, frame...)
		frame = p.tunnel.bytes(s.t)
	}
	if c.outer != nil {
		frame = c.outer(frame)
	}
	times, before := 1, s.counts(by)
	if c.carried {
		times = replayTimes
	}
	for range times {
		s.send(by, frame, c.offload)
	}
	lines = s.arrivals()
	return lines, s.leastRise(by, before)
}

// replayTimes is how often a frame is sent that is to be carried: more often than a mark.
const replayTimes = 10

// leastRise is by how much the counts of carried packets have risen, where they did least.
func (s *replayScene) leastRise(by sender, before []uint64) uint64 {
	least := uint64(math.MaxUint64) // without a fast path, nothing is missing
	for i, now := range s.counts(by) {
		least = min(least, now-before[i])
	}
	return least
}

// warm sends packets of the flow until they are carried, and opens a connection if there are any.
func (s *replayScene) warm() {
	s.t.Helper()
	p := s.packet("mark of none")
	for end := time.Now().Add(testenv.Timeout); ; {
		before := s.counts(byPod)
		for range replayTimes {
			s.send(byPod, p.bytes(s.t), offload{})
		}
		s.arrivals()
		carried := s.leastRise(byPod, before)
		if carried > replayTimes { // and a mark, or some answers
			if s.connection > 0 {
				s.connect()
			}
			return
		}
		if time.Now().After(end) {
			s.t.Fatalf("%s: it is not carried: %d packets of %d: %+v; %+v", s.name, carried, replayTimes+1, s.status(s.t, 0), s.status(s.t, 1))
		}
	}
}

// compareReplays plays cases without the fast path and with it, and wants the same to arrive.
func compareReplays(t *testing.T, by sender, cases []replayedFrame, slow *replayScene, fast ...*replayScene) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			slow.warm()
			want, _ := slow.play(c, by)
			for _, s := range fast {
				s.warm()
				got, carried := s.play(c, by)
				if !slices.Equal(got, want) {
					t.Errorf("%s: there arrive\n%s\nwithout the fast path\n%s", s.name, strings.Join(got, "\n"), strings.Join(want, "\n"))
				}
				if c.carried && carried <= replayTimes {
					t.Errorf("%s: of %d such packets and a mark, %d are carried", s.name, replayTimes, carried)
				}
				if c.slow && carried > 1 {
					t.Errorf("%s: it is carried", s.name) // and so is a mark
				}
			}
		})
	}
}
