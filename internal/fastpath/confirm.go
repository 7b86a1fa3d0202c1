package fastpath

import (
	"errors"
	"net/netip"
	"slices"

	"github.com/venturi-net/venturi/internal/fastpath/kernel"
	"github.com/venturi-net/venturi/internal/fastpath/topology"
	"github.com/venturi-net/venturi/internal/host"
)

// measures is how many peers and how many pods are looked at in one glance.
const measures = 4

// resized tells whether packets to some of the peers and pods may be of another size
// than they were. It takes them in turns.
func (d *daemon) resized() bool {
	if len(d.unmeasured.NextHops)+len(d.unmeasured.Pods)+len(d.unmeasured.PodsWithXDP) == 0 {
		d.unmeasured = d.ways
	}
	pods := slices.Concat(some(&d.unmeasured.Pods), some(&d.unmeasured.PodsWithXDP))
	return d.unsaid.MTUsChanged(pods, some(&d.unmeasured.NextHops))
}

// some takes as many as are looked at in one glance.
func some[T any](of *[]T) (first []T) {
	n := min(measures, len(*of))
	first, *of = (*of)[:n], (*of)[n:]
	return first
}

// confirm has the kernel find out whether neighbours are still there that it has not
// heard of for a while: packets that are carried do not make it ask. A pod's answer
// also keeps its MAC known to its bridge.
func (d *daemon) confirm() error {
	stale, err := topology.StaleNeighbours()
	if err != nil {
		return err
	}
	for _, p := range d.ways.Pods {
		err = errors.Join(err, d.use(stale, p.NeighDevice, p.Addr))
	}
	for _, p := range d.ways.NextHops {
		err = errors.Join(err, d.use(stale, p.WireDevice, p.Addr))
	}
	return err
}

func (d *daemon) use(stale map[topology.Neighbour]bool, device int, addr netip.Addr) error {
	n := topology.Neighbour{Device: device, Addr: addr}
	if !stale[n] {
		return nil
	}
	delete(stale, n) // many peers may be behind one hop
	err := kernel.UseNeighbour(d.space, n)
	if errors.Is(err, host.ErrGone) {
		return nil
	}
	return err
}
