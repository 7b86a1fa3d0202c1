package bench

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/host"
)

// noDaemonDelay is how long a fast path without a daemon may carry packets at most.
const noDaemonDelay = 5 * time.Second

// settleTime is the pause between two steps of a cycle.
const settleTime = 100 * time.Millisecond

// cycle is a way to stop and start the daemon.
type cycle struct {
	name string
	do   func(context.Context, *fastDaemon) error
}

var cycles = []cycle{
	{"stopped, started", func(ctx context.Context, d *fastDaemon) error {
		if err := d.end(ctx, syscall.SIGTERM); err != nil {
			return err
		}
		_ = host.Sleep(ctx, settleTime)
		return d.start(false)
	}},
	{"replaced", func(ctx context.Context, d *fastDaemon) error {
		old := d.pid
		return checkCountsKept(d, func() error { return errors.Join(d.start(true), awaitExit(ctx, old), d.awaitCarrying(ctx)) })
	}},
	{"killed, started", func(ctx context.Context, d *fastDaemon) error {
		if err := d.end(ctx, syscall.SIGKILL); err != nil {
			return err
		}
		return checkCountsKept(d, func() error { return errors.Join(d.start(false), d.awaitCarrying(ctx)) })
	}},
	{"killed at some moment", func(ctx context.Context, d *fastDaemon) error {
		return errors.Join(d.send(syscall.SIGTERM), d.killSoon(ctx, 10*time.Millisecond),
			d.start(false), d.killSoon(ctx, settleTime), d.start(false))
	}},
	{killedUnattended, func(ctx context.Context, d *fastDaemon) error {
		killed := time.Now()
		if err := d.end(ctx, syscall.SIGKILL); err != nil {
			return err
		}
		_ = host.Sleep(ctx, time.Until(killed.Add(noDaemonDelay)))
		return checkCountsKept(d, func() error { return errors.Join(d.checkSlow(ctx), d.start(false), d.awaitCarrying(ctx)) })
	}},
}

// killedUnattended is the kind of cycle in which a killed daemon has no successor for 5
// s.
const killedUnattended = "killed, 5 s alone, started"

// checkCountsKept expects that the next daemon continues the counters of the one before.
func checkCountsKept(d *fastDaemon, what func() error) error {
	before, err := d.readCounts()
	if err != nil {
		return err
	}
	if err := what(); err != nil {
		return err
	}
	now, err := d.readCounts()
	if err == nil && now[bpf.CarriedOut] < before[bpf.CarriedOut] {
		return fmt.Errorf("the next daemon reset the counters: %d packets carried, %d before", now[bpf.CarriedOut], before[bpf.CarriedOut])
	}
	return err
}

// checkSlow expects that programs without a daemon carry nothing, and leave packets to
// the slow path.
func (d *fastDaemon) checkSlow(ctx context.Context) error {
	before, err := d.readCounts()
	if err != nil {
		return err
	}
	err = poll(ctx, "packets go slow", func() (bool, error) {
		const some = 100
		now, err := d.readCounts()
		return now[bpf.SlowNoDaemon]+now[bpf.PerDirection+bpf.SlowNoDaemon] >= before[bpf.SlowNoDaemon]+before[bpf.PerDirection+bpf.SlowNoDaemon]+some, err
	})
	if err != nil {
		return err
	}
	now, err := d.readCounts()
	if err == nil && (now[bpf.CarriedOut] != before[bpf.CarriedOut] || now[bpf.CarriedIn] != before[bpf.CarriedIn]) {
		return fmt.Errorf("%v after its daemon was killed, a fast path carries packets: %v, before %v", noDaemonDelay, now, before)
	}
	return err
}
