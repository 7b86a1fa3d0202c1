package e2e

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	vnl "github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/traffic"
)

// Ports of the flows between the pods a and b, and of a path's tunnels.
const (
	portA, portB        = 20001, 20002
	markA, markB        = 20011, 20012
	onlyA, onlyB        = 20021, 20022 // of what is sent one way only
	closedPort          = 20099        // where nobody listens
	vxlanPort           = 8472
	geneveScenes        = 7000  // and the index of the path
	firstTCP            = 21000 // of connections, from here on
	gatewayRole         = 0x01
	tunnelRole          = 0x10
	podRole             = 0x20
	echoID              = 0x4d4b
	seqA, seqB   uint32 = 1_000_000, 5_000_000 // of TCP, behind the handshake
)

// scene is one path of a lab, between whose pods frames are sent as they are: from
// pod a to pod b, or on the wire, as the first machine would send them to the second.
type scene struct {
	t      *testing.T
	arm    lab.Arm
	view   view
	isFast bool
	// tracked tells that the machines track connections, and drop what is invalid.
	tracked      bool
	a, b         int   // sockets: of the pods' devices,
	out, w       int   // of the first machine's on the wire, and of the second's
	cards        []int // of the second machine's cards, if its device on the wire stands on them
	socket       int   // of UDP in b, which gets what the pod's programs would
	wires        [2]net.HardwareAddr
	nodes        [2]netip.Addr // of the machines, in the headers of tunnels
	marks        uint32
	tcps         uint16
	narrow       bool // pod a's link drops what is too large for it, and says so
	takesStreams bool // the wire takes streams as they are
	captured     map[string][]frame
	flow         tcpFlow // that all cases share
	from, to     uint16  // ports of their datagrams
	nat          natMode
}

// newScene opens the sockets. Nobody in a pod answers TCP: segments are the test's.
func newScene(t *testing.T, l *lab.Lab, index int) *scene { return newNATScene(t, l, index, noNAT) }

func newNATScene(t *testing.T, l *lab.Lab, index int, nat natMode) *scene {
	arm := l.Arms[index]
	s := &scene{t: t, arm: arm, nat: nat, from: portA, to: portB, view: view{index: index, vni: uint32(sceneVNI + index), port: vxlanPort}, isFast: len(arm.Pins) > 0, tracked: l.Services > 0, captured: map[string][]frame{}}
	if s.isGeneve() {
		s.view.port = uint16(geneveScenes + index)
	}
	wire, err := lab.ParseWire(l.Wire)
	testenv.Must(t, err)
	s.takesStreams = wire.TSO && (wire.TunnelTSO || !s.tunnels())
	for i, m := range l.Machines {
		unboundErrors(t, m.Namespace)
		unboundErrors(t, arm.Ends[i][0].Namespace)
		testenv.ForbidTCP(t, arm.Ends[i][0].Namespace)
		s.wires[i] = net.HardwareAddr{0x0a, 0x76, 1, 0, 0, byte(i + 1)}
	}
	s.a = s.open(arm.Client().Namespace, arm.Client().Device)
	s.b = s.open(arm.Server().Namespace, arm.Server().Device)
	s.out = s.open(l.Machines[0].Namespace, "wire0")
	s.w = s.open(l.Machines[1].Namespace, "wire0")
	for _, card := range cardsBelow(t, l.Machines[1]) {
		s.cards = append(s.cards, s.open(l.Machines[1].Namespace, card))
	}
	s.listen(arm.Client(), portA)
	s.listen(arm.Client(), markA)
	s.listen(arm.Server(), markB)
	s.socket = s.listen(arm.Server(), s.servedAtB())
	s.translate(l)
	s.view.nodes = map[netip.Addr]int{}
	for i, m := range l.Machines {
		if s.nodes[i] = m.Addr; s.isIPIP() {
			s.nodes[i] = s.tunnelAddr(m)
		}
		s.view.nodes[m.Addr], s.view.nodes[s.nodes[i]] = i+1, i+1
	}
	return s
}

