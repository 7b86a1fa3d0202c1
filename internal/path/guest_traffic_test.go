package path_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/traffic"
	"github.com/venturi-net/venturi/internal/vm"
)

// What the other tests do with sockets in namespaces is done in virtual
// machines by this very program, told by its arguments what to do.

// insidePort is where the far end echoes, over TCP and UDP. It is none that
// could be a tunnel's.
const insidePort = firstEphemeral + 7

// insideFile is this program in a virtual machine.
const insideFile = "/init"

// guestRole is the role in a virtual machine:
//
//	echo ADDR            send back what comes, until standard input ends
//	carry FROM TO MTU    check that content of all sizes comes back unharmed
//	ping FROM TO HEX     check that one datagram does
func guestRole(args []string) int {
	if err := runGuestRole(args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func runGuestRole(args []string) error {
	from, err := netip.ParseAddr(args[1])
	if err != nil {
		return err
	}
	if args[0] == "echo" {
		return echoInside(from)
	}
	addr, err := netip.ParseAddr(args[2])
	if err != nil {
		return err
	}
	to := netip.AddrPortFrom(addr, insidePort)
	if args[0] == "ping" {
		payload, err := hex.DecodeString(args[3])
		if err != nil {
			return err
		}
		return pingInside(from, to, payload)
	}
	mtu, err := strconv.Atoi(args[3])
	if err != nil {
		return err
	}
	errs := []error{traffic.CarryTCP(from, to), segmentsInside(from, to, mtu), mtuInside(from, to, mtu)}
	for _, size := range []int{1, mtu - traffic.UDPHeaders, mtu - traffic.UDPHeaders + 1, 3*mtu + 7, traffic.MaxPayload} {
		payload := make([]byte, size)
		rand.Read(payload)
		if err := pingInside(from, to, payload); err != nil {
			errs = append(errs, fmt.Errorf("UDP of %d bytes: %w", size, err))
		}
	}
	return errors.Join(errs...)
}

func echoInside(addr netip.Addr) error {
	at := netip.AddrPortFrom(addr, insidePort)
	listener, err := net.Listen("tcp", at.String())
	if err != nil {
		return err
	}
	server, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(at))
	if err != nil {
		return err
	}
	if err := traffic.SetSocketOption(server, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 4<<20); err != nil {
		return err
	}
	traffic.EchoUDP(server)
	go func() {
		for traffic.EchoTCP(listener) == nil {
		}
	}()
	fmt.Println("ready")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

func pingInside(from netip.Addr, to netip.AddrPort, payload []byte) error {
	client, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(from, 0)))
	if err != nil {
		return err
	}
	defer client.Close()
	return traffic.PingUDP(client, to, payload)
}

// segmentsInside sends a buffer at once which the kernel, or the card, cuts into
// datagrams of the MTU. They come back one by one.
func segmentsInside(from netip.Addr, to netip.AddrPort, mtu int) (err error) {
	client, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(from, 0)))
	if err != nil {
		return err
	}
	defer client.Close()
	size := mtu - traffic.UDPHeaders
	err = errors.Join(traffic.SetSocketOption(client, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 4<<20), traffic.SetSocketOption(client, unix.SOL_UDP, unix.UDP_SEGMENT, size))
	if err != nil {
		return err
	}
	sent := make([]byte, min(traffic.MaxSegments, traffic.MaxPayload/size)*size)
	for range traffic.Tries {
		rand.Read(sent)
		for i := range len(sent) / size {
			binary.BigEndian.PutUint16(sent[i*size:], uint16(i))
		}
		if _, err := client.WriteToUDPAddrPort(sent, to); err != nil {
			return fmt.Errorf("send segments: %w", err)
		}
		if err = traffic.ReceiveSegments(client, sent, size); !errors.Is(err, traffic.ErrLost) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("segments of %d bytes: %w", size, err)
	}
	return nil
}

func mtuInside(from netip.Addr, to netip.AddrPort, mtu int) error {
	client, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(from, 0)))
	if err != nil {
		return err
	}
	defer client.Close()
	if err := traffic.SetSocketOption(client, unix.SOL_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO); err != nil {
		return err
	}
	if err := traffic.PingUDP(client, to, make([]byte, mtu-traffic.UDPHeaders)); err != nil {
		return fmt.Errorf("%d bytes that may not be cut: %w", mtu-traffic.UDPHeaders, err)
	}
	if _, err := client.WriteToUDPAddrPort(make([]byte, mtu-traffic.UDPHeaders+1), to); !errors.Is(err, unix.EMSGSIZE) {
		return fmt.Errorf("%d bytes that may not be cut: %v, want %v", mtu-traffic.UDPHeaders+1, err, unix.EMSGSIZE)
	}
	return nil
}

// command runs this program in the virtual machine of an end.
func command(ctx context.Context, end host.Endpoint, stdin io.Reader, stdout io.Writer, args ...string) error {
	var said bytes.Buffer
	code, err := vm.RemoteGuest{Socket: end.Agent}.Run(ctx, vm.Command{
		Args: append([]string{insideFile, "inside"}, args...), Env: os.Environ(), Stdin: stdin, Stdout: stdout, Stderr: &said,
	})
	if err == nil && code != 0 {
		err = fmt.Errorf("exit code %d: %s", code, &said)
	}
	return err
}

// echoing lets the virtual machine of an end echo until the test is over.
func echoing(t *testing.T, end host.Endpoint) {
	t.Helper()
	stop, lifeline := io.Pipe()
	said, out := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := command(context.Background(), end, stop, out, "echo", end.Addr.String())
		out.CloseWithError(fmt.Errorf("the echo ended: %v", err))
		done <- err
	}()
	t.Cleanup(func() {
		lifeline.Close()
		if err := <-done; err != nil {
			t.Errorf("echo in the virtual machine of %s: %v", end.Machine, err)
		}
	})
	ready := make([]byte, len("ready\n"))
	_, err := io.ReadFull(said, ready)
	testenv.Must(t, err)
}
