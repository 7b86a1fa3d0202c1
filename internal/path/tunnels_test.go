package path_test

import (
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/traffic"
)

// Both drivers of kernel vxlan can have one port, and no tunnel ever asks where
// its other end is.
func TestTunnelsAskNobody(t *testing.T) {
	l := testenv.Lab(t, lab.Options{Hosts: 3, Paths: []string{"vxlan:port=4789,tunnels=3", "vxlan-dev:tunnels=2", "vxlan-dev"}})
	for _, arm := range l.Arms {
		for k := range arm.Ends[0] {
			traffic.CheckUDP(t, arm.Ends[0][k], arm.Ends[1][k], []int{100})
			traffic.CheckUDP(t, arm.Ends[2][k], arm.Ends[0][k], []int{100})
		}
	}
	for _, m := range l.Machines {
		testenv.InNetns(t, m.Namespace, func() error {
			wire, err := netlink.LinkByName("wire0")
			if err != nil {
				return err
			}
			known, err := netlink.NeighList(wire.Attrs().Index, netlink.FAMILY_V4)
			for _, n := range known {
				if n.State != netlink.NUD_PERMANENT && n.State != netlink.NUD_NOARP {
					t.Errorf("%s has asked for %v", m.Name, n)
				}
			}
			return err
		})
	}
}
