package bgp

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/netcfg"
)

// protocol marks the routes of this package in the kernel: RTPROT_BGP, which
// the ip command shows as "proto bgp".
const protocol = 186

// fib keeps the kernel's routes as they should be.
type fib struct {
	space     *netcfg.Namespace
	accepts   func(netip.Prefix) bool
	installed map[netip.Prefix]netip.Addr // next hop of each
}

// scan reads what is installed. A route may have gone since, with the device
// that it led by, and a speaker that was killed leaves some.
func (f *fib) scan() error {
	routes, err := host.Routes(protocol)
	if err != nil {
		return err
	}
	f.installed = map[netip.Prefix]netip.Addr{}
	for _, r := range routes {
		if f.accepts(r.Dst) {
			f.installed[r.Dst] = r.Via
		}
	}
	return nil
}

// sync makes the installed routes those that are wanted. What could not be done
// is told, and tried again by the next call.
func (f *fib) sync(wanted map[netip.Prefix]netip.Addr) (problems []string) {
	did := func(err error) bool {
		if err != nil {
			problems = append(problems, err.Error())
		}
		return err == nil
	}
	for dst := range f.installed {
		if _, ok := wanted[dst]; !ok && did(f.space.DeleteDynamicRoute(netcfg.DynamicRoute{Dst: dst, Protocol: protocol})) {
			delete(f.installed, dst)
		}
	}
	for dst, via := range wanted {
		route := netcfg.DynamicRoute{Dst: dst, Via: via, Protocol: protocol}
		old, there := f.installed[dst]
		switch {
		case !there && did(f.space.AddDynamicRoute(route)):
			f.installed[dst] = via
		case there && old != via && did(f.space.ReplaceDynamicRoute(route)):
			f.installed[dst] = via
		}
	}
	slices.Sort(problems)
	return problems
}

// routes lists what is installed, in ascending order.
func (f *fib) routes() []Route {
	list := make([]Route, 0, len(f.installed))
	for dst, via := range f.installed {
		list = append(list, Route{Prefix: dst, Via: via})
	}
	slices.SortFunc(list, func(a, b Route) int {
		return cmp.Or(a.Prefix.Addr().Compare(b.Prefix.Addr()), a.Prefix.Bits()-b.Prefix.Bits())
	})
	return list
}
