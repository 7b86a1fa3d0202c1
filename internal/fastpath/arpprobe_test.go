package fastpath_test

import (
	"bytes"
	"errors"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	vnl "github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/topology"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/testenv"
)

// A bridge hears of pods that are asked, whether it knows them or not; and one that is
// not there, or whose bridge is gone, is left out.
func TestAsk(t *testing.T) {
	w, err := netcfg.Owned(testenv.Claim(t))
	must(t, err)
	m, err := w.Create(w.Name("m1"))
	must(t, err)
	defer m.Close()
	pod, err := w.Create(w.Name("p1"))
	must(t, err)
	defer pod.Close()
	testenv.InNetns(t, pod.Path(), func() error { // nor is it to speak by itself
		return os.WriteFile("/proc/sys/net/ipv6/conf/default/disable_ipv6", []byte("1"), 0)
	})
	addr, mac := netip.MustParseAddr("192.0.2.2"), net.HardwareAddr{2, 0, 0, 0, 0, 2}
	must(t, errors.Join(
		m.AddBridge("br0", net.HardwareAddr{2, 0, 0, 0, 0, 1}, 1500),
		netcfg.AddVeth(netcfg.VethEnd{In: m, Name: "p0"}, netcfg.VethEnd{In: pod, Name: "eth0", MAC: mac}, 1500),
		m.Enslave("p0", "br0", false),
		pod.AddAddr("eth0", netip.PrefixFrom(addr, 24))))
	way := topology.LocalPod{NeighDevice: index(t, m, "br0"), Device: index(t, m, "p0"), Addr: addr, MAC: mac, Gateway: net.HardwareAddr{2, 0, 0, 0, 0, 1}}
	nobody := way
	nobody.Addr, nobody.MAC = netip.MustParseAddr("192.0.2.3"), net.HardwareAddr{2, 0, 0, 0, 0, 3}
	gone := way
	gone.NeighDevice = 1000
	unplaced := func(p topology.LocalPod) topology.BridgeNeighbour {
		return topology.BridgeNeighbour{Neighbour: topology.Neighbour{Device: p.NeighDevice, Addr: p.Addr}, MAC: p.MAC, BridgeMAC: p.Gateway}
	}
	for name, topo := range map[string]topology.Topology{
		"known":    {Pods: []topology.LocalPod{gone, nobody, way}},
		"unplaced": {MissingFDB: []topology.BridgeNeighbour{unplaced(gone), unplaced(nobody), unplaced(way)}},
	} {
		end := time.Now().Add(host.ScaleTimeout(time.Minute))
		for tick := uint32(1); !forgets(t, m, mac); tick++ { // it may be learning just now
			if time.Now().After(end) {
				t.Fatalf("%s: the bridge goes on to know the pod", name)
			}
		}
		must(t, fastpath.SendProbes(m, topo))
		for !knows(t, m, mac) {
			if time.Now().After(end) {
				t.Fatalf("%s: the bridge does not know the pod that was asked", name)
			}
			time.Sleep(time.Millisecond)
		}
	}
}

// A dead pod, for whose neighbour entry nobody answers, gets a few probes; then the kernel gives it
// up. One that somebody has made permanent, or has the kernel probe, stays as it is.
func TestProbesEnd(t *testing.T) {
	for _, entry := range []struct {
		is      string // as ip has it
		givenUp bool
	}{{"nud stale", true}, {"nud stale extern_learn", false}, {"nud permanent", false}, {"managed", false}} {
		t.Run(entry.is, func(t *testing.T) { checkProbesEnd(t, entry.is, entry.givenUp) })
	}
}

