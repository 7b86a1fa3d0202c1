package e2e

import (
	"encoding/binary"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	vnl "github.com/vishvananda/netlink"

	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/fastpathtest"
)

// What the network between the machines turns out to take is what packets to a peer
// may have, though the kernel tells nobody when it learns of it.
func TestFastPathFollowsPathMTU(t *testing.T) {
	requireFastPath(t)
	l := testenv.Lab(t, lab.Options{Paths: []string{"vxlan+fast"}})
	arm := l.Arms[0]
	const least, overhead = 1300, 50
	if was := peerSize(t, arm.Pins[0]); was <= least-overhead {
		t.Fatalf("packets to a peer may have %d bytes before anything is learned", was)
	}
	fragmentationNeeded(t, l.Machines[0], l.Machines[1], least)
	limit := host.ScaleTimeout(5 * time.Second) // later, news of something else may lead to it
	for end := time.Now().Add(limit); peerSize(t, arm.Pins[0]) != least-overhead; {
		if time.Now().After(end) {
			t.Fatalf("after %v packets to a peer may still have %d bytes", limit, peerSize(t, arm.Pins[0]))
		}
		time.Sleep(10 * time.Millisecond)
	}
	fastpathtest.WithFlow(t, arm, func(exchange func(time.Duration) error) { fastpathtest.WaitCarried(t, arm, exchange) })
}

// peerSize is how large packets may be that a fast path carries to its only peer.
func peerSize(t *testing.T, pins string) (size int) {
	t.Helper()
	peers, err := ebpf.LoadPinnedMap(bpf.TableFile(pins, "peers"), nil)
	testenv.Must(t, err)
	defer peers.Close()
	var number uint32
	var peer bpf.Peer
	for all := peers.Iterate(); all.Next(&number, &peer); {
		if peer.Epoch != 0 {
			size = int(peer.Size)
		}
	}
	return size
}

// fragmentationNeeded lets a machine hear from another that packets to that one may
// have mtu bytes, in answer to a datagram of its own.
func fragmentationNeeded(t *testing.T, m, other lab.Machine, mtu uint16) {
	t.Helper()
	var own *net.UDPConn
	testenv.InNetns(t, m.Namespace, func() (err error) {
		own, err = net.DialUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(m.Addr, 0)), net.UDPAddrFromAddrPort(netip.AddrPortFrom(other.Addr, 9)))
		return err
	})
	defer own.Close()
	message := binary.BigEndian.AppendUint16([]byte{3, 4, 0, 0, 0, 0}, mtu) // unreachable, fragmentation needed
	message = append(message, 0x45, 0, 0, 28, 0, 0, 0x40, 0, 64, 17, 0, 0)
	message = append(append(message, m.Addr.AsSlice()...), other.Addr.AsSlice()...)
	message = binary.BigEndian.AppendUint16(message, own.LocalAddr().(*net.UDPAddr).AddrPort().Port())
	message = append(message, 0, 9, 0, 8, 0, 0)
	sum := uint32(0)
	for i := 0; i < len(message); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(message[i:]))
	}
	sum = sum>>16 + sum&0xffff
	binary.BigEndian.PutUint16(message[2:], ^uint16(sum>>16+sum))
	testenv.InNetns(t, other.Namespace, func() error {
		raw, err := net.ListenIP("ip4:icmp", &net.IPAddr{IP: other.Addr.AsSlice()})
		if err != nil {
			return err
		}
		defer raw.Close()
		_, err = raw.WriteToIP(message, &net.IPAddr{IP: m.Addr.AsSlice()})
		return err
	})
}

// Neighbours that only carried packets go to are asked whether they are there, as the
// kernel does for its own; and one that has become another is noticed.
func TestFastPathConfirmsNeighbours(t *testing.T) {
	requireFastPath(t)
	l := testenv.Lab(t, lab.Options{Paths: []string{"vxlan+fast"}})
	arm, m, other := l.Arms[0], l.Machines[0], l.Machines[1]
	fastpathtest.WithFlow(t, arm, func(exchange func(time.Duration) error) {
		fastpathtest.WaitCarried(t, arm, exchange)
		var was *vnl.Neigh
		wrong := net.HardwareAddr{2, 0, 0, 0, 9, 9}
		testenv.InNetns(t, m.Namespace, func() error {
			was = neighbourAt(t, other.Addr)
			wire, err := vnl.LinkByIndex(was.LinkIndex)
			testenv.Must(t, err)
			for _, name := range []string{"delay_first_probe_time", "ucast_solicit"} { // to lose no time
				testenv.Must(t, os.WriteFile(filepath.Join("/proc/sys/net/ipv4/neigh", wire.Attrs().Name, name), []byte("1"), 0))
			}
			is := *was
			is.HardwareAddr, is.State = wrong, vnl.NUD_STALE
			return vnl.NeighSet(&is)
		})
		// Nothing is sent: if the kernel asks, it is not for a packet.
		for end := time.Now().Add(testenv.Timeout); ; time.Sleep(10 * time.Millisecond) {
			var is *vnl.Neigh
			testenv.InNetns(t, m.Namespace, func() error {
				is = neighbourAt(t, other.Addr)
				return nil
			})
			if is == nil || is.HardwareAddr.String() != wrong.String() {
				break // it was given up
			}
			if time.Now().After(end) {
				t.Fatalf("after %v the neighbour is still %v", testenv.Timeout, is)
			}
		}
		fastpathtest.WaitAnswered(t, exchange, true)
		fastpathtest.WaitCarried(t, arm, exchange)
	})
}

// neighbourAt finds what the kernel knows of a neighbour of the thread's namespace.
func neighbourAt(t *testing.T, addr netip.Addr) *vnl.Neigh {
	t.Helper()
	all, err := vnl.NeighList(0, vnl.FAMILY_V4)
	testenv.Must(t, err)
	for _, n := range all {
		if n.IP.Equal(addr.AsSlice()) {
			return &n
		}
	}
	return nil
}
