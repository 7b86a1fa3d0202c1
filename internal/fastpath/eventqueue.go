package fastpath

import (
	"slices"
	"sync"

	"github.com/venturi-net/venturi/internal/fastpath/topology"
)

// eventQueue collects events until the daemon handles them. It bumps the epoch when an event
// arrives: the daemon may be busy with the audit of ten thousand rules, and packets must not
// be carried by the old rules meanwhile.
type eventQueue struct {
	epoch  *epoch
	filled chan struct{} // signals that the queue is not empty

	mu      sync.Mutex
	changed topology.Changes
	topo    topology.Topology           // of what is carried
	unused  map[topology.Neighbour]bool // neighbours that changed and are not in topo
	failed  error
}

func newEventQueue(e *epoch) *eventQueue {
	return &eventQueue{epoch: e, filled: make(chan struct{}, 1), unused: map[topology.Neighbour]bool{}}
}

// push adds an event.
func (i *eventQueue) push(n topology.Event) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if n.Changes&topology.RulesChanged != 0 && !concerns(i.topo, n.Neighbour) {
		n.Changes &^= topology.RulesChanged
		i.unused[n.Neighbour] = true
	}
	i.add(n.Changes)
}

// setTopology sets the topology by which packets are carried from now on. One of its
// neighbours may have changed since the topology was read.
func (i *eventQueue) setTopology(w topology.Topology) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.topo = w
	for n := range i.unused {
		if concerns(w, n) {
			i.add(topology.RulesChanged)
			return
		}
	}
}

func (i *eventQueue) add(what topology.Changes) {
	if what&topology.RulesChanged != 0 && i.failed == nil {
		i.failed = i.epoch.bump()
	}
	i.changed |= what
	select {
	case i.filled <- struct{}{}:
	default: // already signalled
	}
}

// drain empties the queue, and says what has changed. Rules and topology that are read
// afterwards are no older than the epoch.
func (i *eventQueue) drain() (changed topology.Changes, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	changed, i.changed = i.changed, 0
	clear(i.unused)
	return changed, i.failed
}

// concerns tells whether an event of a neighbour may concern carried packets. The zero
// neighbour stands for all of them. A tunnel device's neighbours all count, because routes
// choose among them.
func concerns(w topology.Topology, n topology.Neighbour) bool {
	return n == topology.Neighbour{} ||
		slices.ContainsFunc(w.Pods, func(p topology.LocalPod) bool { return n == topology.Neighbour{Device: p.NeighDevice, Addr: p.Addr} }) ||
		slices.ContainsFunc(w.NextHops, func(p topology.NextHop) bool {
			return n.Device == p.Device || n == topology.Neighbour{Device: p.WireDevice, Addr: p.Addr}
		})
}
