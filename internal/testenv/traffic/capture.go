package traffic

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/testenv"
)

// Capture gives the frames that cross a device of a namespace while fn runs.
func Capture(t *testing.T, namespace, device string, fn func()) [][]byte {
	t.Helper()
	fd := OpenTap(t, namespace, device)
	defer unix.Close(fd)
	fn()
	time.Sleep(20 * time.Millisecond) // the kernel hands frames on a little later
	var frames [][]byte
	for buf := make([]byte, 1<<17); ; {
		frame, err := readFrame(fd, buf)
		if err == unix.EAGAIN {
			return frames
		}
		testenv.Must(t, err)
		frames = append(frames, frame)
	}
}

// OpenTap opens a socket that gets all frames of a device.
func OpenTap(t *testing.T, namespace, device string) (fd int) {
	t.Helper()
	const everything = unix.ETH_P_ALL<<8 | unix.ETH_P_ALL>>8 // in network order
	testenv.Must(t, host.Do(namespace, func() (err error) {
		if fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0); err != nil {
			return err
		}
		links, err := host.Links()
		if err != nil {
			return err
		}
		for _, link := range links {
			if link.Attrs().Name == device {
				return unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: everything & 0xffff, Ifindex: link.Attrs().Index})
			}
		}
		return fmt.Errorf("there is no device %s in %s", device, namespace)
	}))
	testenv.Must(t, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 32<<20))
	testenv.Must(t, unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_AUXDATA, 1))
	return fd
}

// readFrame reads one frame as it is on the wire. The kernel takes the
// outermost tag off a frame that comes in, and tells of it beside the frame.
func readFrame(fd int, buf []byte) ([]byte, error) {
	var beside [128]byte
	n, besideN, _, _, err := unix.Recvmsg(fd, buf, beside[:], 0)
	if err != nil {
		return nil, err
	}
	return RestoreTag(buf[:n], beside[:besideN])
}

// RestoreTag puts back the tag of which the kernel has told beside a frame.
func RestoreTag(got, beside []byte) ([]byte, error) {
	const addresses = 12 // bytes: a tag follows them
	frame := append(make([]byte, 0, len(got)+4), got[:addresses]...)
	messages, err := unix.ParseSocketControlMessage(beside)
	if err != nil {
		return nil, err
	}
	for _, m := range messages {
		if m.Header.Level != unix.SOL_PACKET || m.Header.Type != unix.PACKET_AUXDATA {
			continue
		}
		var aux unix.TpacketAuxdata
		if _, err := binary.Decode(m.Data, binary.NativeEndian, &aux); err != nil {
			return nil, err
		}
		if aux.Status&unix.TP_STATUS_VLAN_VALID != 0 {
			frame = binary.BigEndian.AppendUint16(frame, aux.Vlan_tpid)
			frame = binary.BigEndian.AppendUint16(frame, aux.Vlan_tci)
		}
	}
	return append(frame, got[addresses:]...), nil
}
