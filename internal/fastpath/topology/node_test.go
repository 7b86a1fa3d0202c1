package topology_test

import (
	"testing"

	"github.com/venturi-net/venturi/internal/fastpath/topology"
	"github.com/venturi-net/venturi/internal/testenv"
)

// On a node that somebody else has wired, only devices of a proven kind are wires; in a lab,
// which names its wire, any is that has a MAC.
func TestUnprovenWires(t *testing.T) {
	for _, c := range []struct{ name, wire, script, onNode, inLab string }{
		{"veth", "w0", "", "", ""},
		{"bridge", "br1", "ip link add br1 up type bridge; ip link set w0 master br1", "is of kind bridge, which is not proven as a wire", ""},
		{"port of a bridge", "w0", "ip link add br1 up type bridge; ip link set w0 master br1", "is a port of br1, of kind bridge, which is not proven below a wire", ""},
		{"macvlan", "m0", "ip link add m0 up link w0 type macvlan mode bridge", "is of kind macvlan, which is not proven as a wire", ""},
		{"tun", "t0", "ip tuntap add t0 mode tun; ip link set t0 up", "is of kind tuntap, which is not proven as a wire", "has no MAC address"},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := testenv.Netns(t)
			testenv.Shell(t, n.Path(), "ip link add w0 up type veth peer w1; ip link set w1 up;"+c.script)
			for node, want := range map[bool]string{true: c.onNode, false: c.inLab} {
				var w topology.Topology
				testenv.InNetns(t, n.Path(), func() (err error) {
					w, err = topology.Read(topology.DeviceNames{Wire: c.wire, Node: node}, noPrograms)
					return err
				})
				why := ""
				if len(w.Refusals) > 0 {
					why = w.Refusals[0].Reason
				}
				if why != want {
					t.Errorf("on a node %v: %q, want %q", node, why, want)
				}
			}
		})
	}
}