// tunnelAddr is a machine's address on the wire in the headers of the path's ipip device.
func (s *scene) tunnelAddr(m lab.Machine) (addr netip.Addr) {
	testenv.InNetns(s.t, m.Namespace, func() error {
		l, err := vnl.LinkByName(fmt.Sprintf("ipip%d", s.view.index))
		if err != nil {
			return err
		}
		addr, _ = netip.AddrFromSlice(l.(*vnl.Iptun).Local.To4())
		return nil
	})
	return addr
}

// open gives a socket that gets what comes in by a device, and sends by it.
func (s *scene) open(namespace, device string) int {
	fd := traffic.OpenTap(s.t, namespace, device)
	s.t.Cleanup(func() { unix.Close(fd) })
	for _, o := range []int{unix.PACKET_VNET_HDR, unix.PACKET_IGNORE_OUTGOING} {
		testenv.Must(s.t, unix.SetsockoptInt(fd, unix.SOL_PACKET, o, 1))
	}
	testenv.Must(s.t, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, 32<<20))
	return fd
}

func (s *scene) listen(at host.Endpoint, port int) (fd int) {
	testenv.Must(s.t, host.Do(at.Namespace, func() (err error) {
		if fd, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0); err != nil {
			return err
		}
		return unix.Bind(fd, &unix.SockaddrInet4{Port: port, Addr: at.Addr.As4()})
	}))
	s.t.Cleanup(func() { unix.Close(fd) })
	testenv.Must(s.t, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 32<<20))
	return fd
}

// unboundErrors takes the bounds off the number of ICMP errors: which of many are told would
// be chance.
func unboundErrors(t *testing.T, namespace string) {
	testenv.InNetns(t, namespace, func() error {
		for name, value := range map[string]string{"icmp_ratelimit": "0", "icmp_msgs_per_sec": "1000000", "icmp_msgs_burst": "1000000"} {
			if err := os.WriteFile("/proc/sys/net/ipv4/"+name, []byte(value), 0); err != nil {
				return err
			}
		}
		return nil
	})
}

// mac is that of a device, which the pods' have none of on a path of bare IP packets.
func (s *scene) mac(machine int, role byte) net.HardwareAddr {
	if role == podRole && s.isL3() {
		return make(net.HardwareAddr, 6)
	}
	return net.HardwareAddr{0x0a, 0x76, byte(s.view.index >> 8), byte(s.view.index), byte(machine), role}
}

// isVXLAN, isGeneve and isIPIP tell whether the path puts VXLAN or Geneve around packets, or one more IP
// header.
func (s *scene) isVXLAN() bool  { return strings.HasPrefix(s.arm.Path, "vxlan") }
func (s *scene) isGeneve() bool { return strings.HasPrefix(s.arm.Path, "geneve") }
func (s *scene) isIPIP() bool   { return strings.HasPrefix(s.arm.Path, "ipip") }

func (s *scene) tunnelsInUDP() bool { return s.isVXLAN() || s.isGeneve() }
func (s *scene) tunnels() bool      { return s.tunnelsInUDP() || s.isIPIP() }

// isL3 tells whether the pods' devices have no MACs.
func (s *scene) isL3() bool {
	return strings.HasPrefix(s.arm.Path, "netkit") && !strings.Contains(s.arm.Options, "mode=l2")
}

// gateway is the next hop of a machine's pod.
func (s *scene) gateway(machine int) net.HardwareAddr {
	switch {
	case s.tunnelsInUDP():
		return s.mac(machine, gatewayRole)
	case s.isL3():
		return s.mac(machine, podRole)
	}
	return net.HardwareAddr{0xee, 0xee, 0xee, 0xee, 0xee, 0xee}
}

// podFrame is the frame of a pod's packet to its gateway.
func (s *scene) podFrame(machine int, p ip4) frame {
	return frame{bytes: eth(s.gateway(machine), s.mac(machine, podRole), unix.ETH_P_IP, p.bytes())}
}

// pod gives frames of the first machine's pod.
func (s *scene) pod(packets ...ip4) (frames []frame) {
	for _, p := range packets {
		frames = append(frames, s.podFrame(0, p))
	}
	return frames
}

