package setting

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/nlmsg"
)

// mtuSideEffects lists what else the MTU of a device moves: IPv6 has one of its own
// that follows it, and so do the devices that are made on top of it, in
// whatever namespace, and the bridge that it is a port of.
func mtuSideEffects(scope Scope) ([]Setting, error) {
	settings := []Setting{ipv6MTU(scope)}
	spaces, _, err := host.Reader{}.FindNetns()
	if err != nil {
		return nil, err
	}
	scopes := []Scope{scope}
	for i := 0; i < len(scopes); i++ { // what is on top of those on top follows too
		for _, s := range spaces {
			upper, err := upperScopes(scopes[i], s.Path)
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				return nil, err
			}
			for _, u := range upper {
				if slices.ContainsFunc(scopes, func(known Scope) bool { return known.identity() == u.identity() }) {
					continue
				}
				scopes = append(scopes, u)
				settings = append(settings, Setting{Backend: "link", Scope: u, Key: "mtu"}, ipv6MTU(u))
			}
		}
	}
	return settings, nil
}

// upperScopes lists the devices of a namespace whose MTU follows that of a device,
// which may be in another one.
func upperScopes(of Scope, netns string) (scopes []Scope, err error) {
	lower, err := of.Netns.find()
	if err != nil {
		return nil, err
	}
	file, err := os.Open(lower)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", lower, err)
	}
	defer file.Close()
	here, err := NetnsScope(netns)
	if err != nil {
		return nil, err
	}
	same := here.identity() == Scope{Netns: of.Netns}.identity()
	err = host.Do(here.Netns.Path, func() error {
		h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
		if err != nil {
			return err
		}
		defer h.Close()
		its := -1 // the number by which this namespace knows that of the device
		if !same {
			if its, err = h.GetNetNsIdByFd(int(file.Fd())); err != nil || its < 0 {
				return err // it does not know it
			}
		}
		links, err := host.Links()
		if err != nil {
			return err
		}
		for _, link := range links {
			on := link.Attrs().NetNsID == its && isUpper(link, of.Device)
			if on || same && isBound(links, link, of.Device) {
				scopes = append(scopes, Scope{Netns: here.Netns, Device: deviceID(link)})
			}
		}
		return nil
	})
	return scopes, err
}

// isUpper tells whether a device is made on top of another one, and of a kind
// whose MTU follows.
func isUpper(link netlink.Link, lower *DeviceID) bool {
	kinds := []string{"vlan", "macvlan", "macvtap", "ipvlan", "ipvtap", "macsec"}
	return link.Attrs().ParentIndex == lower.Index && slices.Contains(kinds, link.Type())
}

// isBound tells whether a device is the bridge of another one, which takes the
// least MTU of its ports, or a port of a bond or team, which hands its own down.
func isBound(links []netlink.Link, link netlink.Link, of *DeviceID) bool {
	a := link.Attrs()
	if a.MasterIndex == of.Index {
		return of.Kind == "bond" || of.Kind == "team"
	}
	return link.Type() == "bridge" && slices.ContainsFunc(links, func(port netlink.Link) bool {
		return port.Attrs().Index == of.Index && port.Attrs().MasterIndex == a.Index
	})
}

// RoutesWithMTU lists the destinations of the IPv6 routes over a device that have
// an MTU of their own which is not locked: the kernel overwrites it with that
// of the device when that is less, or was the same.
func RoutesWithMTU(scope Scope) (to []string, err error) {
	err = scope.enterDevice(func(_ string, index int) error {
		h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
		if err != nil {
			return err
		}
		defer h.Close()
		only := &netlink.Route{LinkIndex: index, Table: unix.RT_TABLE_UNSPEC}
		routes, err := nlmsg.Dump(func() ([]netlink.Route, error) {
			return h.RouteListFiltered(netlink.FAMILY_V6, only, netlink.RT_FILTER_OIF|netlink.RT_FILTER_TABLE)
		})
		for _, r := range routes {
			if r.MTU > 0 && !r.MTULock {
				to = append(to, r.Dst.String())
			}
		}
		return err
	})
	return to, err
}
