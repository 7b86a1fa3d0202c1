package fastpath

import (
	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/fastpath/topology"
)

// Hop tells what the programs' tables have of a next hop.
func (t *tables) Hop(w topology.NextHop) (hop bpf.Hop, peer bpf.Peer, err error) {
	if err = t.objs.Hops.Lookup(hopOf(w).key(), &hop); err == nil {
		err = t.objs.Peers.Lookup(hop.Peer, &peer)
	}
	return hop, peer, err
}

// SyncTables writes who is where into tables that are new, and tells how many are
// known then.
func SyncTables(fast *bpf.Objects, w topology.Topology) (pods, peers int, err error) {
	t := newTables(fast, 1)
	err = t.sync(w)
	return len(t.pods), len(t.peers), err
}

// Add counts the entry of a flow, in an epoch.
func (n *FlowCount) Add(f bpf.Flow, epoch uint32) { n.add(f, epoch) }

// ProgramsAtTunnel names the programs that a daemon of a config attaches to the device of a tunnel.
func ProgramsAtTunnel(c *Config) (names []string) {
	const wire, tunnel = 1, 2
	behind := map[hop]peerEntry{{device: wire}: {entry: bpf.Peer{Ifindex: wire, IngressIfindex: tunnel}}}
	d := &daemon{Config: c, objs: &bpf.Objects{}, tables: &tables{peers: behind}}
	for _, a := range d.attachments() {
		if a.device == tunnel {
			names = append(names, a.name)
		}
	}
	return names
}
