package fastpath

import (
	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/fastpath/topology"
)

// SyncTables writes who is where into tables that are new, and tells how many are
// known then.
func SyncTables(fast *bpf.Objects, w topology.Topology) (pods, peers int, err error) {
	t := newTables(fast, 1)
	err = t.sync(w)
	return len(t.pods), len(t.peers), err
}
