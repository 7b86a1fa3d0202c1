package traffic

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/testenv"
)

// Bursts is a flow of UDP between two ends. What one sends in a call is cut into datagrams by a device or by
// the receiver's kernel (UDP_SEGMENT), and taken merged (UDP_GRO): so it is seen whether it came whole.
type Bursts struct{ ends [2]*net.UDPConn }

// OpenBursts opens such a flow.
func OpenBursts(t *testing.T, a, b host.Endpoint) *Bursts {
	t.Helper()
	f := &Bursts{[2]*net.UDPConn{ListenUDP(t, a), ListenUDP(t, b)}}
	for _, c := range f.ends {
		t.Cleanup(func() { c.Close() })
		testenv.Must(t, SetSocketOption(c, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 8<<20))
		testenv.Must(t, SetSocketOption(c, unix.SOL_UDP, unix.UDP_GRO, 1))
	}
	return f
}

// Send sends a payload from an end (0 or 1), to be cut into datagrams of a size, in bytes; 0: into none.
func (f *Bursts) Send(from int, payload []byte, size int) error {
	if err := SetSocketOption(f.ends[from], unix.SOL_UDP, unix.UDP_SEGMENT, size); err != nil {
		return err
	}
	_, err := f.ends[from].WriteToUDPAddrPort(payload, f.ends[1-from].LocalAddr().(*net.UDPAddr).AddrPort())
	return err
}

// Receive takes what has come to an end, and the size of the datagrams in it; 0: it is one.
func (f *Bursts) Receive(at int, wait time.Duration) (payload []byte, size int, err error) {
	buf, oob := make([]byte, 1<<16), make([]byte, 64)
	if err := f.ends[at].SetReadDeadline(time.Now().Add(wait)); err != nil {
		return nil, 0, err
	}
	n, oobn, _, _, err := f.ends[at].ReadMsgUDPAddrPort(buf, oob)
	if err != nil {
		return nil, 0, err
	}
	messages, err := unix.ParseSocketControlMessage(oob[:oobn])
	for _, m := range messages {
		if m.Header.Level == unix.SOL_UDP && m.Header.Type == unix.UDP_GRO && len(m.Data) >= 4 {
			size = int(binary.NativeEndian.Uint32(m.Data))
		}
	}
	return buf[:n], size, err
}

// Exchange sends a payload, and wants it at the other end as it was sent: whole, to be cut alike.
func (f *Bursts) Exchange(from int, payload []byte, size int) error {
	if err := f.Send(from, payload, size); err != nil {
		return err
	}
	got, cut, err := f.Receive(1-from, testenv.Timeout)
	if err == nil && (cut != size || !bytes.Equal(got, payload)) {
		err = fmt.Errorf("came %d bytes in datagrams of %d bytes, sent %d of %d; the bytes are the same: %v", len(got), cut, len(payload), size, bytes.Equal(got, payload))
	}
	return err
}
