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
	quiet   int    // polls since there were more
	cores   []bpf.Counter
}

// look counts the carried packets. It tells whether there are some again after a time without.
func (a *activity) look(counts *ebpf.Map) (resumed bool, err error) {
	var carried uint64
	for _, count := range []bpf.Count{bpf.CarriedOut, bpf.CarriedIn} {
		if err := counts.Lookup(uint32(count), &a.cores); err != nil {
			return false, fmt.Errorf("count carried packets: %w", err)
		}
		for _, c := range a.cores {
			carried += c.Packets
		}
	}
	if carried == a.carried {
		a.quiet++
		return false, nil
	}
	resumed = a.idle()
	a.carried, a.quiet = carried, 0
	return resumed, nil
}

// idle tells whether nothing was carried for a while.
func (a *activity) idle() bool { return a.quiet >= idleAfter }

// nextPoll is the time until the next poll. In shadow mode nothing is carried, and all packets are
// compared.
func (d *daemon) nextPoll() time.Duration {
	if d.complete && d.activity.idle() && !d.Shadow {
		return idlePollInterval
	}
	return pollInterval
}

// pollDue tells whether something is due that is so only every so many polls, or in each one while
// these are rare.
func (d *daemon) pollDue(every int) bool {
	return d.polls%every == 0 || d.nextPoll() > pollInterval
}
