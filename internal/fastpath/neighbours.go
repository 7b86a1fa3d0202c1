package fastpath

import (
	"errors"
	"net/netip"
	"slices"

	"github.com/venturi-net/venturi/internal/fastpath/kernel"
	"github.com/venturi-net/venturi/internal/fastpath/topology"
	"github.com/venturi-net/venturi/internal/host"
)

// neighbourState is what is probed and measured in turn.
type neighbourState struct {
	probed     map[topology.Neighbour]fdbProbe // neighbours without an FDB entry
	unmeasured topology.Topology               // pods that are looked at next
}

// mtusPerPoll is how many pods and how many next hops are looked at in one poll.
const mtusPerPoll = 4

// mtusChanged looks for changes that nobody announces of pods' own devices and of path MTUs, in
// turn.
func (d *daemon) mtusChanged() bool {
	if len(d.neigh.unmeasured.NextHops)+len(d.neigh.unmeasured.Pods)+len(d.neigh.unmeasured.PodsWithXDP) == 0 {
		if d.neigh.unmeasured = d.topo; d.podsAnnounced {
			d.neigh.unmeasured.Pods = nil
		}
	}
	pods := slices.Concat(takeSome(&d.neigh.unmeasured.Pods), takeSome(&d.neigh.unmeasured.PodsWithXDP))
	return d.poller.PodsChanged(pods) || d.poller.PathMTUsChanged(takeSome(&d.neigh.unmeasured.NextHops))
}

// takeSome takes as many as are looked at in one poll.
func takeSome[T any](of *[]T) (first []T) {
	n := min(mtusPerPoll, len(*of))
	first, *of = (*of)[:n], (*of)[n:]
	return first
}

// refreshNeighbours makes the kernel probe neighbours that are stale, because carried
// packets do not. A pod's answer also keeps its FDB entry alive.
func (d *daemon) refreshNeighbours() error {
	stale, err := topology.StaleNeighbours()
	if err != nil {
		return err
	}
	for _, p := range d.topo.Pods {
		err = errors.Join(err, d.refreshNeighbour(stale, p.NeighDevice, p.Addr))
	}
	for _, p := range d.topo.NextHops {
		err = errors.Join(err, d.refreshNeighbour(stale, p.WireDevice, p.Addr))
	}
	return err
}

func (d *daemon) refreshNeighbour(stale map[topology.Neighbour]bool, device int, addr netip.Addr) error {
	n := topology.Neighbour{Device: device, Addr: addr}
	if !stale[n] {
		return nil
	}
	delete(stale, n) // several next hops may share it
	err := kernel.RefreshNeighbour(d.netns, n)
	if errors.Is(err, host.ErrGone) {
		return nil
	}
	return err
}
