package fastpath

import (
	"slices"
	"sync"

	"github.com/venturi-net/venturi/internal/fastpath/topology"
)

// inbox keeps news until the daemon has time for them. What they end of what was
// learned they end when they come in: the daemon may be at reading ten thousand rules,
// and has to read them again, but packets must not go by what held before.
type inbox struct {
	policy *policy
	filled chan struct{} // there is something in it

	mu      sync.Mutex
	changed topology.Changes
	ways    topology.Topology           // of what is carried
	others  map[topology.Neighbour]bool // that it does not go to, and that are others now
	failed  error
}

func newInbox(p *policy) *inbox {
	return &inbox{policy: p, filled: make(chan struct{}, 1), others: map[topology.Neighbour]bool{}}
}

// put takes news in.
func (i *inbox) put(n topology.Event) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if n.Changes&topology.RulesChanged != 0 && !meets(i.ways, n.Neighbour) {
		n.Changes &^= topology.RulesChanged
		i.others[n.Neighbour] = true
	}
	i.add(n.Changes)
}

// know says by which ways packets are carried from now on. They were read a while ago:
// one of the neighbours that they lead to may have become another one since.
func (i *inbox) know(w topology.Topology) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.ways = w
	for n := range i.others {
		if meets(w, n) {
			i.add(topology.RulesChanged)
			return
		}
	}
}

func (i *inbox) add(what topology.Changes) {
	if what&topology.RulesChanged != 0 && i.failed == nil {
		i.failed = i.policy.raise()
	}
	i.changed |= what
	select {
	case i.filled <- struct{}{}:
	default: // it is said already
	}
}

// take empties it, and says what has changed. Rules and ways that are read from then
// on are no older than the epoch.
func (i *inbox) take() (changed topology.Changes, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	changed, i.changed = i.changed, 0
	clear(i.others)
	return changed, i.failed
}

// meets tells whether packets that are carried by ways may go to a neighbour that news
// are of; zero: they are of more. Which of a tunnel's next hops leads where, routes say,
// and any machine on the wire may be the way to pods that nothing is put around.
func meets(w topology.Topology, n topology.Neighbour) bool {
	return n == topology.Neighbour{} ||
		slices.ContainsFunc(w.Pods, func(p topology.LocalPod) bool { return n == topology.Neighbour{Device: p.NeighDevice, Addr: p.Addr} }) ||
		slices.ContainsFunc(w.NextHops, func(p topology.NextHop) bool {
			return n.Device == p.Device || n == topology.Neighbour{Device: p.WireDevice, Addr: p.Addr}
		})
}
