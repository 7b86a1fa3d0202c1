package fastpath

import (
	"errors"
	"slices"
	"sync"

	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/fastpath/lease"
	"github.com/venturi-net/venturi/internal/fastpath/topology"
)

// eventQueue collects events until the daemon handles them. It bumps the epoch when an event
// arrives: the daemon may be busy with the audit of ten thousand rules, and packets must not
// be carried by the old rules meanwhile.
type eventQueue struct {
	filled chan struct{} // signals that the queue is not empty

	mu      sync.Mutex
	epoch   *epoch // nil: of programs that are not loaded yet
	lease   *lease.Lease
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

// bumpBy bumps an epoch, and again with each event from now on. The lease is told of those that ask for an audit.
func (q *eventQueue) bumpBy(e *epoch, l *lease.Lease) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.epoch, q.lease = e, l
	return errors.Join(q.setTracking(bpf.Tracking{Routed: true, Bridged: true}), e.bump(causeStart))
}

func (q *eventQueue) setTracking(now bpf.Tracking) error {
	q.tracked = now
	return q.epoch.objs.SetTracking(now)
}

// expectTracking has the programs learn nothing of what connection tracking does not know, if a new rule may go by it:
// of what is bridged, too, if a bridge asks for the rules.
func (q *eventQueue) expectTracking(what topology.Changes, cause topology.Cause) error {
	now := q.tracked
	if cause == topology.Rules || cause == topology.LostEvents {
		q.numbers.rules++
		now.Routed, now.Bridged = true, true
	}
	if what&topology.BridgeAsks != 0 {
		q.numbers.bridges++
		now.Bridged = true
	}
	if now == q.tracked {
		return nil
	}
	return q.setTracking(now)
}

// expectAudit has the lease end soon unless the rules are audited: packets may not bypass them any more. What that
// audit finds does not depend on other changes.
func (q *eventQueue) expectAudit(cause topology.Cause) error {
	switch cause {
	case topology.Rules, topology.IPsec, causeIPSets, topology.LostEvents:
		return q.lease.RulesChanged()
	}
	return nil
}

// trackingNumbers are those of rules and bridges that are read from now on, see [eventQueue.track].
func (q *eventQueue) trackingNumbers() trackingNumbers {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.numbers
}

// track tells the programs what connection tracking sees for the sake of rules and bridges with these numbers, unless
// they may have changed since. More: that is more than it was.
func (q *eventQueue) track(now bpf.Tracking, of trackingNumbers) (more bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if of != q.numbers || now == q.tracked {
		return false, nil
	}
	more = now.Routed && !q.tracked.Routed || now.Bridged && !q.tracked.Bridged
	return more, q.setTracking(now)
}

// push adds events that were read together: one epoch after the last of them is enough for all.
func (q *eventQueue) push(batch []topology.Event) {
	q.mu.Lock()
	defer q.mu.Unlock()
	var all topology.Event
	isNews := false
	for _, n := range batch {
		if n.PodEnd != (topology.PodEnd{}) && !contradicts(q.topo, n.PodEnd) {
			q.ends[keyOfPodEnd(n.PodEnd)] = n.PodEnd
			if len(q.ends) <= maxPodEnds {
				continue
			}
			clear(q.ends) // the topology is read anew, so none is missed
		}
		if n.Changes&topology.RulesChanged != 0 && !concerns(q.topo, n.Neighbour) {
			n.Changes &^= topology.RulesChanged
			q.unused[n.Neighbour] = true
		}
		all.Add(n)
		isNews = true
	}
	if isNews {
		q.add(all.Changes, all.Cause)
	}
}

// setTopology sets the topology by which packets are carried from now on. One of its
// neighbours or pods may have changed since the topology was read.
func (q *eventQueue) setTopology(topo topology.Topology) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.topo = topo
	for n := range q.unused {
		if concerns(topo, n) {
			q.add(topology.RulesChanged, topology.Neighbours)
			break
		}
	}
	if anyPodEnd(topo, func(e topology.PodEnd) bool {
		now, announced := q.ends[keyOfPodEnd(e)]
		return announced && now != e
	}) {
		q.add(topology.TopologyChanged, "")
	}
}

// add adds changes, and what has caused those of rules.
func (q *eventQueue) add(what topology.Changes, cause topology.Cause) {
	if what&topology.RulesChanged != 0 && q.failed == nil && q.epoch != nil {
		q.failed = errors.Join(q.expectTracking(what, cause), q.expectAudit(cause), q.epoch.bump(cause))
	}
	q.changed |= what
	select {
	case q.filled <- struct{}{}:
	default: // already signalled
	}
}

// drain empties the queue, and says what has changed. Rules and topology that are read
// afterwards are no older than the epoch.
func (q *eventQueue) drain() (changed topology.Changes, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	changed, q.changed = q.changed, 0
	clear(q.unused)
	clear(q.ends)
	return changed, q.failed
}

// contradicts tells whether a pod's end is not as the topology has it. What the topology does not
// have is read when a pod is found behind it.
func contradicts(topo topology.Topology, is topology.PodEnd) bool {
	return anyPodEnd(topo, func(e topology.PodEnd) bool { return keyOfPodEnd(e) == keyOfPodEnd(is) && e != is })
}

// anyPodEnd tells whether a pod's end that was looked at meets a condition.
func anyPodEnd(topo topology.Topology, meets func(topology.PodEnd) bool) bool {
	of := func(p topology.LocalPod) bool { return p.PodEnd != (topology.PodEnd{}) && meets(p.PodEnd) }
	return slices.ContainsFunc(topo.Pods, of) || slices.ContainsFunc(topo.PodsWithXDP, of)
}

// concerns tells whether an event of a neighbour may concern carried packets. The zero
// neighbour stands for all of them. A tunnel device's neighbours all count, because routes
// choose among them.
func concerns(topo topology.Topology, n topology.Neighbour) bool {
	return n == topology.Neighbour{} ||
		slices.ContainsFunc(topo.Pods, func(p topology.LocalPod) bool { return n == topology.Neighbour{Device: p.NeighDevice, Addr: p.Addr} }) ||
		slices.ContainsFunc(topo.NextHops, func(p topology.NextHop) bool {
			return n.Device == p.Device || n == topology.Neighbour{Device: p.WireDevice, Addr: p.Addr}
		})
}
