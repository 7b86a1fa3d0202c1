package fastpath

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"
	"golang.org/x/sync/errgroup"

	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/fastpath/kernel"
	"github.com/venturi-net/venturi/internal/netcfg"
)

// flows keeps the table of flows and conntrack in step. Conntrack sees few packets of a
// carried flow; it must neither expire its entry, nor take the packets that it does see for
// invalid.
//
// There may be a million flows, of which ten thousand come and go in a second, so this work
// is apart from the daemon's main loop: requests, events and the sweep have goroutines of
// their own. They share only the kernel's tables.
type flows struct {
	objs    *bpf.Objects
	netns   *netcfg.Namespace
	epoch   *epoch
	tenant  atomic.Uint32          // VNI of all flows, see [podTenant]
	flush   chan struct{}          // signals that all flows are to be deleted
	updates *kernel.UpdateEvents   // changes of connections, by which rules may decide
	resets  chan kernel.Connection // those that were reset
	closed  closedConns
	backlog time.Time // since when ends of connections wait; zero: they do not
}

func newFlows(objs *bpf.Objects, netns *netcfg.Namespace, e *epoch) *flows {
	f := &flows{objs: objs, netns: netns, epoch: e, flush: make(chan struct{}, 1), resets: make(chan kernel.Connection, maxResets)}
	f.closed.all = map[kernel.Connection]time.Time{}
	return f
}

// requestBatch is how many requests of the programs are served together.
const requestBatch = 256

// start starts the goroutines, which run until ctx ends. The channel gets the first error,
// if there is one, and is closed when all have returned.
func (f *flows) start(ctx context.Context) (<-chan error, error) {
	ends, err := kernel.OpenDestroyEvents(f.netns)
	if err != nil {
		return nil, err
	}
	if f.updates, err = kernel.OpenUpdateEvents(f.netns); err != nil {
		return nil, errors.Join(err, ends.Close())
	}
	done := make(chan error, 1)
	work, ctx := errgroup.WithContext(ctx)
	work.Go(func() error {
		defer ends.Close()
		return ends.Follow(ctx, f.destroyed)
	})
	work.Go(func() error {
		defer f.updates.Close()
		return f.updates.Follow(ctx, func() error { return f.epoch.bump(causeConnections) })
	})
	work.Go(func() error { return f.withConntrack(ctx, f.serveRequests) })
	work.Go(func() error { return f.withConntrack(ctx, f.sweepLoop) })
	work.Go(func() error { return f.withConntrack(ctx, f.closeResets) })
	go func() {
		defer close(done)
		if err := work.Wait(); err != nil {
			done <- err
		}
	}()
	return done, nil
}

// followUpdates has everything that was learned end whenever somebody changes a connection, if rules
// decide by what can be changed so.
func (f *flows) followUpdates(on bool) error {
	changed, err := f.updates.Listen(on)
	if changed && on {
		err = f.epoch.bump(causeConnections) // a connection may have changed before
	}
	return err
}

// withConntrack runs a worker with a conntrack socket of its own.
func (f *flows) withConntrack(ctx context.Context, run func(context.Context, *kernel.Conntrack) error) error {
	track, err := kernel.OpenConntrack(f.netns)
	if err != nil {
		return err
	}
	defer track.Close()
	return run(ctx, track)
}

// serveRequests serves the programs' requests until ctx ends. Requests for which the ring has
// no room are repeated by a later packet.
func (f *flows) serveRequests(ctx context.Context, track *kernel.Conntrack) error {
	ring, err := ringbuf.NewReader(f.objs.Requests)
	if err != nil {
		return err
	}
	defer ring.Close()
	stop := context.AfterFunc(ctx, func() { ring.Close() })
	defer stop()
	var record ringbuf.Record
	var requests []bpf.CtRequest
	for {
		err := ring.ReadInto(&record)
		if errors.Is(err, ringbuf.ErrClosed) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read requests of the programs: %w", err)
		}
		var r bpf.CtRequest
		if _, err := binary.Decode(record.RawSample, binary.NativeEndian, &r); err != nil {
			continue // not one of ours
		}
		if r.Entry == bpf.Reset {
			f.noteReset(r.Key)
		} else {
			requests = append(requests, r)
		}
		if len(requests) < requestBatch && ring.AvailableBytes() > 0 {
			continue
		}
		if err := f.prepare(requests, track); err != nil {
			return err
		}
		requests = requests[:0]
	}
}

