package node_test

import (
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/agenttest"
)

// stackedWirings have a VLAN, and a VLAN on a bond, as the wire.
var stackedWirings = []wiring{
	{"Flannel vxlan over a VLAN", wirings[0].onWire("eth0.100", "ip link add eth0.100 link eth0 type vlan id 100"), bridgedPod},
	{"Calico without encapsulation over QinQ on a bond", wirings[2].onWire("outer.100", `
		ip link add bond0 type bond mode balance-xor xmit_hash_policy layer3+4 miimon 100
		ip link set eth0 down
		ip link set eth0 master bond0
		ip link set bond0 up
		ip link add outer link bond0 type vlan protocol 802.1ad id 5
		ip link set outer up
		ip link add outer.100 link outer type vlan id 100`), routedPod},
}

// onWire wires a node with another device on the wire, which a script makes. Before, a rule loads the
// module of connection tracking, which has settings: the fast path would load it.
func (w wiring) onWire(device, script string) string {
	return `
		nft 'table ip tracked { chain c { type filter hook forward priority 0; ct state established accept; }; }'
		nft delete table ip tracked
		ip addr flush dev eth0` + "\n" + script + `
		ip addr add 192.0.10.I/24 dev ` + device + `
		ip link set ` + device + " up\n" + strings.ReplaceAll(w.node, "dev eth0", "dev "+device)
}

// Nodes whose wire stands on other devices are enabled, compared, and left as they were.
func TestStackedWires(t *testing.T) {
	needsModules(t)
	for _, w := range stackedWirings {
		t.Run("enable "+w.name, w.checkEnable)
		t.Run("shadow "+w.name, w.checkShadow)
	}
}

func needsModules(t *testing.T) {
	t.Helper()
	testenv.Root(t)
	if !agenttest.InGuest() {
		t.Skip("is not in a machine whose kernel has VLANs and bonds")
	}
}

// What changes below the wire stops packets from being carried, until it is as before.
func TestFollowsStackedWire(t *testing.T) {
	needsModules(t)
	w := stackedWirings[1]
	c := newCluster(t, w.node, w.pod)
	exchange := c.flow(t)
	testenv.Must(t, exchange())
	for i := range c.nodes {
		c.enable(t, i, "0")
	}
	c.untilCarried(t, exchange)
	for _, change := range []struct{ do, undo, reason string }{
		{"ip link set bond0 type bond xmit_hash_policy encap3+4", "ip link set bond0 type bond xmit_hash_policy layer3+4", "stands on outer, which stands on bond0, which has xmit_hash_policy encap3+4"},
		{"ip link set outer.100 type vlan reorder_hdr off", "ip link set outer.100 type vlan reorder_hdr on", "has reorder_hdr off of a vlan device"},
		{"ip link add d0 type dummy; ip link set d0 master bond0", "ip link del d0", "stands on outer, which stands on bond0, which stands on d0, which is of kind dummy, which is not proven below a device of kind bond"},
	} {
		testenv.Shell(t, c.nodes[0].Path(), change.do)
		c.untilRefused(t, 0, "outer.100", change.reason)
		testenv.Shell(t, c.nodes[0].Path(), change.undo)
		c.untilCarried(t, exchange)
	}
}

// Nodes with devices that this machine's own kernel has not are tried under others.
func TestKernels(t *testing.T) {
	testenv.Root(t)
	testenv.NeedsLong(t)
	agenttest.PassUnderKernels(t, 2<<10, guestArgs())
}

// guestArgs choose what runs in a guest: in short, what no other kernel than one with VLANs, bonds, Geneve and IPVS, and
// that lists its hooks of netfilter, can show, and a tunnel of IPv6.
func guestArgs() []string {
	return agenttest.RunArgs("TestStackedWires|TestFollowsStackedWire|TestFollowsGeneve|TestIPVSStaysSlow|TestIPv6InTunnelIsSame|TestEnableServicesOverIPv6",
		"TestEnable|TestShadow"+
			"|TestEnableDualStack|TestEnableReplacedDualStack|TestEnableIPv6Again|TestEnableIPv6Alone|TestEnableIPv6Advertised|TestShadowOfIPv6"+
			"|TestIPv6InTunnelLearnsMTU|TestIPv6InTunnelVerifiesNeighbour|TestPlanRefusesTunnelsOfIPv6|TestReplaysTCPIPv6"+
			"|TestEnableSibling|TestShadowSibling|TestEnableSiblingIPv6|TestShadowSiblingIPv6"+
			"|TestShadowOfServicesOverIPv6|TestServiceOverIPv6IsSame")
}
