package host

import (
	"fmt"
	"net"
	"net/netip"
	"os"

	"github.com/venturi-net/venturi/internal/nlmsg"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// NetnsHandle is a network namespace that is kept open. It stays the same one,
// whatever becomes of the name or the process that it was found by.
type NetnsHandle struct{ file *os.File }

// OpenNetns opens the namespace whose file is path. It is an error if the file is
// not a namespace.
func OpenNetns(path string) (*NetnsHandle, error) {
	if _, err := ID(path); err != nil { // to open anything else might wait, or do something
		return nil, err
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open namespace: %w", err)
	}
	return &NetnsHandle{file}, nil
}

// Path is a file of the namespace, for other processes of the same user too,
// until Close.
func (h *NetnsHandle) Path() string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), h.file.Fd()) }

// Close lets go of the namespace.
func (h *NetnsHandle) Close() error { return h.file.Close() }

// Address is an IPv4 address of a device.
type Address struct {
	Addr   netip.Addr
	Device string
}

func (a Address) String() string { return a.Addr.String() + " (" + a.Device + ")" }

// Addresses lists the IPv4 addresses by which others can reach the calling
// thread's namespace: of global scope, on devices that are up.
func Addresses() ([]Address, error) {
	h, links, err := openLinks()
	if err != nil {
		return nil, err
	}
	defer h.Close()
	var found []Address
	for _, link := range links {
		if link.Attrs().Flags&net.FlagUp == 0 {
			continue
		}
		all, err := nlmsg.Dump(func() ([]netlink.Addr, error) { return h.AddrList(link, netlink.FAMILY_V4) })
		if err != nil {
			return nil, fmt.Errorf("list addresses of %s: %w", link.Attrs().Name, err)
		}
		for _, a := range all {
			if a.Scope == int(netlink.SCOPE_UNIVERSE) {
				found = append(found, Address{nlmsg.ToAddr(a.IP), link.Attrs().Name})
			}
		}
	}
	return found, nil
}

// ResolvedRoute is how packets leave a namespace for an address.
type ResolvedRoute struct {
	Device string
	MTU    int        // bytes, of the device, or of the route where that is less
	Local  bool       // they do not leave: the address is the namespace's own
	Src    netip.Addr // that they leave with
	OnLink bool       // no gateway is on the way
}

// RouteTo asks the kernel how packets would go from one of the addresses of the
// calling thread's namespace, or from the one that it chooses, to another address.
// Error: they would not.
func RouteTo(to, from netip.Addr) (ResolvedRoute, error) {
	h, err := netlink.NewHandle(netlinkRoute)
	if err != nil {
		return ResolvedRoute{}, fmt.Errorf("open netlink: %w", err)
	}
	defer h.Close()
	routes, err := h.RouteGetWithOptions(to.AsSlice(), &netlink.RouteGetOptions{SrcAddr: from.AsSlice()})
	if err != nil {
		return ResolvedRoute{}, fmt.Errorf("get route: %w", err)
	}
	r := routes[0]
	link, err := h.LinkByIndex(r.LinkIndex)
	if err != nil {
		return ResolvedRoute{}, fmt.Errorf("get device of route: %w", err)
	}
	w := ResolvedRoute{Device: link.Attrs().Name, MTU: link.Attrs().MTU, Local: r.Type == unix.RTN_LOCAL, Src: from, OnLink: r.Gw == nil && r.Via == nil}
	if !from.IsValid() {
		w.Src = nlmsg.ToAddr(r.Src)
	}
	if r.MTU > 0 {
		w.MTU = min(w.MTU, r.MTU)
	}
	return w, nil
}
