package testenv

import (
	"fmt"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/venturi-net/venturi/internal/netcfg"
)

// Devices makes a namespace with some devices to turn knobs on, all up: veth0 with
// four queues (its other end, veth1, is in the same namespace), vxlan0 and br0.
func Devices(t testing.TB) (netns string) {
	t.Helper()
	w, err := netcfg.Owned(Claim(t))
	if err != nil {
		t.Fatalf("make devices: %v", err)
	}
	n, err := w.Create(w.Name("devices"))
	if err != nil {
		t.Fatalf("make devices: %v", err)
	}
	t.Cleanup(n.Close)
	InNetns(t, n.Path(), func() error {
		veth := &netlink.Veth{LinkAttrs: netlink.NewLinkAttrs(), PeerName: "veth1", PeerNumTxQueues: 4, PeerNumRxQueues: 4}
		veth.Name, veth.NumTxQueues, veth.NumRxQueues = "veth0", 4, 4
		bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br0"}}
		vxlan := &netlink.Vxlan{LinkAttrs: netlink.LinkAttrs{Name: "vxlan0"}, VxlanId: 7, Port: 4789}
		for _, l := range []netlink.Link{veth, bridge, vxlan} {
			if err := netlink.LinkAdd(l); err != nil {
				return fmt.Errorf("add %s: %w", l.Attrs().Name, err)
			}
		}
		for _, name := range []string{"veth0", "veth1", "br0", "vxlan0"} {
			l, err := netlink.LinkByName(name)
			if err != nil {
				return err
			}
			if err := netlink.LinkSetUp(l); err != nil {
				return err
			}
		}
		return nil
	})
	return n.Path()
}
