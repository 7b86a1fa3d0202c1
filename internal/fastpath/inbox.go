package fastpath

import (
	"slices"
	"sync"

	"github.com/venturi-net/venturi/internal/host"
)

// inbox keeps news until the daemon has time for them. What they end of what was
// learned they end when they come in: the daemon may be at reading ten thousand rules,
// and has to read them again, but packets must not go by what held before.
type inbox struct {
	policy *policy
	filled chan struct{} // there is something in it

	mu      sync.Mutex
	changed host.Changes
	ways    host.Topology           // of what is carried
	others  map[host.Neighbour]bool // that it does not go to, and that are others now
	failed  error
}

func newInbox(p *policy) *inbox {
	return &inbox{policy: p, filled: make(chan struct{}, 1), others: map[host.Neighbour]bool{}}
}

// put takes news in.
func (i *inbox) put(n host.Event) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if n.Changes&host.RulesChanged != 0 && !meets(i.ways, n.Neighbour) {
		n.Changes &^= host.RulesChanged
		i.others[n.Neighbour] = true
	}
	i.add(n.Changes)
}

// know says by which ways packets are carried from now on. They were read a while ago:
// one of the neighbours that they lead to may have become another one since.
func (i *inbox) know(w host.Topology) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.ways = w
	for n := range i.others {
		if meets(w, n) {
			i.add(host.RulesChanged)
			return
		}
	}
}

func (i *inbox) add(what host.Changes) {
	if what&host.RulesChanged != 0 && i.failed == nil {
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
func (i *inbox) take() (changed host.Changes, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	changed, i.changed = i.changed, 0
	clear(i.others)
	return changed, i.failed
}

// meets tells whether packets that are carried by ways may go to a neighbour that news
// are of; zero: they are of more. Which of a tunnel's next hops leads where, routes say,
// and any machine on the wire may be the way to pods that nothing is put around.
func meets(w host.Topology, n host.Neighbour) bool {
	return n == host.Neighbour{} ||
		slices.ContainsFunc(w.Pods, func(p host.LocalPod) bool { return n == host.Neighbour{Device: p.NeighDevice, Addr: p.Addr} }) ||
		slices.ContainsFunc(w.NextHops, func(p host.NextHop) bool {
			return n.Device == p.Device || n == host.Neighbour{Device: p.WireDevice, Addr: p.Addr}
		})
}
