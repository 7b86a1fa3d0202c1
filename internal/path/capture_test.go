package path_test

import (
	"encoding/binary"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/machine"
	"github.com/venturi-net/venturi/internal/testenv"
)

// What is on the wire is what the driver says: its overhead around each
// packet, or nothing.
func TestOnTheWire(t *testing.T) {
	l := testenv.Lab(t, lab.Options{Paths: []string{"host", "routed", "vxlan", "vxlan", "macvlan"}})
	const size = 100
	const inner = 20 + 8 + size // IPv4, UDP
	for _, arm := range l.Arms {
		frames := capture(t, l.Machines[0].Namespace, func() {
			checkUDP(t, arm.From(), arm.To(), []int{size})
		})
		found := 0
		for _, f := range frames {
			if len(f) == 14+arm.Overhead+inner && isPath(arm, f) {
				found++
			}
		}
		// There and back; more if a datagram was sent again.
		if found < 2 {
			t.Errorf("%s: %d of the %d frames on the wire are its own, want 2 or more", arm.Name, found, len(frames))
		}
	}
}

const (
	protocolUDP = 17
	vxlanPort   = 8472
)

// isPath looks into an Ethernet frame for what the path puts on the wire.
func isPath(arm lab.Arm, frame []byte) bool {
	ip := frame[14:]
	if binary.BigEndian.Uint16(frame[12:]) != unix.ETH_P_IP || ip[9] != protocolUDP {
		return false
	}
	if arm.Path == "vxlan" {
		vni := map[string]uint32{"vxlan": 1, "vxlan.2": 17}[arm.Name]
		udp := ip[20:]
		if binary.BigEndian.Uint16(udp[2:]) != vxlanPort || binary.BigEndian.Uint32(udp[12:])>>8 != vni {
			return false
		}
		ip = udp[8+8+14:] // UDP, VXLAN, inner Ethernet
	}
	src, dst := [4]byte(ip[12:16]), [4]byte(ip[16:20])
	a, b := arm.From().Addr.As4(), arm.To().Addr.As4()
	return src == a && dst == b || src == b && dst == a
}

// capture gives the frames that cross wire0 of a namespace while fn runs.
func capture(t *testing.T, namespace string, fn func()) [][]byte {
	t.Helper()
	const everything = unix.ETH_P_ALL<<8 | unix.ETH_P_ALL>>8 // in network order
	fd := -1
	must(t, machine.Do(namespace, func() (err error) {
		if fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0); err != nil {
			return err
		}
		links, err := machine.Links()
		for _, link := range links {
			if link.Attrs().Name == "wire0" {
				return unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: everything & 0xffff, Ifindex: link.Attrs().Index})
			}
		}
		return err
	}))
	defer unix.Close(fd)
	fn()
	time.Sleep(50 * time.Millisecond) // the kernel hands frames on a little later
	var frames [][]byte
	buf := make([]byte, 1<<16)
	for {
		n, _, err := unix.Recvfrom(fd, buf, 0)
		if err != nil {
			return frames
		}
		frames = append(frames, append([]byte(nil), buf[:n]...))
	}
}
