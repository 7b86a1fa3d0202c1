package fastpath_test

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	vnl "github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/kernel"
	"github.com/venturi-net/venturi/internal/fastpath/topology"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/testenv"
)

// node is a machine with many pods and peers, of which none ever speaks.
type node struct {
	netns  *netcfg.Namespace
	pods   *os.File // namespace of their own ends
	config string   // file
	fastpath.Config
}

const (
	tunnelPort   = 8472
	podNetwork   = 10
	peerNetwork  = 11
	innerNetwork = 12
)

// newNode makes one of a kind: its pods are routed, or ports of a bridge whose peers are behind a
// tunnel.
func newNode(t testing.TB, kind string, pods, peers int) *node {
	t.Helper()
	name := testenv.Claim(t)
	w, err := netcfg.Owned(name)
	must(t, err)
	n := &node{}
	n.netns, err = w.Create(w.Name("node"))
	must(t, err)
	t.Cleanup(n.netns.Close)
	all, err := w.Create(w.Name("pods"))
	must(t, err)
	t.Cleanup(all.Close)
	n.pods, err = os.Open(all.Path())
	must(t, err)
	t.Cleanup(func() { n.pods.Close() })
	folder := filepath.Join(lab.Folder, name) // in memory, as a lab's, and like that removed if the test is killed
	must(t, os.MkdirAll(folder, 0o700))
	n.config = filepath.Join(folder, "config")
	n.Config = fastpath.Config{
		Kind: kind, Devices: topology.DeviceNames{Wire: "wire"},
		Pins: filepath.Join(folder, "bpf"), State: filepath.Join(folder, "state"),
	}
	if kind == fastpath.VXLAN {
		n.Devices.Tunnels, n.Port = []string{"tunnel"}, tunnelPort
	}
	for i := range pods {
		n.Devices.Pods = append(n.Devices.Pods, fmt.Sprint("pod", i))
	}
	must(t, n.Write(n.config))
	t.Cleanup(func() { must(t, kernel.UnmountPins(folder)) })
	for _, m := range []*netcfg.Namespace{n.netns, all} { // a bridge would send to all ports what any pod says about its address
		must(t, m.Sysctl(netcfg.Sysctl{Name: "net.ipv6.conf.all.disable_ipv6", Value: "1", Optional: true}, netcfg.Sysctl{Name: "net.ipv6.conf.default.disable_ipv6", Value: "1", Optional: true}))
	}
	testenv.InNetns(t, n.netns.Path(), func() error {
		if err := n.link("wire"); err != nil {
			return err
		}
		if kind == fastpath.VXLAN {
			if err := overlay(); err != nil {
				return err
			}
		}
		for i := range peers {
			if err := neighbour("wire", peerNetwork, i); err != nil {
				return err
			}
			if kind != fastpath.VXLAN {
				continue
			}
			if err := forward("tunnel", unix.NTF_SELF, innerNetwork, i, addrIn(peerNetwork, i).AsSlice()); err != nil {
				return err
			}
		}
		for i, name := range n.Devices.Pods {
			if err := n.pod(kind, name, i); err != nil {
				return err
			}
		}
		return nil
	})
	testenv.InNetns(t, all.Path(), func() error {
		for _, name := range append(n.Devices.Pods, "wire") {
			if err := vnl.LinkSetUp(&vnl.Device{LinkAttrs: vnl.LinkAttrs{Name: name}}); err != nil {
				return err
			}
		}
		return nil
	})
	return n
}

// overlay adds a bridge for the pods, and a tunnel whose peers are on the wire.
func overlay() error {
	wire, err := vnl.LinkByName("wire")
	if err != nil {
		return err
	}
	bridge, tunnel := vnl.NewLinkAttrs(), vnl.NewLinkAttrs()
	bridge.Name, tunnel.Name = "br0", "tunnel"
	bridge.HardwareAddr = macIn(podNetwork, 1<<15) // with one of its ports' it would forget its neighbours as they come
	own := addrIn(peerNetwork, 1<<15)
	err = vnl.AddrAdd(wire, &vnl.Addr{IPNet: &net.IPNet{IP: own.AsSlice(), Mask: net.CIDRMask(16, 32)}})
	for _, l := range []vnl.Link{
		&vnl.Bridge{LinkAttrs: bridge},
		&vnl.Vxlan{LinkAttrs: tunnel, VxlanId: 1, Port: tunnelPort, SrcAddr: own.AsSlice(), VtepDevIndex: wire.Attrs().Index},
	} {
		if err == nil {
			err = vnl.LinkAdd(l)
		}
		if err == nil {
			err = vnl.LinkSetUp(l)
		}
	}
	return err
}

