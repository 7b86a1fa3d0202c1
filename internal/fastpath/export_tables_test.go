package fastpath

import (
	"context"
	"errors"

	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/fastpath/topology"
	"github.com/venturi-net/venturi/internal/netcfg"
)

// Hop tells what the programs' tables have of a next hop.
func (t *tables) Hop(next topology.NextHop) (hop bpf.Hop, peer bpf.Peer, err error) {
	if err = t.objs.Hops.Lookup(hopOf(next).key(), &hop); err == nil {
		err = t.objs.Peers.Lookup(hop.Peer, &peer)
	}
	return hop, peer, err
}

// RefuseBeyond refuses those for whom the tables have no room.
func RefuseBeyond(topo *topology.Topology) { refuseBeyond(topo) }

// SyncTables writes who is where into tables that are new, and tells how many are
// known then.
func SyncTables(fast *bpf.Objects, topo topology.Topology) (pods, peers int, err error) {
	t := newTables(fast, 1)
	err = t.sync(topo)
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

// StrangersReason is why nothing is carried while the topology is read without a peer that was carried.
const StrangersReason = strangersReason

// ReasonsAtReads audits the rules of the calling thread's namespace, and again when they were changed. It gives why
// nothing was carried: at each read of the topology, and at the end.
func ReasonsAtReads(c *Config, n *netcfg.Namespace, fast *bpf.Objects, topo topology.Topology, change func() error) (reasons []string, err error) {
	var d *daemon
	d, end, err := newTestDaemon(c, n, fast, func() (topology.Topology, error) {
		reasons = append(reasons, d.audit.off)
		return topo, nil
	})
	if err != nil {
		return nil, err
	}
	defer end()
	ctx, cancel := context.WithCancel(context.Background())
	keeping, err := d.flows.start(ctx)
	defer cancel()
	if err != nil {
		return nil, err
	}
	defer cancelAndWait(cancel, keeping)
	_, before := d.auditRules()
	changed := change()
	_, after := d.auditRules()
	return append(reasons, d.audit.off), errors.Join(before, changed, after)
}
