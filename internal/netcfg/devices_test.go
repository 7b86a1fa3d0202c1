package netcfg_test

import (
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/kernel"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/agenttest"
	"github.com/venturi-net/venturi/internal/vm"
)

// manyKinds is how many of the kinds of TestDevices any of Debian's kernels has.
const manyKinds = 5

// The kernel that tests run on may have none of them: one of Debian's has.
func TestDevicesUnderKernel(t *testing.T) {
	testenv.Root(t)
	testenv.NeedsLong(t)
	agenttest.UnderKernels(t, "6.12", func(t *testing.T, k kernel.Kernel) {
		if said, code := agenttest.RunInGuest(t, vm.Config{Kernel: k, Memory: 1 << 10}, []string{"-test.v", "-test.run=^TestDevices$"}); code != 0 || !strings.Contains(said, "--- PASS: TestDevices ") {
			t.Errorf("it ended with code %d:\n%s", code, said)
		}
	})
}

// Kinds of devices that not every kernel has are made as they were asked for;
// a kernel that lacks one says so, in the way that probes understand.
func TestDevices(t *testing.T) {
	w, n := testenv.Namespace(t)
	pod, err := w.Create(w.Name("pod"))
	testenv.Must(t, err)
	defer pod.Close()
	testenv.Must(t, netcfg.AddVeth(netcfg.VethEnd{In: n, Name: "a"}, netcfg.VethEnd{In: n, Name: "b"}, 1500))
	kinds := 0
	for kind, c := range map[string]struct {
		in     *netcfg.Namespace
		device string
		mtu    int
		make   func() error
	}{
		"ipip": {n, "tun", 1400, func() error {
			return n.AddIPIP(netcfg.IPIP{Name: "tun", MTU: 1400, Local: netip.MustParseAddr("192.0.2.1"), Device: "a"})
		}},
		"geneve": {n, "gnv", 1401, func() error {
			return n.AddGeneve(netcfg.Geneve{Name: "gnv", MAC: []byte{2, 0, 0, 0, 0, 5}, MTU: 1401, Port: 6081})
		}},
		"802.1Q": {n, "vlan", 1402, func() error { return n.AddVLAN("a", netcfg.VLAN{Name: "vlan", ID: 7, MTU: 1402}) }},
		"802.1ad": {n, "svlan", 1403, func() error {
			return n.AddVLAN("a", netcfg.VLAN{Name: "svlan", ID: 7, Service: true, MTU: 1403})
		}},
		"ipvlan": {pod, "ipvl", 1404, func() error {
			return n.AddIPVLAN("b", netcfg.IPVLAN{In: pod, Name: "ipvl", Mode: "l3", MTU: 1404})
		}},
		"netkit": {pod, "nk", 1405, func() error {
			return netcfg.AddNetkit(netcfg.VethEnd{In: n, Name: "nk0"}, netcfg.VethEnd{In: pod, Name: "nk"}, false, 1405)
		}},
		"netkit l2": {pod, "nkl2", 1406, func() error {
			return netcfg.AddNetkit(netcfg.VethEnd{In: n, Name: "nk1", MAC: []byte{2, 0, 0, 0, 0, 6}},
				netcfg.VethEnd{In: pod, Name: "nkl2", MAC: []byte{2, 0, 0, 0, 0, 7}}, true, 1406)
		}},
	} {
		kinds++
		switch err := c.make(); {
		case errors.Is(err, unix.EOPNOTSUPP):
			t.Logf("%s: this kernel has none", kind)
			kinds--
		case err != nil:
			t.Errorf("%s: %v", kind, err)
		default:
			isUp(t, c.in, c.device, c.mtu)
		}
	}
	if agenttest.InGuest() && kinds < manyKinds {
		t.Errorf("only %d kinds of devices were made, want %d", kinds, manyKinds)
	}
	if err := n.AddIPVLAN("b", netcfg.IPVLAN{In: pod, Name: "x", Mode: "l4", MTU: 1500}); err == nil {
		t.Error("made an ipvlan of a mode that there is none of")
	}
}

// isUp looks whether a device is there, up and has its MTU.
func isUp(t *testing.T, n *netcfg.Namespace, device string, mtu int) {
	t.Helper()
	testenv.InNetns(t, n.Path(), func() error {
		links, err := host.Links()
		for _, l := range links {
			if a := l.Attrs(); a.Name == device {
				if a.MTU != mtu || a.Flags&1 == 0 {
					t.Errorf("%s is there as %+v, want it up with MTU %d", device, a, mtu)
				}
				return err
			}
		}
		t.Errorf("%s is not there", device)
		return err
	})
}

// A card that was shared is as it was at once, also while its namespace stays: something holds it
// open, or the kernel has not got to it.
func TestDeleteCards(t *testing.T) {
	w, n := testenv.Namespace(t)
	testenv.Must(t, netcfg.AddVeth(netcfg.VethEnd{In: n, Name: "card"}, netcfg.VethEnd{In: n, Name: "other"}, 1500))
	promiscuity := func() int {
		card, err := n.Handle().LinkByName("card")
		testenv.Must(t, err)
		return card.Attrs().Promisc
	}
	user, err := w.Create(w.Name("user"))
	testenv.Must(t, err)
	defer user.Close()
	testenv.Must(t, user.AddCard(n, "card", netcfg.Card{Name: "wire0", MAC: net.HardwareAddr{2, 0, 0, 0, 0, 9}, MTU: 1500}))
	if promiscuity() == 0 {
		t.Fatal("the shared card is not promiscuous: the test shows nothing")
	}
	testenv.Must(t, w.DeleteCards(user.Name()))
	if got := promiscuity(); got != 0 {
		t.Errorf("the card's promiscuity is %d, want 0 as before", got)
	}
	if err := user.Up("wire0"); err == nil {
		t.Error("the device on the card is still there")
	}
	if err := w.DeleteCards(w.Name("none")); err != nil {
		t.Errorf("a namespace that is not there: %v", err)
	}
	if err := w.DeleteCards("others"); !errors.Is(err, netcfg.ErrNotOwned) {
		t.Errorf("a namespace of somebody else: %v, want %v", err, netcfg.ErrNotOwned)
	}
}