// prepare adapts conntrack's entries to flows that are to be carried, and notes that in the
// table of flows. A flow stays slow, and requests again, if conntrack has no entry or would
// not announce its end.
func (f *flows) prepare(requests []bpf.CtRequest, track *kernel.Conntrack) error {
	var updates []kernel.Update
	var of []bpf.CtRequest
	for _, r := range requests {
		if c, ok := connection(f.objs, r.Key); ok {
			updates = append(updates, kernel.Update{Conn: c, Liberal: c.Protocol == syscall.IPPROTO_TCP})
			of = append(of, r)
		}
	}
	var failed error
	err := track.Update(updates, func(i int, is kernel.ConnState) {
		if is == kernel.ConnEstablished {
			failed = errors.Join(failed, f.markReady(of[i]))
		}
	})
	return errors.Join(err, failed)
}

// markReady notes that the conntrack entry of a request is ready.
func (f *flows) markReady(r bpf.CtRequest) error {
	var flow bpf.Flow
	if err := f.objs.Flows.Lookup(r.Key, &flow); err != nil {
		return bpf.IgnoreMissing(err)
	}
	if flow.CtEntry == r.Entry {
		return nil // a repeated request
	}
	// This overwrites what programs write meanwhile. So the flow is learned anew, and nothing
	// that was invalidated becomes valid again.
	flow.CtEntry, flow.Epoch, flow.SeenOut, flow.SeenIn = r.Entry, 0, 0, 0
	return bpf.IgnoreMissing(f.objs.Flows.Update(r.Key, flow, ebpf.UpdateExist))
}

// maxBacklog is for how long ends of connections may wait before everything that was learned ends: it takes some
// microseconds to delete a flow, and thousands of connections may end at once.
const maxBacklog = 50 * time.Millisecond

// destroyed deletes the flows of connections that conntrack has destroyed. If events were
// lost, it deletes all flows. If there are more, and have been for long, all flows are learned anew.
func (f *flows) destroyed(all []kernel.Ended, lost, more bool) error {
	f.closed.end(all, lost)
	if lost {
		select {
		case f.flush <- struct{}{}:
		default: // already signalled
		}
	}
	if f.isBehind(more) || lost {
		if err := f.epoch.bump(causeConnections); err != nil {
			return err
		}
	}
	tenant := f.tenant.Load()
	for _, c := range all {
		keys, err := f.endedKeys(tenant, c)
		if err != nil {
			return fmt.Errorf("find a flow: %w", err)
		}
		for _, k := range keys {
			err := f.objs.Flows.Delete(k) // one by one: a batch would stop at each that is missing, as most are
			if err == nil {
				err = f.objs.InvalidateSlots(k)
			}
			if err := bpf.IgnoreMissing(err); err != nil {
				return fmt.Errorf("delete a flow: %w", err)
			}
		}
	}
	return nil
}

// isBehind tells whether ends of connections have waited for maxBacklog, and each time that they have for as long again.
// A batch that is full says little: on a node with many short connections, thousands may expire at once.
func (f *flows) isBehind(more bool) bool {
	now := time.Now()
	if !more {
		f.backlog = time.Time{}
		return false
	}
	if f.backlog.IsZero() {
		f.backlog = now
	}
	if now.Sub(f.backlog) < maxBacklog {
		return false
	}
	f.backlog = now
	return true
}

// endedKeys are the keys that a connection has, whichever of its ends is a pod of this host. One of the
// other version of IP has none.
func (f *flows) endedKeys(tenant uint32, c kernel.Ended) (keys []bpf.FlowKey, err error) {
	add := func(local, remote netip.AddrPort, onWire bool) {
		k, ok, failed := f.objs.Key(tenant, c.Protocol, local, remote)
		err = errors.Join(err, failed)
		if !ok {
			return
		}
		if onWire {
			k = k.OnWire()
		}
		keys = append(keys, k)
	}
	add(c.A, c.B, false)
	add(c.Replies.A, c.Replies.B, false)
	if c.IsTranslated() {
		add(c.Replies.B, c.Replies.A, true)
		add(c.B, c.A, true)
	}
	return keys, err
}

// connection is the conntrack tuple of a flow; false: nobody knows its addresses any more.
func connection(objs *bpf.Objects, k bpf.FlowKey) (kernel.Connection, bool) {
	local, remote, ok := objs.Ends(k)
	return kernel.Connection{Protocol: uint8(k.TenantProto), A: local, B: remote}, ok
}
