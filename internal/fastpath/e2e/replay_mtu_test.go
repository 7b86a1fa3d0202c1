package e2e

import (
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/traffic"
)

// narrows make the way to the second machine, or to its pod, narrower than it was, and
// wide again.
var narrows = []struct {
	name string
	only string // as of [replayed]
	// inner tells that it is the pods' packets that have to fit, as they are.
	inner bool
	pair  bool // it is a veth's own doing
	by    func(s *scene, l *lab.Lab, narrow bool)
}{
	{"the wire's device", "", false, false, func(s *scene, l *lab.Lab, narrow bool) {
		wire, err := lab.ParseWire(l.Wire)
		testenv.Must(s.t, err)
		mtu := map[bool]int{true: narrowMTU, false: wire.MTU}[narrow]
		testenv.InNetns(s.t, l.Machines[0].Namespace, func() error { return setMTU("wire0", mtu) })
	}},
	{"the routes on the wire", "", false, false, func(s *scene, l *lab.Lab, narrow bool) {
		mtu := map[bool]int{true: narrowMTU, false: 0}[narrow]
		testenv.InNetns(s.t, l.Machines[0].Namespace, func() error { return setRoutes("wire0", mtu) })
	}},
	{"an error of a router between the machines", "vxlan", false, false, func(s *scene, l *lab.Lab, narrow bool) {
		if !narrow {
			return
		}
		about := s.tunnelHeaders().tunnelled(routedOn(s.udp(pattern(1400, 1))))
		told := icmp4(ip4{ttl: 64, src: about.dst, dst: about.src}, 3, 4, narrowMTU, about.bytes()[:128])
		s.send(s.w, frame{bytes: eth(s.wires[0], s.wires[1], unix.ETH_P_IP, told.bytes())})
	}},
	{"the device of the pod that it is for", "", true, false, func(s *scene, l *lab.Lab, narrow bool) {
		s.narrowPod(l, 1, narrow)
	}},
	{"the device of the pod that sends it", "", true, true, func(s *scene, l *lab.Lab, narrow bool) {
		s.narrowPod(l, 0, narrow)
	}},
	{"the routes to the pod", "", true, false, func(s *scene, l *lab.Lab, narrow bool) {
		mtu := map[bool]int{true: narrowMTU, false: 0}[narrow]
		testenv.InNetns(s.t, l.Machines[1].Namespace, func() error { return setRoutes(s.podLink(l, 1, true), mtu) })
	}},
	{"the pod's own end", "", true, true, func(s *scene, l *lab.Lab, narrow bool) {
		to := s.arm.Server()
		testenv.InNetns(s.t, to.Namespace, func() error { return setMTU(to.Device, map[bool]int{true: narrowMTU, false: to.MTU}[narrow]) })
	}},
}

// podLink names the machine's end of the link of a machine's pod, or the device that
// routes to the pod lead to: that, or the bridge whose port it is.
func (s *scene) podLink(l *lab.Lab, at int, routed bool) (name string) {
	pod, index := s.arm.Ends[at][0], 0
	testenv.InNetns(s.t, pod.Namespace, func() error {
		link, err := netlink.LinkByName(pod.Device)
		if err == nil {
			index = link.Attrs().ParentIndex
		}
		return err
	})
	testenv.InNetns(s.t, l.Machines[at].Namespace, func() error {
		link, err := netlink.LinkByIndex(index)
		if err == nil && routed && link.Attrs().MasterIndex != 0 {
			link, err = netlink.LinkByIndex(link.Attrs().MasterIndex)
		}
		if err == nil {
			name = link.Attrs().Name
		}
		return err
	})
	return name
}

func (s *scene) narrowPod(l *lab.Lab, at int, narrow bool) {
	mtu := map[bool]int{true: narrowMTU, false: s.arm.Ends[at][0].MTU}[narrow]
	device := s.podLink(l, at, false)
	s.narrow = narrow && at == 0
	testenv.InNetns(s.t, l.Machines[at].Namespace, func() error { return setMTU(device, mtu) })
}

func setMTU(device string, mtu int) error {
	link, err := netlink.LinkByName(device)
	if err != nil {
		return err
	}
	return netlink.LinkSetMTU(link, mtu)
}

const (
	narrowMTU = 1300
	tagLen    = 4 // of a VLAN
)

// setRoutes gives all routes by a device an MTU.
func setRoutes(device string, mtu int) error {
	link, err := netlink.LinkByName(device)
	if err != nil {
		return err
	}
	routes, err := netlink.RouteList(link, netlink.FAMILY_V4)
	if err != nil {
		return err
	}
	for _, r := range routes {
		r.MTU = mtu
		if err := netlink.RouteReplace(&r); err != nil {
			return fmt.Errorf("%v: %w", r, err)
		}
	}
	return nil
}

