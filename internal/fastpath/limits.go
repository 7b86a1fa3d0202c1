package fastpath

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/fastpath/topology"
)

// BeyondTable says that the table of pods has no room for the one behind a device; "": it has. A pod's entry is at the
// number of its device. The kernel gives each new device a higher number, so on a node on which many pods have come and
// gone, all new ones may be beyond the table.
func BeyondTable(device int) string {
	if device < bpf.MaxPods {
		return ""
	}
	return fmt.Sprintf("has the number %d (ifindex), and the tables end at %d", device, bpf.MaxPods-1)
}

// refuseBeyond refuses the pods and next hops for which the programs' tables have no room.
func refuseBeyond(topo *topology.Topology) {
	beyond := hopsBeyond(topo.NextHops)
	refuse := func(device int, reason string) {
		topo.Refusals = append(topo.Refusals, topology.Refusal{Device: topo.TC[device].Name, Reason: reason})
	}
	topo.Pods = slices.DeleteFunc(topo.Pods, func(p topology.LocalPod) bool {
		why := BeyondTable(p.Device)
		if why != "" {
			refuse(p.Device, why)
		}
		return why != ""
	})
	topo.NextHops = slices.DeleteFunc(topo.NextHops, func(p topology.NextHop) bool {
		if !beyond[hopOf(p)] {
			return false
		}
		refuse(p.Device, fmt.Sprintf("leads to peers for which the tables have no room: they hold %d, and there are %d", bpf.MaxPeers, bpf.MaxPeers+len(beyond)))
		return true
	})
}

// hopsBeyond are those for which there is no room in the table of peers: the last ones, in an order that is the same
// each time, whatever order the kernel lists them in. So the others are not learned again and again.
func hopsBeyond(all []topology.NextHop) map[hop]bool {
	if len(all) <= bpf.MaxPeers {
		return nil
	}
	var hops []hop
	for _, p := range all {
		hops = append(hops, hopOf(p))
	}
	slices.SortFunc(hops, func(a, b hop) int { return cmp.Or(cmp.Compare(a.device, b.device), cmp.Compare(a.to, b.to)) })
	hops = slices.Compact(hops)
	beyond := map[hop]bool{}
	for _, h := range hops[min(bpf.MaxPeers, len(hops)):] {
		beyond[h] = true
	}
	return beyond
}
