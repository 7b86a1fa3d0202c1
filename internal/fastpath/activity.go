package fastpath

import (
	"fmt"
	"time"

	"github.com/cilium/ebpf"

	"github.com/venturi-net/venturi/internal/fastpath/bpf"
)

// activity tells whether packets are carried. What changes without notification concerns nobody
// while none are, so it is polled less often then, and all of it as soon as there are some again.
type activity struct {
	carried uint64 // packets, as last counted
	quiet   int    // looks since there were more
	resumed bool   // there are some again after a time without, and not all was polled since
	cores   []bpf.Counter
}

// look counts the carried packets.
func (a *activity) look(counts *ebpf.Map) error {
	var carried uint64
	for _, count := range []bpf.Count{bpf.CarriedOut, bpf.CarriedIn} {
		if err := counts.Lookup(uint32(count), &a.cores); err != nil {
			return fmt.Errorf("count carried packets: %w", err)
		}
		for _, c := range a.cores {
			carried += c.Packets
		}
	}
	if carried == a.carried {
		a.quiet++
		return nil
	}
	a.resumed = a.resumed || a.idle()
	a.carried, a.quiet = carried, 0
	return nil
}

// idle tells whether nothing was carried for a while.
func (a *activity) idle() bool { return a.quiet >= idleAfter }

// resting tells whether the daemon polls with its heartbeats only. A shadow carries nothing, and
// compares all packets.
func (d *daemon) resting() bool { return d.complete && d.activity.idle() && !d.Shadow }

// nextPoll is the time until the daemon looks whether packets are carried, and polls unless it rests.
func (d *daemon) nextPoll() time.Duration {
	if d.resting() {
		return lookInterval
	}
	return pollInterval
}

// pollBatch is how many attach points are polled at a time, in turn.
func (d *daemon) pollBatch() int {
	const busy, resting = 8, 32
	if d.resting() {
		return resting
	}
	return busy
}

// look looks whether packets are carried, and then polls unless the daemon rests.
func (d *daemon) look() error {
	d.polls++
	if d.resting() || d.polls%takeoverEvery == 0 {
		if err := d.checkTakeover(); err != nil {
			return err
		}
	}
	if err := d.activity.look(d.objs.Counts); err != nil || d.resting() {
		return err
	}
	return d.poll()
}
