package fastpath

import (
	"errors"
	"slices"
	"time"

	"github.com/venturi-net/venturi/internal/fastpath/audit"
	"github.com/venturi-net/venturi/internal/fastpath/topology"
)

// neighbourState is what is probed and measured in turn.
type neighbourState struct {
	probed     map[topology.Neighbour]fdbProbe // neighbours without an FDB entry
	unmeasured topology.Topology               // pods and next hops that are looked at next
	confMTUs   []topology.ConfMTU              // that are looked at next
	confs      []topology.DeviceConf           // of devices of single pods and peers: that are looked at next

	// advertisements are the last two counts of router advertisements: what one changes may be done
	// only after it was counted.
	advertisements [2]string
	nextAdvertised time.Time // the earliest time at which they are counted

	unreachables string    // count of ICMP messages by which path MTUs are learned
	learned      bool      // there are new ones
	nextFull     time.Time // the earliest time at which all next hops are looked at
}

// podsPerPoll is how many pods are looked at in one poll, hopsPerPoll how many next hops.
const (
	podsPerPoll = 4
	hopsPerPoll = 1
	confPerPoll = 4 // MTUs of devices for IPv6, and of settings for IPv4
)

// mtusEvery is how often it is checked whether path MTUs were learned. While the daemon rests it is
// not: all are looked at when packets are carried again.
const mtusEvery = 4 // polls

// mtusRest is the least time between looks at all next hops, as a multiple of what one took: anybody
// may send ICMP messages.
const mtusRest = 100

// maxAdvertisedRest is the longest time in which no router advertisements are counted: after others, it is
// the same multiple of what it took to read the network again. Anybody may send them, too.
const maxAdvertisedRest = 2 * time.Second

// mtusChanged looks for changes that nobody announces of pods' own devices and of path MTUs, in
// turn. It looks at all next hops when there was an ICMP message that may have changed one.
func (d *daemon) mtusChanged() bool {
	if len(d.neigh.unmeasured.NextHops)+len(d.neigh.unmeasured.Pods)+len(d.neigh.unmeasured.PodsWithXDP) == 0 {
		d.neigh.unmeasured = d.topo
		if d.watcher.Pods {
			d.neigh.unmeasured.Pods = nil
		}
	}
	pods := slices.Concat(takeSome(&d.neigh.unmeasured.Pods, podsPerPoll), takeSome(&d.neigh.unmeasured.PodsWithXDP, podsPerPoll))
	return d.poller.PodsChanged(pods) || d.confMTUsChanged() || d.confsChanged() || d.pathMTUsLearned() || d.poller.PathMTUsChanged(takeSome(&d.neigh.unmeasured.NextHops, hopsPerPoll))
}

// confMTUsChanged looks for changes of the MTUs that devices have for IPv6: those of wires each time, and
// those of pods' devices in turn.
func (d *daemon) confMTUsChanged() bool {
	return d.poller.ConfMTUsChanged(takeInTurn(&d.neigh.confMTUs, d.topo.ConfMTUs, func(of topology.ConfMTU) bool { return of.OnWire }))
}

// confsChanged looks for changes of the settings that devices have for IPv4: those of the devices that
// many packets pass each time, and the others in turn.
func (d *daemon) confsChanged() bool {
	return d.poller.ConfsChanged(takeInTurn(&d.neigh.confs, d.topo.DeviceConfs, func(of topology.DeviceConf) bool { return of.Shared }))
}

// takeInTurn gives those of all that are due always, and some of the others: left are those whose turn
// has not come yet.
func takeInTurn[T any](left *[]T, all []T, always func(T) bool) []T {
	if len(*left) == 0 {
		*left = slices.DeleteFunc(slices.Clone(all), always)
	}
	some := takeSome(left, confPerPoll)
	for _, one := range all {
		if always(one) {
			some = append(slices.Clip(some), one)
		}
	}
	return some
}

// pathMTUsLearned looks at all next hops when some may have learned a path MTU.
func (d *daemon) pathMTUsLearned() bool {
	if d.polls%mtusEvery == 0 && !d.resting() && d.hasTunnels() {
		now, err := d.poller.Unreachables()
		d.neigh.learned = d.neigh.learned || err != nil || now != d.neigh.unreachables
		d.neigh.unreachables = now
	}
	begin := time.Now()
	if !d.neigh.learned || begin.Before(d.neigh.nextFull) {
		return false
	}
	changed := d.poller.PathMTUsChanged(d.topo.NextHops)
	d.neigh.learned, d.neigh.nextFull = false, begin.Add(mtusRest*time.Since(begin))
	return changed
}

// advertised looks whether there were router advertisements, which change routes without a notification. It
// ends what was learned if they may have changed which router is preferred.
func (d *daemon) advertised() (bool, error) {
	if d.Devices.Family != audit.IPv6 || d.polls%mtusEvery != 0 && !d.resting() && !d.activity.resumed {
		return false, nil
	}
	if time.Now().Before(d.neigh.nextAdvertised) && !d.activity.resumed {
		return false, nil
	}
	last := d.neigh.advertisements
	now, err := d.poller.Advertisements()
	d.neigh.advertisements = [2]string{now, last[0]}
	if err == nil && now == last[0] && now == last[1] {
		return false, nil
	}
	if !d.topo.Advertised {
		return true, nil
	}
	return true, d.invalidate(topology.Routes)
}

// takeSome takes some of what is looked at in turn.
func takeSome[T any](of *[]T, most int) (first []T) {
	n := min(most, len(*of))
	first, *of = (*of)[:n], (*of)[n:]
	return first
}

// refreshNeighbours makes the kernel probe neighbours that are stale, because carried
// packets do not. A pod's answer also keeps its FDB entry alive.
func (d *daemon) refreshNeighbours() error {
	used := map[topology.Neighbour]bool{} // several next hops may share one
	for _, p := range d.topo.Pods {
		used[topology.Neighbour{Device: p.NeighDevice, Addr: p.Addr}] = true
	}
	for _, p := range d.topo.NextHops {
		used[topology.Neighbour{Device: p.WireDevice, Addr: p.Addr}] = true
		if p.InnerAddr.IsValid() {
			used[topology.Neighbour{Device: p.Device, Addr: p.InnerAddr}] = true
		}
	}
	stale, err := d.poller.StaleNeighbours(used)
	for _, n := range stale {
		err = errors.Join(err, d.verifyNeighbour(n))
	}
	return err
}
