package netcfg_test

import (
	"errors"
	"net/netip"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/testenv"
)

// Dynamic routes are told apart by their protocol, and only own ones go.
func TestDynamicRoute(t *testing.T) {
	const protocol, other = 186, 12
	_, n := testenv.Namespace(t)
	testenv.Must(t, n.AddBridge("br0", nil, 1500))
	testenv.Must(t, n.AddAddr("br0", netip.MustParsePrefix("10.0.0.1/24")))
	dst := netip.MustParsePrefix("10.245.0.0/26")
	first := netcfg.DynamicRoute{Dst: dst, Via: netip.MustParseAddr("10.0.0.2"), Protocol: protocol}
	second := first
	second.Via = netip.MustParseAddr("10.0.0.3")
	has := func(protocol int, want ...host.Route) {
		t.Helper()
		testenv.InNetns(t, n.Path(), func() error {
			got, err := host.Routes(protocol)
			if !slices.Equal(got, want) {
				t.Errorf("routes of protocol %d: %v, want %v", protocol, got, want)
			}
			return err
		})
	}

	testenv.Must(t, n.AddDynamicRoute(first))
	has(protocol, host.Route{Dst: dst, Via: first.Via})
	if err := n.AddDynamicRoute(second); !errors.Is(err, unix.EEXIST) {
		t.Errorf("a second route to the same destination: %v, want EEXIST", err)
	}
	testenv.Must(t, n.ReplaceDynamicRoute(second))
	has(protocol, host.Route{Dst: dst, Via: second.Via})

	testenv.Must(t, n.DeleteDynamicRoute(netcfg.DynamicRoute{Dst: dst, Protocol: other}))
	has(protocol, host.Route{Dst: dst, Via: second.Via})
	has(other)
	testenv.Must(t, n.DeleteDynamicRoute(first))
	has(protocol)
	testenv.Must(t, n.DeleteDynamicRoute(first)) // it is gone already

	lost := netcfg.DynamicRoute{Dst: dst, Via: netip.MustParseAddr("192.0.2.1"), Protocol: protocol}
	if err := n.AddDynamicRoute(lost); err == nil {
		t.Error("a next hop that cannot be reached was taken")
	}
}

// This process lives where the machine does, which is nobody's to write to.
func TestCurrentNetnsIsNotOurs(t *testing.T) {
	testenv.Root(t)
	if n, err := netcfg.CurrentNetns(); !errors.Is(err, netcfg.ErrNotOwned) {
		t.Errorf("opened %v, %v, want %v", n, err, netcfg.ErrNotOwned)
	}
}
