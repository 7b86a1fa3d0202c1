package testenv

import (
	"fmt"
	"net"
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/venturi-net/venturi/internal/netcfg"
)

// Container is a network namespace that no lab built.
type Container struct {
	In   *netcfg.Namespace
	Addr netip.Addr

	bridge *netcfg.Namespace
	port   string
}

// Containers wires two namespaces as Docker does, by a bridge in a third one,
// with the given MTU. They go with the test.
func Containers(t testing.TB, mtu int) (made [2]Container) {
	t.Helper()
	name := Claim(t)
	w, err := netcfg.Owned(name)
	create := func(rest string) *netcfg.Namespace {
		if err != nil {
			t.Fatalf("make containers: %v", err)
		}
		var n *netcfg.Namespace
		if n, err = w.Create(w.Name(rest)); err != nil {
			t.Fatalf("make containers: %v", err)
		}
		t.Cleanup(n.Close)
		return n
	}
	bridge := create("bridge")
	err = bridge.AddBridge("docker0", nil, mtu)
	for i, rest := range []string{"a", "b"} {
		c := Container{In: create(rest), Addr: netip.AddrFrom4([4]byte{172, 17, 0, byte(i + 2)}), bridge: bridge, port: fmt.Sprintf("veth%d", i)}
		steps := []func() error{
			func() error {
				return netcfg.AddVeth(netcfg.VethEnd{In: bridge, Name: c.port}, netcfg.VethEnd{In: c.In, Name: "eth0"}, mtu)
			},
			func() error { return bridge.Enslave(c.port, "docker0", false) },
			func() error { return c.In.AddAddr("eth0", netip.PrefixFrom(c.Addr, 16)) },
		}
		for _, step := range steps {
			if err = step(); err != nil {
				t.Fatalf("wire containers: %v", err)
			}
		}
		made[i] = c
	}
	return made
}

// Unplug takes a container's network away, as stopping it does.
func (c Container) Unplug(t testing.TB) {
	t.Helper()
	InNetns(t, c.bridge.Path(), func() error {
		link, err := netlink.LinkByName(c.port)
		if err != nil {
			return err
		}
		return netlink.LinkDel(link)
	})
}

// RouteMTU makes the namespace's route to one address allow less than its
// device, bytes.
func RouteMTU(t testing.TB, namespace string, to netip.Addr, mtu int) {
	t.Helper()
	InNetns(t, namespace, func() error {
		link, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		return netlink.RouteAdd(&netlink.Route{
			LinkIndex: link.Attrs().Index, Scope: netlink.SCOPE_LINK, MTU: mtu,
			Dst: &net.IPNet{IP: to.AsSlice(), Mask: net.CIDRMask(32, 32)},
		})
	})
}
