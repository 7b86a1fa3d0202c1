package e2e

import (
	"testing"

	"github.com/venturi-net/venturi/internal/testenv/agenttest"
)

// A VLAN upon the wire leads to a next hop with the MAC of one on the wire, as a router has it on all
// its VLANs. The program that learns there sees packets whose tag is not among their headers yet.
func TestFastPathTaggedTwin(t *testing.T) {
	requireFastPath(t)
	requireTools(t)
	if !agenttest.InGuest() {
		t.Skip("is not in a machine whose kernel has VLANs")
	}
	l, flows := steadyLab(t, 0, "routed", "routed+fast")
	change{
		name: "route by a VLAN upon the wire", path: "routed",
		do: `via=$(ip -4 route get {peer} | sed -n 's/.* via \([^ ]*\) .*/\1/p')
			mac=$(ip neigh show $via dev wire0 | sed -n 's/.*lladdr \([^ ]*\).*/\1/p')
			ip link add tagged{n} link wire0 type vlan id 20{n}
			ip link set tagged{n} up
			ip neigh add $via lladdr $mac dev tagged{n} nud permanent
			ip route add {peer}/32 via $via dev tagged{n} onlink`,
		undo: `ip link del tagged{n}`,
		out:  dropped, in: delivered,
	}.check(t, l, flows, 0)
}
