package accel

import (
	"errors"
	"net/netip"

	"github.com/venturi-net/venturi/internal/change"
	"github.com/venturi-net/venturi/internal/machine"
)

// measures is how many peers are looked at in one glance.
const measures = 16

// remeasure asks how large packets to some of the peers may be, in turns, and tells
// whether that has changed: what a route learns of the network beyond it is no news.
func (d *daemon) remeasure() (bool, error) {
	if len(d.unmeasured) == 0 {
		d.unmeasured = d.ways.Peers
	}
	n := min(measures, len(d.unmeasured))
	some := d.unmeasured[:n]
	d.unmeasured = d.unmeasured[n:]
	return machine.Remeasure(some)
}

// confirm has the kernel find out whether neighbours are still there that it has not
// heard of for a while: packets that are carried do not make it ask. A pod's answer
// also keeps its MAC known to its bridge.
func (d *daemon) confirm() error {
	stale, err := machine.StaleNeighbours()
	if err != nil {
		return err
	}
	for _, p := range d.ways.Pods {
		err = errors.Join(err, d.use(stale, p.On, p.Addr))
	}
	for _, p := range d.ways.Peers {
		err = errors.Join(err, d.use(stale, p.Wire, p.Hop))
	}
	return err
}

func (d *daemon) use(stale map[machine.Neighbour]bool, device int, addr netip.Addr) error {
	n := machine.Neighbour{Device: device, Addr: addr}
	if !stale[n] {
		return nil
	}
	delete(stale, n) // many peers may be behind one hop
	err := d.space.UseNeighbour(n)
	if errors.Is(err, change.ErrGone) {
		return nil
	}
	return err
}