// link adds a pair whose other end is among the pods, both up.
func (n *node) link(name string) error {
	a := vnl.NewLinkAttrs()
	a.Name = name
	veth := &vnl.Veth{LinkAttrs: a, PeerName: name, PeerNamespace: vnl.NsFd(int(n.pods.Fd()))}
	if err := vnl.LinkAdd(veth); err != nil {
		return fmt.Errorf("add %s: %w", name, err)
	}
	return vnl.LinkSetUp(veth)
}

func (n *node) pod(kind, name string, i int) error {
	if err := n.link(name); err != nil {
		return err
	}
	l, err := vnl.LinkByName(name)
	if err != nil {
		return err
	}
	if kind == fastpath.VXLAN {
		bridge, err := vnl.LinkByName("br0")
		if err != nil {
			return err
		}
		if err := vnl.LinkSetMaster(l, bridge); err != nil {
			return err
		}
		if err := forward(name, unix.NTF_MASTER, podNetwork, i, nil); err != nil {
			return err
		}
		return neighbour("br0", podNetwork, i)
	}
	to := &net.IPNet{IP: addrIn(podNetwork, i).AsSlice(), Mask: net.CIDRMask(32, 32)}
	if err := vnl.RouteAdd(&vnl.Route{LinkIndex: l.Attrs().Index, Dst: to, Scope: vnl.SCOPE_LINK}); err != nil {
		return fmt.Errorf("route to %s: %w", name, err)
	}
	return neighbour(name, podNetwork, i)
}

// forward adds a forwarding entry for the MAC of the i-th address of a network.
func forward(device string, flags int, network byte, i int, to net.IP) error {
	l, err := vnl.LinkByName(device)
	if err != nil {
		return err
	}
	return vnl.NeighSet(&vnl.Neigh{
		LinkIndex: l.Attrs().Index, Family: unix.AF_BRIDGE, Flags: flags, State: unix.NUD_PERMANENT | unix.NUD_NOARP, IP: to, HardwareAddr: macIn(network, i),
	})
}

func macIn(network byte, i int) net.HardwareAddr {
	return binary.BigEndian.AppendUint32([]byte{2, network}, uint32(i))
}

// neighbour gives the i-th address of a network a MAC, at a device.
func neighbour(device string, network byte, i int) error {
	l, err := vnl.LinkByName(device)
	if err != nil {
		return err
	}
	return vnl.NeighSet(&vnl.Neigh{
		LinkIndex: l.Attrs().Index, State: unix.NUD_PERMANENT, IP: addrIn(network, i).AsSlice(), HardwareAddr: macIn(network, i),
	})
}

func addrIn(network byte, i int) netip.Addr {
	return netip.AddrFrom4([4]byte{network, 1, byte(i >> 8), byte(i)})
}

// serving is a daemon of a node.
type serving struct {
	*exec.Cmd
	lifeline io.Closer
}

// serve starts the fast path's daemon. It is ended with the test, if it lives then.
func (n *node) serve(t testing.TB, args ...string) *serving {
	t.Helper()
	s := &serving{Cmd: exec.Command(testenv.Program(t)[0], append([]string{"fastpath", "--config", n.config}, args...)...)}
	s.Stderr = t.Output()
	var err error
	s.lifeline, err = s.StdinPipe()
	must(t, err)
	must(t, host.Do(n.netns.Path(), s.Start))
	t.Cleanup(func() { s.end(t) })
	return s
}

// end lets a daemon take the fast path away.
func (s *serving) end(t testing.TB) {
	t.Helper()
	if s.ProcessState == nil {
		must(t, s.lifeline.Close())
		must(t, s.Wait())
	}
}

// state is what the daemon says; nothing, as long as it says nothing.
func (n *node) state() fastpath.State {
	s, err := fastpath.ReadState(n.State)
	if err != nil {
		return fastpath.State{Off: err.Error()}
	}
	return *s
}

// index is that of a device of the node.
func (n *node) index(t testing.TB, name string) (index int) {
	t.Helper()
	testenv.InNetns(t, n.netns.Path(), func() error {
		l, err := vnl.LinkByName(name)
		if err == nil {
			index = l.Attrs().Index
		}
		return err
	})
	return index
}