// replayNarrow plays what is around the size that fits, and more, until both do the
// same: both learn of it, each in its time.
func replayNarrow(t *testing.T, l *lab.Lab, slow, fast *scene) {
	for _, n := range narrows {
		// The ends of a netkit pair take whatever the other one sends.
		if netkit := strings.HasPrefix(slow.arm.Path, "netkit"); !strings.HasPrefix(slow.arm.Path, n.only) || netkit && n.pair {
			continue
		}
		c := replayed{name: "what does not fit any more, by " + n.name, frames: tooLarge(n.inner)}
		wide := slow.inPods(c)
		n.by(slow, l, true)
		n.by(fast, l, true)
		for end := time.Now().Add(testenv.Timeout); ; {
			want, got := slow.inPods(c), fast.inPods(c)
			more, less := c.refused(want, got, slow.tracked)
			if !slices.ContainsFunc(slow.captured["wire"], isCut) && slices.Equal(want, wide) {
				t.Fatalf("%s: it did not get narrower by %s", slow.arm.Name, n.name)
			}
			// Kernels let segments of UDP through a tunnel that are some bytes too large.
			if len(more)+len(less) == 0 && fast.widest() <= max(narrowMTU, slow.widest()) {
				break
			}
			if time.Now().After(end) {
				t.Errorf("%s, %s: packets of up to %d bytes, with the fast path alone\n  %s\nwithout it alone\n  %s",
					fast.arm.Name, c.name, fast.widest(), firstLines(more), firstLines(less))
				break
			}
		}
		n.by(slow, l, false)
		n.by(fast, l, false)
		forgetWays(t, l)
	}
}

// isCut tells whether a frame of a wire is a fragment.
func isCut(f frame) bool {
	return len(f.bytes) > ethLen+ipLen && binary.BigEndian.Uint16(f.bytes[ethLen+6:])&^dontFragment != 0
}

// widest is the size of the largest IP packet that was on the wire last, when all is
// cut that a card is to cut.
func (s *scene) widest() (size int) {
	for _, f := range s.captured["wire"] {
		if f.GSO == 0 {
			size = max(size, len(f.bytes)-ethLen)
			continue
		}
		head := int(f.SumStart) + udpLen
		if f.GSO&^gsoECN == gsoTCP {
			head = int(f.SumStart) + int(f.bytes[f.SumStart+12]>>4)*4
		}
		size = max(size, head+int(f.Size)-ethLen)
	}
	return size
}

// forgetWays makes machines forget what they have learned of how much fits.
func forgetWays(t *testing.T, l *lab.Lab) {
	for _, m := range l.Machines {
		testenv.InNetns(t, m.Namespace, func() error { return os.WriteFile("/proc/sys/net/ipv4/route/flush", []byte("1"), 0) })
	}
}

// inPods plays a case, and gives what is seen of it in pods: how machines cut what
// goes between them is their business.
func (s *scene) inPods(c replayed) []string {
	lines, _ := s.play(c)
	return slices.DeleteFunc(lines, isOnWire)
}

// tooLarge is what just fits on the narrow way, and what does not; a pod's own end
// takes the length of a tag more than it says. inner is that of [narrows].
func tooLarge(inner bool) func(s *scene) []frame {
	return func(s *scene) (frames []frame) {
		fits, mtu := narrowMTU, s.arm.Client().MTU
		if s.tunnels() && !inner {
			fits -= s.arm.Overhead
		}
		for _, size := range []int{fits - 1, fits, fits + 1, fits + tagLen, fits + tagLen + 1, mtu} {
			for _, bits := range []uint16{0, dontFragment} {
				for _, p := range []ip4{s.udp(pattern(size-traffic.UDPHeaders, 1)), s.tcp(ack, pattern(size-ipLen-tcpLen, 1))} {
					p.frag, p.id = bits, uint16(size)+bits>>8
					frames = append(frames, s.podFrame(0, p))
				}
			}
			// Where segments are merged again on the way, a pod's link takes or refuses those
			// together which happened to be.
			if size <= fits || !inner || s.takesStreams {
				frames = append(frames, s.stream(9000, size-ipLen-tcpLen, uint16(size+100), ack, gsoTCP))
			}
			if takesBursts() {
				frames = append(frames, s.burst(9000, size-traffic.UDPHeaders, uint16(size+200), gsoUDP))
			}
		}
		return frames
	}
}
