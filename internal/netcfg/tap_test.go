package netcfg_test

import (
	"errors"
	"os"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/testenv"
)

// TestTap: a tap waits for a process, which may open as many queues as it has.
func TestTap(t *testing.T) {
	_, n := testenv.Namespace(t)
	for name, queues := range map[string]int{"one": 1, "four": 4} {
		testenv.Must(t, n.AddTap(netcfg.Tap{Name: name, MAC: []byte{2, 0, 0, 0, 0, 7}, MTU: 1450, Queues: queues}))
		if err := n.AddTap(netcfg.Tap{Name: name, MTU: 1450}); err == nil {
			t.Errorf("made %s twice", name)
		}
		testenv.InNetns(t, n.Path(), func() error {
			links, err := host.Links()
			found := false
			for _, l := range links {
				a := l.Attrs()
				if a.Name != name {
					continue
				}
				found = true
				if a.HardwareAddr.String() != "02:00:00:00:00:07" || a.MTU != 1450 || a.Flags&1 == 0 {
					t.Errorf("it is there as %+v", a)
				}
			}
			if !found {
				t.Errorf("%s is not there", name)
			}
			var multi uint16
			if queues > 1 {
				multi = unix.IFF_MULTI_QUEUE
			}
			for range queues {
				queue, err := openTap(name, unix.IFF_TAP|unix.IFF_NO_PI|unix.IFF_VNET_HDR|multi)
				testenv.Must(t, err)
				defer queue.Close()
			}
			if queue, err := openTap(name, unix.IFF_TAP|unix.IFF_NO_PI|unix.IFF_VNET_HDR); err == nil {
				queue.Close()
				t.Errorf("%s was opened as a tap of one queue, and not for the first time", name)
			}
			return err
		})
	}
}

// openTap opens a queue of a tap as a hypervisor does.
func openTap(name string, flags uint16) (*os.File, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), name)
	req, err := unix.NewIfreq(name)
	if err == nil {
		req.SetUint16(flags)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, req)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// A namespace without a name is entered by its file while it is held, and found
// by nobody else.
func TestNewAnonymous(t *testing.T) {
	testenv.Root(t)
	n, err := netcfg.NewAnonymous()
	testenv.Must(t, err)
	defer n.Close()
	testenv.Must(t, n.AddTap(netcfg.Tap{Name: "tap0", MTU: 1450}))
	testenv.Must(t, host.Do(n.Path(), func() error {
		links, err := host.Links()
		if err == nil && !slices.ContainsFunc(links, func(l netlink.Link) bool { return l.Attrs().Name == "tap0" }) {
			t.Error("its tap is not found in it")
		}
		return err
	}))
	if _, err := os.Stat(host.NamespacePath(n.Name())); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it has a name: %v", err)
	}
}
