package fastpath

import (
	"errors"
	"slices"
	"sync"

	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/fastpath/topology"
)

// eventQueue collects events until the daemon handles them. It bumps the epoch when an event
// arrives: the daemon may be busy with the audit of ten thousand rules, and packets must not
// be carried by the old rules meanwhile.
type eventQueue struct {
	filled chan struct{} // signals that the queue is not empty

	mu      sync.Mutex
	epoch   *epoch // nil: of programs that are not loaded yet
	changed topology.Changes
	numbers trackingNumbers               // of events until now
	tracked bpf.Tracking                  // as the programs were told
	topo    topology.Topology             // of what is carried
	unused  map[topology.Neighbour]bool   // neighbours that changed and are not in topo
	ends    map[podEndKey]topology.PodEnd // pods' ends as last announced, which topo knows to be so, or does not know
	failed  error
}

// trackingNumbers tell how many events there were of what says what connection tracking sees: rules of nftables,
// and bridges.
type trackingNumbers struct{ rules, bridges uint64 }

// maxPodEnds is how many pods' ends are kept that nothing else is told of: a pod may make any number of devices.
const maxPodEnds = 4096

// podEndKey identifies a pod's end of its link.
type podEndKey struct{ nsid, index int }

func keyOfPodEnd(e topology.PodEnd) podEndKey { return podEndKey{e.NSID, e.Index} }

func newEventQueue() *eventQueue {
	return &eventQueue{filled: make(chan struct{}, 1), unused: map[topology.Neighbour]bool{}, ends: map[podEndKey]topology.PodEnd{}}
}

// bumpBy bumps an epoch, and again with each event from now on.
func (i *eventQueue) bumpBy(e *epoch) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.epoch = e
	return errors.Join(i.setTracking(bpf.Tracking{Routed: true, Bridged: true}), e.bump(causeStart))
}

func (i *eventQueue) setTracking(now bpf.Tracking) error {
	i.tracked = now
	return i.epoch.objs.SetTracking(now)
}

// expectTracking has the programs learn nothing of what connection tracking does not know, if a new rule may go by it:
// of what is bridged, too, if a bridge asks for the rules.
func (i *eventQueue) expectTracking(what topology.Changes, cause topology.Cause) error {
	now := i.tracked
	if cause == topology.Rules || cause == topology.LostEvents {
		i.numbers.rules++
		now.Routed, now.Bridged = true, true
	}
	if what&topology.BridgeAsks != 0 {
		i.numbers.bridges++
		now.Bridged = true
	}
	if now == i.tracked {
		return nil
	}
	return i.setTracking(now)
}

// trackingNumbers are those of rules and bridges that are read from now on, see [eventQueue.track].
func (i *eventQueue) trackingNumbers() trackingNumbers {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.numbers
}

// track tells the programs what connection tracking sees for the sake of rules and bridges with these numbers, unless
// they may have changed since. More: that is more than it was.
func (i *eventQueue) track(now bpf.Tracking, of trackingNumbers) (more bool, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if of != i.numbers || now == i.tracked {
		return false, nil
	}
	more = now.Routed && !i.tracked.Routed || now.Bridged && !i.tracked.Bridged
	return more, i.setTracking(now)
}

// push adds events that were read together: one epoch after the last of them is enough for all.
func (i *eventQueue) push(batch []topology.Event) {
	i.mu.Lock()
	defer i.mu.Unlock()
	var all topology.Event
	isNews := false
	for _, n := range batch {
		if n.PodEnd != (topology.PodEnd{}) && !contradicts(i.topo, n.PodEnd) {
			i.ends[keyOfPodEnd(n.PodEnd)] = n.PodEnd
			if len(i.ends) <= maxPodEnds {
				continue
			}
			clear(i.ends) // the topology is read anew, so none is missed
		}
		if n.Changes&topology.RulesChanged != 0 && !concerns(i.topo, n.Neighbour) {
			n.Changes &^= topology.RulesChanged
			i.unused[n.Neighbour] = true
		}
		all.Add(n)
		isNews = true
	}
	if isNews {
		i.add(all.Changes, all.Cause)
	}
}

// setTopology sets the topology by which packets are carried from now on. One of its
// neighbours or pods may have changed since the topology was read.
func (i *eventQueue) setTopology(w topology.Topology) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.topo = w
	for n := range i.unused {
		if concerns(w, n) {
			i.add(topology.RulesChanged, topology.Neighbours)
			break
		}
	}
	if anyPodEnd(w, func(e topology.PodEnd) bool {
		now, announced := i.ends[keyOfPodEnd(e)]
		return announced && now != e
	}) {
		i.add(topology.TopologyChanged, "")
	}
}

// add adds changes, and what has caused those of rules.
func (i *eventQueue) add(what topology.Changes, cause topology.Cause) {
	if what&topology.RulesChanged != 0 && i.failed == nil && i.epoch != nil {
		i.failed = errors.Join(i.expectTracking(what, cause), i.epoch.bump(cause))
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
	clear(i.ends)
	return changed, i.failed
}

// contradicts tells whether a pod's end is not as the topology has it. What the topology does not
// have is read when a pod is found behind it.
func contradicts(w topology.Topology, is topology.PodEnd) bool {
	return anyPodEnd(w, func(e topology.PodEnd) bool { return keyOfPodEnd(e) == keyOfPodEnd(is) && e != is })
}

// anyPodEnd tells whether a pod's end that was looked at meets a condition.
func anyPodEnd(w topology.Topology, meets func(topology.PodEnd) bool) bool {
	of := func(p topology.LocalPod) bool { return p.PodEnd != (topology.PodEnd{}) && meets(p.PodEnd) }
	return slices.ContainsFunc(w.Pods, of) || slices.ContainsFunc(w.PodsWithXDP, of)
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
