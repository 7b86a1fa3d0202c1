package fastpath

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"
	"golang.org/x/sync/errgroup"

	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/fastpath/kernel"
	"github.com/venturi-net/venturi/internal/netcfg"
)

// flows keeps the flows' entries and conntrack's in step: conntrack sees next to
// nothing of a flow that is carried, and must neither forget it nor take what it
// sees for an intruder's.
//
// There can be a million flows, and ten thousand of them can come and go in a
// second, so nothing of this is done where the daemon waits for news of the
// network: pins, ends and the sweep are goroutines of their own. What they share
// is the kernel's.
type flows struct {
	fast    *bpf.Fast
	space   *netcfg.Namespace
	policy  *policy
	tenants atomic.Pointer[[]uint32] // that flows can have
	flush   chan struct{}            // whatever was learned until now is to be forgotten
}

func newFlows(fast *bpf.Fast, space *netcfg.Namespace, p *policy) *flows {
	f := &flows{fast: fast, space: space, policy: p, flush: make(chan struct{}, 1)}
	f.of([]uint32{0})
	return f
}

// of says which tenants flows can have.
func (f *flows) of(tenants []uint32) { f.tenants.Store(&tenants) }

// pinsAtOnce is how many requests of the programs are answered together.
const pinsAtOnce = 256

// keep begins with it, and goes on until ctx ends; the channel gets the error that
// ended it, if one did, and is closed.
func (f *flows) keep(ctx context.Context) (<-chan error, error) {
	ends, err := kernel.OpenEndings(f.space)
	if err != nil {
		return nil, err
	}
	done := make(chan error, 1)
	work, ctx := errgroup.WithContext(ctx)
	work.Go(func() error {
		defer ends.Close()
		return ends.Follow(ctx, f.ended)
	})
	work.Go(func() error { return f.tracking(ctx, f.pins) })
	work.Go(func() error { return f.tracking(ctx, f.sweeps) })
	go func() {
		defer close(done)
		if err := work.Wait(); err != nil {
			done <- err
		}
	}()
	return done, nil
}

// tracking gives a goroutine its own way to conntrack.
func (f *flows) tracking(ctx context.Context, run func(context.Context, *kernel.Conntrack) error) error {
	track, err := kernel.OpenConntrack(f.space)
	if err != nil {
		return err
	}
	defer track.Close()
	return run(ctx, track)
}

// pins answers the programs until ctx ends. What they ask in excess of what can be
// answered finds no room in the ring, and is asked again by a later packet.
func (f *flows) pins(ctx context.Context, track *kernel.Conntrack) error {
	ring, err := ringbuf.NewReader(f.fast.Pins)
	if err != nil {
		return err
	}
	defer ring.Close()
	stop := context.AfterFunc(ctx, func() { ring.Close() })
	defer stop()
	var record ringbuf.Record
	var asked []bpf.Pin
	for {
		err := ring.ReadInto(&record)
		if errors.Is(err, ringbuf.ErrClosed) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read what programs ask: %w", err)
		}
		var p bpf.Pin
		if _, err := binary.Decode(record.RawSample, binary.NativeEndian, &p); err != nil {
			continue // not one of ours
		}
		asked = append(asked, p)
		if len(asked) < pinsAtOnce && ring.AvailableBytes() > 0 {
			continue
		}
		if err := f.pin(asked, track); err != nil {
			return err
		}
		asked = asked[:0]
	}
}

// pin makes conntrack's entries fit for flows, and notes that in the flows' own. What
// conntrack does not have any more, or whose end it would tell nobody, stays slow:
// it asks again.
func (f *flows) pin(asked []bpf.Pin, track *kernel.Conntrack) error {
	updates := make([]kernel.Update, len(asked))
	for i, p := range asked {
		updates[i] = kernel.Update{Of: connection(p.Key), Liberal: uint8(p.Key.TenantProto) == protoTCP}
	}
	var failed error
	err := track.Update(updates, func(i int, is kernel.Tracked) {
		if is == kernel.TrackedOpen {
			failed = errors.Join(failed, f.pinned(asked[i]))
		}
	})
	return errors.Join(err, failed)
}

func (f *flows) pinned(p bpf.Pin) error {
	var flow bpf.Flow
	if err := f.fast.Flows.Lookup(p.Key, &flow); err != nil {
		return absent(err)
	}
	if flow.Pinned == p.Track {
		return nil // it was asked twice
	}
	// What programs write meanwhile is lost with this. So it is learned again, and nothing
	// comes back that was ended.
	flow.Pinned, flow.Epoch, flow.SeenOut, flow.SeenIn = p.Track, 0, 0, 0
	return absent(f.fast.Flows.Update(p.Key, flow, ebpf.UpdateExist))
}

// ended forgets the flows of connections that conntrack has forgotten. If some were
// missed, all are forgotten.
func (f *flows) ended(all []kernel.Connection, lost bool) error {
	if lost {
		select {
		case f.flush <- struct{}{}:
		default: // they are to be forgotten already
		}
		if err := f.policy.raise(); err != nil {
			return err
		}
	}
	for _, tenant := range *f.tenants.Load() {
		for _, c := range all {
			for _, k := range [...]bpf.FlowKey{bpf.NewFlowKey(tenant, c.Protocol, c.A, c.B), bpf.NewFlowKey(tenant, c.Protocol, c.B, c.A)} {
				err := f.fast.Flows.Delete(k)
				if err == nil {
					err = f.fast.Ended(k)
				}
				if err := absent(err); err != nil {
					return fmt.Errorf("forget a flow: %w", err)
				}
			}
		}
	}
	return nil
}

const (
	protoTCP = 6
	protoUDP = 17
)

// connection is what conntrack calls a flow.
func connection(k bpf.FlowKey) kernel.Connection {
	return kernel.Connection{Protocol: uint8(k.TenantProto), A: end(k.Local, k.LocalPort), B: end(k.Remote, k.RemotePort)}
}

func end(addr uint32, port uint16) netip.AddrPort {
	var b [6]byte
	binary.NativeEndian.PutUint32(b[:], addr)
	binary.NativeEndian.PutUint16(b[4:], port)
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[:4])), binary.BigEndian.Uint16(b[4:]))
}
