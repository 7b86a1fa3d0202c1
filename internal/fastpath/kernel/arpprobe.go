package kernel

import (
	"encoding/binary"
	"errors"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/fastpath/topology"
	"github.com/venturi-net/venturi/internal/netcfg"
)

// ARPProber sends ARP probes (RFC 5227, without a sender address) to neighbours of a namespace's
// bridges. From the replies the bridges learn their ports, and no host learns anything else. It keeps
// its socket open: to close one takes tens of milliseconds, as the kernel waits for an RCU grace
// period.
type ARPProber struct {
	n      *netcfg.Namespace
	socket int // -1: this kernel has none, and the pods must send by themselves
}

// OpenARPProber opens a prober.
func OpenARPProber(n *netcfg.Namespace) (*ARPProber, error) {
	p := &ARPProber{n: n}
	err := n.Do(func() (err error) {
		p.socket, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		return err
	})
	if errors.Is(err, unix.EAFNOSUPPORT) {
		p.socket, err = -1, nil
	}
	return p, n.Wrap("open a socket for ARP probes", err)
}

// Send sends probes. It does not wait for replies, and skips neighbours whose bridge is gone or has
// no buffer space.
func (p *ARPProber) Send(all []topology.BridgeNeighbour) error {
	if p.socket < 0 {
		return nil
	}
	for _, one := range all {
		to := &unix.SockaddrLinklayer{Ifindex: one.Device, Protocol: bigEndian(unix.ETH_P_ARP), Halen: macBytes}
		copy(to.Addr[:], one.MAC)
		err := unix.Sendto(p.socket, arpProbe(one), 0, to)
		if err != nil && !slices.ContainsFunc(transientErrors, func(e error) bool { return errors.Is(err, e) }) {
			return p.n.Wrap("send ARP probes", err)
		}
	}
	return nil
}

// Close closes the socket.
func (p *ARPProber) Close() error {
	if p.socket < 0 {
		return nil
	}
	return p.n.Wrap("close the socket for ARP probes", unix.Close(p.socket))
}

// transientErrors are those of devices that go away, and of full buffers.
var transientErrors = []error{unix.ENODEV, unix.ENXIO, unix.ENETDOWN, unix.EAGAIN, unix.ENOBUFS}

const macBytes = 6

// arpProbe is the frame of a probe.
func arpProbe(n topology.BridgeNeighbour) []byte {
	frame := append(slices.Clone([]byte(n.MAC)), n.BridgeMAC...)
	for _, word := range []uint16{unix.ETH_P_ARP, unix.ARPHRD_ETHER, unix.ETH_P_IP, macBytes<<8 | 4, 1} { // a request
		frame = binary.BigEndian.AppendUint16(frame, word)
	}
	frame = append(append(frame, n.BridgeMAC...), 0, 0, 0, 0)
	return append(append(frame, make([]byte, macBytes)...), n.Addr.AsSlice()...)
}

func bigEndian(word uint16) uint16 {
	return binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, word))
}
