package kernel

import (
	"encoding/binary"
	"errors"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/fastpath/topology"
	"github.com/venturi-net/venturi/internal/netcfg"
)

// AskNeighbours asks neighbours of the namespace's bridges whether they are there, by
// ARP and in nobody's name (as RFC 5227 probes): their answers tell the bridges where
// they are, and nobody learns anything else. It waits for none, and leaves out those
// whose bridge is gone or has no room.
func AskNeighbours(n *netcfg.Namespace, all []topology.BridgeNeighbour) error {
	if len(all) == 0 {
		return nil
	}
	err := n.Do(func() (err error) {
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if errors.Is(err, unix.EAFNOSUPPORT) {
			return nil // on this kernel they have to speak by themselves
		}
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, unix.Close(fd)) }()
		for _, one := range all {
			to := &unix.SockaddrLinklayer{Ifindex: one.Device, Protocol: bigEndian(unix.ETH_P_ARP), Halen: macBytes}
			copy(to.Addr[:], one.MAC)
			err := unix.Sendto(fd, probe(one), 0, to)
			if err != nil && !slices.ContainsFunc(passing, func(e error) bool { return errors.Is(err, e) }) {
				return err
			}
		}
		return nil
	})
	return n.Wrap("ask neighbours", err)
}

// passing is what becomes of devices, and of room to send.
var passing = []error{unix.ENODEV, unix.ENXIO, unix.ENETDOWN, unix.EAGAIN, unix.ENOBUFS}

const macBytes = 6

// probe is a frame that asks a neighbour.
func probe(n topology.BridgeNeighbour) []byte {
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