// direct is a packet from pod a to pod b which nobody translates; request is one that all cases
// are about, and reply one the other way.
func (s *scene) direct() ip4 {
	return ip4{ttl: 64, id: 0x1234, frag: dontFragment, src: s.arm.Client().Addr, dst: s.arm.Server().Addr}
}

func (s *scene) request() ip4 {
	p := s.direct()
	if s.nat == toService {
		p.dst = s.virtual()
	}
	return p
}

func (s *scene) reply() ip4 {
	p := s.direct()
	p.src, p.dst = p.dst, p.src
	if s.nat == ofService {
		p.dst = s.virtual()
	}
	return p
}

// udp is a datagram of the flow between the pods that is carried.
func (s *scene) udp(payload []byte) ip4 {
	return udp4{from: s.from, to: s.to, payload: payload}.packetIn(s.request())
}

func (s *scene) send(fd int, frames ...frame) {
	s.t.Helper()
	for _, f := range frames {
		head, err := binary.Append(nil, binary.LittleEndian, f.vnet)
		testenv.Must(s.t, err)
		if _, err := unix.Writev(fd, [][]byte{head, f.bytes}); err != nil && !(s.narrow && err == unix.ENOBUFS) {
			s.t.Fatalf("%s: send %d bytes, %+v: %v", s.arm.Name, len(f.bytes), f.vnet, err)
		}
	}
}

// capture reads what has come so far.
func (s *scene) capture() {
	for name, fds := range map[string][]int{"a": {s.a}, "b": {s.b}, "wire": {s.w}, "card": s.cards} {
		for _, fd := range fds {
			s.captured[name] = append(s.captured[name], readFrames(s.t, fd)...)
		}
	}
}

// readFrames reads what has come so far.
func readFrames(t *testing.T, fd int) (frames []frame) {
	t.Helper()
	for buf := make([]byte, 1<<17); ; {
		got, err := readFrame(fd, buf)
		if err == unix.EAGAIN {
			return frames
		}
		testenv.Must(t, err)
		frames = append(frames, got)
	}
}

// readFrame reads a frame, with what the kernel tells beside it.
func readFrame(fd int, buf []byte) (f frame, err error) {
	var beside [128]byte
	n, besideN, _, _, err := unix.Recvmsg(fd, buf, beside[:], 0)
	if err != nil {
		return f, err
	}
	if _, err := binary.Decode(buf[:vnetLen], binary.LittleEndian, &f.vnet); err != nil {
		return f, err
	}
	f.bytes, err = traffic.RestoreTag(buf[vnetLen:n], beside[:besideN])
	return f, err
}

// marker begins what is sent to mark an end.
const marker = "mark"

// sync proves that everything which was sent has arrived, or never will: what is
// sent behind it has. There are two queues, of what is carried and of what is not,
// and cards that merge packets may hold the last of them back for one more.
func (s *scene) sync() {
	s.t.Helper()
	for range 2 {
		s.marks++
		mark := binary.BigEndian.AppendUint32([]byte(marker), s.marks)
		s.send(s.a, s.pod(udp4{from: markA, to: markB, payload: mark}.packetIn(s.direct()),
			icmp4(s.direct(), 8, 0, echoID<<16|s.marks&0xffff, mark))...)
		isMark := func(f frame) bool { return bytes.Contains(f.bytes, mark) }
		for end := time.Now().Add(testenv.Timeout); ; {
			s.capture()
			n := 0
			for _, f := range s.captured["b"] {
				if isMark(f) {
					n++
				}
			}
			if n == 2 && slices.ContainsFunc(s.captured["a"], isMark) {
				break
			}
			if time.Now().After(end) {
				s.t.Fatalf("%s: what is sent to mark the end does not arrive", s.arm.Name)
			}
			fds := []unix.PollFd{{Fd: int32(s.a), Events: unix.POLLIN}, {Fd: int32(s.b), Events: unix.POLLIN}}
			_, _ = unix.Poll(fds, 10)
		}
	}
	s.capture()
}
