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
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/testenv"
)

// node is a machine with many routed pods and peers, of which none ever speaks.
type node struct {
	netns  *netcfg.Namespace
	pods   *os.File // namespace of their own ends
	config string   // file
	fastpath.Config
}

// newNode makes one.
func newNode(t testing.TB, pods, peers int) *node {
	t.Helper()
	w, err := netcfg.Owned(testenv.Claim(t))
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
	folder := t.TempDir()
	n.config = filepath.Join(folder, "config")
	n.Config = fastpath.Config{
		Kind: fastpath.Routed, Devices: topology.DeviceNames{Wire: "wire"},
		Pins: filepath.Join(folder, "bpf"), State: filepath.Join(folder, "state"),
	}
	for i := range pods {
		n.Devices.Pods = append(n.Devices.Pods, fmt.Sprint("pod", i))
	}
	must(t, n.Write(n.config))
	t.Cleanup(func() { must(t, kernel.UnmountPins(folder)) })
	testenv.InNetns(t, n.netns.Path(), func() error {
		if err := n.link("wire"); err != nil {
			return err
		}
		for i := range peers {
			if err := neighbour("wire", 11, i); err != nil {
				return err
			}
		}
		for i, name := range n.Devices.Pods {
			if err := n.pod(name, i); err != nil {
				return err
			}
		}
		return nil
	})
	return n
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

func (n *node) pod(name string, i int) error {
	if err := n.link(name); err != nil {
		return err
	}
	l, err := vnl.LinkByName(name)
	if err != nil {
		return err
	}
	to := &net.IPNet{IP: addrIn(10, i).AsSlice(), Mask: net.CIDRMask(32, 32)}
	if err := vnl.RouteAdd(&vnl.Route{LinkIndex: l.Attrs().Index, Dst: to, Scope: vnl.SCOPE_LINK}); err != nil {
		return fmt.Errorf("route to %s: %w", name, err)
	}
	return neighbour(name, 10, i)
}

// neighbour gives the i-th address of a network a MAC, at a device.
func neighbour(device string, network byte, i int) error {
	l, err := vnl.LinkByName(device)
	if err != nil {
		return err
	}
	mac := binary.BigEndian.AppendUint32([]byte{2, network}, uint32(i))
	return vnl.NeighSet(&vnl.Neigh{
		LinkIndex: l.Attrs().Index, State: unix.NUD_PERMANENT, IP: addrIn(network, i).AsSlice(), HardwareAddr: mac,
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
