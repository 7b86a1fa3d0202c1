package netcfg

import (
	"errors"
	"fmt"
	"net/netip"
	"os"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/host"
)

// DynamicRoute is a route that a routing protocol brought.
type DynamicRoute struct {
	Dst      netip.Prefix
	Via      netip.Addr // the kernel itself finds the device that leads there
	Protocol int        // of those that rtnetlink(7) lists, such as RTPROT_BGP
}

// AddDynamicRoute installs a route. It is an error that wraps EEXIST if there is
// one to the same destination, whoever made that.
func (n *Namespace) AddDynamicRoute(r DynamicRoute) error {
	return n.Wrap("add route "+r.Dst.String(), n.h.RouteAdd(r.route()))
}

// ReplaceDynamicRoute changes where a route leads, with no moment between in which
// there is none. The kernel does not look at whose route it replaces: call it
// for own ones only.
func (n *Namespace) ReplaceDynamicRoute(r DynamicRoute) error {
	return n.Wrap("replace route "+r.Dst.String(), n.h.RouteReplace(r.route()))
}

// DeleteDynamicRoute removes the route to r.Dst if it is of r.Protocol; Via does not
// matter. One that is not there is no error.
func (n *Namespace) DeleteDynamicRoute(r DynamicRoute) error {
	r.Via = netip.Addr{}
	err := n.h.RouteDel(r.route())
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	return n.Wrap("delete route "+r.Dst.String(), err)
}

func (r DynamicRoute) route() *netlink.Route {
	route := &netlink.Route{Dst: ipNet(r.Dst), Protocol: netlink.RouteProtocol(r.Protocol)}
	if r.Via.IsValid() {
		route.Gw = r.Via.AsSlice()
	}
	return route
}

// CurrentNetns opens the namespace that this process lives in, for a process of a lab
// that keeps part of it up to date. It is refused if that is not a lab's: run
// by hand, such a process must not write to the machine itself.
func CurrentNetns() (*Namespace, error) {
	own, err := host.ID("/proc/self/ns/net")
	if err != nil {
		return nil, err
	}
	names, err := Namespaces()
	if err != nil {
		return nil, err
	}
	// Somebody may have given the machine's own a name such as ours.
	if first, err := host.ID("/proc/1/ns/net"); err != nil || first != own {
		for _, name := range names {
			path := host.NamespacePath(name)
			if info, err := os.Lstat(path); err != nil || info.Mode()&os.ModeSymlink != 0 {
				continue // a link leads to what is somebody else's
			}
			if id, err := host.ID(path); err == nil && id == own {
				return openFile(name, path)
			}
		}
	}
	return nil, fmt.Errorf("open the namespace of this process: %w: it is not one of a lab", ErrNotOwned)
}

// OpenNode opens the namespace that the calling thread is in, whoever made it: for a fast path
// that somebody has asked for on this very machine, and that records what it changes.
func OpenNode() (*Namespace, error) {
	n, err := openFile("this node", "/proc/thread-self/ns/net")
	if err == nil {
		n.path = fmt.Sprintf("/proc/self/fd/%d", n.file.Fd())
	}
	return n, err
}