func checkProbesEnd(t *testing.T, entry string, givenUp bool) {
	w, err := netcfg.Owned(testenv.Claim(t))
	must(t, err)
	m, err := w.Create(w.Name("m1"))
	must(t, err)
	defer m.Close()
	must(t, m.AddBridge("br0", net.HardwareAddr{2, 0, 0, 0, 0, 1}, 1500))
	// Its port has a carrier.
	testenv.Shell(t, m.Path(), `ip link add p0 up type veth peer name p1; ip link set p1 up; ip link set p0 master br0; ip link set br0 up
		ip addr add 192.0.2.1/24 dev br0`)
	if err := testenv.Load(t, m, "neigh add 192.0.2.2 lladdr 02:00:00:00:00:02 dev br0 "+entry, "ip", "-batch", "-"); err != nil {
		t.Skipf("this kernel, or ip, has no such neighbours: %v", err)
	}
	to := topology.BridgeNeighbour{
		Neighbour: topology.Neighbour{Device: index(t, m, "br0"), Addr: netip.MustParseAddr("192.0.2.2")},
		MAC:       net.HardwareAddr{2, 0, 0, 0, 0, 2}, BridgeMAC: net.HardwareAddr{2, 0, 0, 0, 0, 1},
	}
	read := func() (is vnl.Neigh) {
		testenv.InNetns(t, m.Path(), func() error {
			all, err := vnl.NeighList(to.Device, vnl.FAMILY_V4)
			for _, n := range all {
				if n.IP.String() == "192.0.2.2" {
					is = n
				}
			}
			return err
		})
		return is
	}
	seen, before := arpProbes(t, m, "p1"), read()
	must(t, fastpath.ProbeMissing(m, topology.Topology{MissingFDB: []topology.BridgeNeighbour{to}}, 20))
	if givenUp {
		eventually(t, "the kernel has given the neighbour up", func() bool { return read().State&^vnl.NUD_FAILED == 0 })
	}
	is := read()
	if before.State == vnl.NUD_PERMANENT && (is.State != before.State || !bytes.Equal(is.HardwareAddr, before.HardwareAddr)) {
		t.Errorf("the permanent neighbour %v is %v in state %#x now", before, is, is.State)
	}
	if is.IP != nil && (is.Flags != before.Flags || is.FlagsExt != before.FlagsExt) {
		t.Errorf("its flags are %#x and %#x now, and were %#x and %#x", is.Flags, is.FlagsExt, before.Flags, before.FlagsExt)
	}
	if n := seen(); n != fastpath.MaxProbes {
		t.Errorf("it got %d probes, want %d", n, fastpath.MaxProbes)
	}
}

// arpProbes counts the ARP probes that arrive at a device: those without a sender address.
func arpProbes(t *testing.T, n *netcfg.Namespace, device string) func() int {
	t.Helper()
	fd := -1
	testenv.InNetns(t, n.Path(), func() (err error) {
		if fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, int(0x0608)); err != nil { // ETH_P_ARP
			return err
		}
		l, err := vnl.LinkByName(device)
		if err != nil {
			return err
		}
		return unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: 0x0608, Ifindex: l.Attrs().Index})
	})
	t.Cleanup(func() { must(t, unix.Close(fd)) })
	return func() (count int) {
		for frame := make([]byte, 128); ; {
			n, _, err := unix.Recvfrom(fd, frame, 0)
			if err != nil {
				return count
			}
			if n >= 42 && bytes.Equal(frame[28:32], make([]byte, 4)) {
				count++
			}
		}
	}
}

func index(t *testing.T, n *netcfg.Namespace, name string) (is int) {
	t.Helper()
	testenv.InNetns(t, n.Path(), func() error {
		l, err := vnl.LinkByName(name)
		if err == nil {
			is = l.Attrs().Index
		}
		return err
	})
	return is
}

// knows tells whether a machine's bridge knows where a MAC is.
func knows(t *testing.T, n *netcfg.Namespace, mac net.HardwareAddr) bool {
	t.Helper()
	return entry(t, n, mac) != nil
}

// forgets has it forget that, and tells whether it has.
func forgets(t *testing.T, n *netcfg.Namespace, mac net.HardwareAddr) bool {
	t.Helper()
	if e := entry(t, n, mac); e != nil {
		testenv.InNetns(t, n.Path(), func() error {
			e.Flags = vnl.NTF_MASTER
			return vnl.NeighDel(e)
		})
	}
	return !knows(t, n, mac)
}

func entry(t *testing.T, n *netcfg.Namespace, mac net.HardwareAddr) (found *vnl.Neigh) {
	t.Helper()
	testenv.InNetns(t, n.Path(), func() error {
		all, err := vnl.NeighList(0, unix.AF_BRIDGE)
		for _, e := range all {
			if e.MasterIndex != 0 && e.HardwareAddr.String() == mac.String() {
				found = &e
			}
		}
		return err
	})
	return found
}
