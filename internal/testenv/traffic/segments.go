package traffic

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/safchain/ethtool"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/testenv"
)

const (
	// UDPHeaders are those of IPv4 and UDP, bytes.
	UDPHeaders = 28
	// MaxSegments is how many datagrams every kernel with UDP segmentation cuts
	// a buffer into.
	MaxSegments = 64
	// MaxPayload is that of UDP over IPv4, bytes.
	MaxPayload = 65507
)

// CheckSegments sends 64 KiB at once which the kernel, or the card, cuts into
// datagrams of the MTU. Which one a datagram is stands at its beginning.
func CheckSegments(t *testing.T, from, to host.Endpoint) {
	t.Helper()
	server, client := ListenUDP(t, to), ListenUDP(t, from)
	defer server.Close()
	defer client.Close()
	testenv.Must(t, SetSocketOption(server, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 4<<20))
	size := from.MTU - UDPHeaders
	testenv.Must(t, SetSocketOption(client, unix.SOL_UDP, unix.UDP_SEGMENT, size))
	count := min(MaxSegments, MaxPayload/size)
	sent := make([]byte, count*size)
	var err error
	for range Tries {
		rand.Read(sent)
		for i := range count {
			binary.BigEndian.PutUint16(sent[i*size:], uint16(i))
		}
		if err = sendSegments(client, server, sent, size); !errors.Is(err, ErrLost) {
			break
		}
	}
	if errors.Is(err, unix.EIO) && !sums(t, from) {
		// Kernels before 6.11 do not cut for a device that computes no checksums:
		// who sends has to.
		return
	}
	if err != nil {
		t.Errorf("UDP %s to %s, %d datagrams of %d bytes in one call: %v", from.Addr, to.Addr, count, size, err)
	}
}

// sums tells whether the device of an end computes checksums.
func sums(t *testing.T, end host.Endpoint) (on bool) {
	t.Helper()
	testenv.InNetns(t, end.Namespace, func() error {
		tool, err := ethtool.NewEthtool()
		if err != nil {
			return err
		}
		defer tool.Close()
		features, err := host.AskEthtool(tool.Features, end.Device)
		on = features["tx-checksum-ip-generic"]
		return err
	})
	return on
}

// ErrLost is of datagrams that did not come.
var ErrLost = errors.New("some were lost")

func sendSegments(client, server *net.UDPConn, sent []byte, size int) error {
	to := netip.MustParseAddrPort(server.LocalAddr().String())
	if _, err := client.WriteToUDPAddrPort(sent, to); err != nil {
		return err
	}
	return ReceiveSegments(server, sent, size)
}

// ReceiveSegments waits for all datagrams that a buffer was cut into.
func ReceiveSegments(server *net.UDPConn, sent []byte, size int) error {
	count := len(sent) / size
	got, buf := map[uint16]bool{}, make([]byte, 1<<16)
	for len(got) < count {
		_ = server.SetReadDeadline(time.Now().Add(time.Second))
		n, err := server.Read(buf)
		if err != nil {
			return fmt.Errorf("%d of %d came: %w", len(got), count, ErrLost)
		}
		if n != size {
			return fmt.Errorf("one of %d bytes came", n)
		}
		i := binary.BigEndian.Uint16(buf)
		if int(i) >= count || !bytes.Equal(buf[:n], sent[int(i)*size:int(i+1)*size]) {
			continue // of an attempt before, perhaps: then the right one is still to come
		}
		got[i] = true
	}
	return nil
}

// CheckMTU tells whether the end's own device knows how much fits: what may not
// be cut and does not fit is refused at once, and what fits arrives.
func CheckMTU(t *testing.T, from, to host.Endpoint) {
	t.Helper()
	server, client := ListenUDP(t, to), ListenUDP(t, from)
	stop := EchoUDP(server)
	defer func() { client.Close(); stop() }()
	testenv.Must(t, SetSocketOption(client, unix.SOL_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO))
	there, most := server.LocalAddr().(*net.UDPAddr).AddrPort(), from.MTU-UDPHeaders
	if err := PingUDP(client, there, make([]byte, most)); err != nil {
		t.Errorf("UDP %s to %s, %d bytes that may not be cut: %v", from.Addr, to.Addr, most, err)
	}
	if _, err := client.WriteToUDPAddrPort(make([]byte, most+1), there); !errors.Is(err, unix.EMSGSIZE) {
		t.Errorf("UDP %s to %s, %d bytes that may not be cut: %v, want %v", from.Addr, to.Addr, most+1, err, unix.EMSGSIZE)
	}
}

// SetSocketOption sets an option of a socket.
func SetSocketOption(conn *net.UDPConn, level, option, value int) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var set error
	err = raw.Control(func(fd uintptr) { set = unix.SetsockoptInt(int(fd), level, option, value) })
	return errors.Join(err, set)
}
