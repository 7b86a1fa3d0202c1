package fastpath

import (
	"cmp"
	"time"

	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/fastpath/topology"
	"github.com/venturi-net/venturi/internal/host"
)

const (
	// leaseTime is how long the programs carry packets after the last heartbeat.
	leaseTime = 4 * time.Second
	// auditLimit is how long they do so after the daemon has heard of a change of rules, without an audit of it. Each
	// change is to take hold within 100 ms.
	auditLimit = 90 * time.Millisecond
)

// LateBy reads from the folder of a fast path's pins how long its lease has been over, because its daemon was
// stopped or held up; 0: it is valid, or the daemon has revoked it.
func LateBy(c *Config, pins string) (time.Duration, error) {
	jiffy, err := host.Jiffy()
	if err != nil {
		return 0, err
	}
	jiffies, err := bpf.ReadExpired(pins, c.Kind)
	return time.Duration(jiffies) * jiffy, err
}

// renewLease extends the programs' lease, or revokes it if nothing may be carried. If the
// last lease has expired, the daemon was held up for so long that events wait unread: it
// bumps the epoch first.
func (d *daemon) renewLease() error {
	now, err := d.objs.Now()
	if err != nil {
		return err
	}
	if d.deadline != 0 && now >= d.deadline {
		if err := d.epoch.bump(causeDelay); err != nil {
			return err
		}
	}
	d.deadline = 0
	if d.audit.off == "" && d.synced {
		if d.outdated != "" {
			if err := d.epoch.bump(d.outdated); err != nil {
				return err
			}
			d.outdated = ""
		}
		d.deadline = now + uint64(leaseTime/d.jiffy)
	}
	if err := d.lease.Set(d.deadline); err != nil {
		return err
	}
	return d.writeState()
}

// invalidate ends what the programs have learned. Without a lease they use nothing of it, so it has time
// until there is one again: at the start, the daemon would wait for each of several epochs, see
// minEpochInterval.
func (d *daemon) invalidate(cause topology.Cause) error {
	if d.deadline == 0 {
		d.outdated = cmp.Or(d.outdated, cause)
		return nil
	}
	return d.epoch.bump(cause)
}
