package fastpath

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/cilium/ebpf"

	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/fastpath/kernel"
	"github.com/venturi-net/venturi/internal/fastpath/topology"
)

const (
	// idleTicks is how long the entry of a silent flow is kept while there is room. As the
	// table fills, the time shrinks to minIdleTicks.
	idleTicks    = 120
	minIdleTicks = 10
	// unlearnedTicks is how long the entry of a flow is kept that is not carried now, so
	// that one-way flows do not fill the table.
	unlearnedTicks = 5
	// sweepEvery is the interval between sweeps, in ticks.
	sweepEvery = 5

	// A sweep inspects a batch of entries, and then yields the core. With a million
	// entries it takes about as long as the interval between sweeps.
	sweepBatch = 4096
	sweepPause = 40 * time.Millisecond
	// flushPause replaces sweepPause in sweeps that delete everything.
	flushPause = time.Millisecond
)

// sweep iterates over all flows, in batches.
type sweep struct {
	objs      *bpf.Objects
	track     *kernel.Conntrack
	lifetimes [256]ctTimeouts // by protocol
	unreplied ctTimeouts      // of UDP without a reply
	flush     bool            // delete everything
	idleLimit int32           // ticks after which a silent flow is deleted
	startTick uint32          // tick in which the sweep started
	prevStart uint32          // tick in which the previous sweep started

	cursor    ebpf.MapBatchCursor
	entries   int // seen in this sweep
	numbers   addrSweep
	keys      []bpf.FlowKey
	values    []bpf.Flow
	expired   []bpf.FlowKey
	refresh   []kernel.Update
	refreshed []flowEntry // by index in refresh
}

// flowEntry is an entry of the table of flows.
type flowEntry struct {
	key  bpf.FlowKey
	flow bpf.Flow
}

// sweepLoop sweeps the flows periodically, until ctx ends. It deletes flows that have been
// silent for long, and refreshes the conntrack entries of those that were carried.
func (f *flows) sweepLoop(ctx context.Context, track *kernel.Conntrack) error {
	s := newSweep(f.objs, track)
	pause := time.NewTimer(0)
	defer pause.Stop()
	var schedule sweepSchedule
	for {
		flush := false
		select {
		case <-ctx.Done():
			return nil
		case <-f.flush:
			flush = true
		case <-pause.C:
		}
		var tick uint32
		if err := f.objs.Tick.Get(&tick); err != nil {
			return err
		}
		if schedule.start(tick, flush) {
			s.start(tick)
			s.flush = flush
			if !flush {
				if err := s.readLifetimes(); err != nil {
					return err
				}
			}
		}
		if schedule.running {
			done, err := s.step(tick)
			if err != nil {
				return err
			}
			schedule.running = !done
		}
		pause.Reset(schedule.pause(tick))
	}
}

func newSweep(objs *bpf.Objects, track *kernel.Conntrack) *sweep {
	return &sweep{objs: objs, track: track, keys: make([]bpf.FlowKey, sweepBatch), values: make([]bpf.Flow, sweepBatch)}
}

// start starts another sweep. The number of entries in the previous one decides how long
// silent flows are kept.
func (s *sweep) start(tick uint32) {
	s.idleLimit = idleLimit(s.entries, int(s.objs.Flows.MaxEntries()))
	s.prevStart, s.startTick = s.startTick, tick
	s.cursor, s.entries = ebpf.MapBatchCursor{}, 0
	s.numbers.start(s.objs)
}

// idleLimit is after how many ticks a silent flow is deleted. It shrinks as the second half
// of the table fills.
func idleLimit(entries, most int) int32 {
	over := max(0, 2*entries-most)
	return max(minIdleTicks, idleTicks-int32((idleTicks-minIdleTicks)*over/most))
}

// step inspects a batch of entries, and says whether it was the last.
func (s *sweep) step(tick uint32) (done bool, err error) {
	n, err := s.objs.Flows.BatchLookup(&s.cursor, s.keys, s.values, nil)
	if done = errors.Is(err, ebpf.ErrKeyNotExist); err != nil && !done {
		return false, fmt.Errorf("iterate over flows: %w", err)
	}
	s.entries += n
	s.expired, s.refresh, s.refreshed = s.expired[:0], s.refresh[:0], s.refreshed[:0]
	for i, k := range s.keys[:n] {
		s.numbers.see(k, s.values[i])
		if err := s.inspect(k, s.values[i], tick); err != nil {
			return false, err
		}
	}
	if err := s.keepAlive(); err != nil {
		return false, err
	}
	if err := s.forget(s.expired); err != nil || !done {
		return done, err
	}
	return true, s.numbers.end(s.objs, s.flush)
}

// inspect decides whether an entry is deleted or its connection refreshed. A refresh is due
// as of the start of the sweep, so that each tick counts in exactly one sweep, whenever the
// sweep reaches the entry. An entry on the wire goes with its flow's other one.
func (s *sweep) inspect(k bpf.FlowKey, v bpf.Flow, tick uint32) error {
	quiet := ticksSince(tick, v.Used)
	if k.IsOnWire() {
		if quiet <= s.idleLimit {
			return nil
		}
		orphaned, err := s.isOrphaned(k, v)
		if orphaned {
			s.expired = append(s.expired, k)
		}
		return err
	}
	l := s.lifetimes[uint8(k.TenantProto)]
	if v.Unreplied != 0 {
		l = s.unreplied
	}
	every, alive := max(1, int32(l.Shortest)/4), int32(l.Established)-quiet
	limit := s.idleLimit
	if v.CtEntry != 0 {
		// A packet must not find the flow when its connection has no time left until the
		// next refresh, which a sweep may do late.
		limit = min(limit, max(sweepEvery, int32(l.Established)-every-2*sweepEvery))
	}
	at, last := s.startTick, false
	switch {
	case s.flush, v.Epoch == 0 && quiet > unlearnedTicks:
		s.expire(k, v)
		return nil
	case quiet > limit:
		s.expire(k, v)
		at, last = tick, true
	}
	if v.CtEntry != 0 && alive > 0 && due(ticksSince(at, v.Used), ticksSince(at, v.Requested), ticksSince(s.prevStart, v.Requested), every, last) {
		of, known := connection(s.objs, k)
		if !known {
			s.expire(k, v)
			return nil
		}
		s.refresh = append(s.refresh, kernel.Update{
			Conn: of, Liberal: of.Protocol == syscall.IPPROTO_TCP, Unreplied: v.Unreplied != 0,
			Timeout: time.Duration(alive) * time.Second,
		})
		s.refreshed = append(s.refreshed, flowEntry{k, v})
	}
	return nil
}

// isOrphaned tells whether a flow's entry on the wire is left without the one that its pod sees,
// or that is another flow's.
func (s *sweep) isOrphaned(k bpf.FlowKey, v bpf.Flow) (bool, error) {
	pod := v.OtherKey(k)
	var flow bpf.Flow
	err := s.objs.Flows.Lookup(pod, &flow)
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return true, nil
	}
	return flow.Translated == 0 || flow.OtherKey(pod) != k, err
}

// expire has the entries of a flow deleted.
func (s *sweep) expire(k bpf.FlowKey, v bpf.Flow) {
	s.expired = append(s.expired, k)
	if v.Translated != 0 {
		s.expired = append(s.expired, v.OtherKey(k))
	}
}

// ticksSince is how many ticks a tick is after another; 0: it is earlier.
func ticksSince(tick, other uint32) int32 { return max(0, int32(tick-other)) }

// due tells whether a flow's connection is to be refreshed, as the packets would do that
// conntrack does not see: the first time early, because conntrack gives new connections less
// time, and then every so many ticks. A refresh is due if its age lies between the ages at
// the previous sweep and at this one, however far apart these are; before the flow is
// deleted, it is due at once. A flow that was silent since its last refresh is left to age.
func due(quiet, age, before, every int32, last bool) bool {
	was := refreshAge(before, every)
	return quiet <= age-was && (last || refreshAge(age, every) != was)
}

// refreshAge is the age at which the last refresh was due; 0: there was none.
func refreshAge(age, every int32) int32 {
	if age < firstRefresh {
		return 0
	}
	return max(firstRefresh, age-age%every)
}

// firstRefresh is the age of a flow, in ticks, at its first refresh.
const firstRefresh = 3

// keepAlive refreshes connections in conntrack. A flow without a conntrack entry is deleted.
// So is one that is closing, whose entry then expires as if it had not been refreshed.
func (s *sweep) keepAlive() error {
	var closing []kernel.Connection
	err := s.track.Update(s.refresh, func(i int, is kernel.ConnState) {
		switch is {
		case kernel.ConnMissing:
			s.expire(s.refreshed[i].key, s.refreshed[i].flow)
		case kernel.ConnClosing:
			s.expire(s.refreshed[i].key, s.refreshed[i].flow)
			closing = append(closing, s.refresh[i].Conn)
		}
	})
	return errors.Join(err, s.track.RestoreTimeouts(closing))
}

// forget deletes entries. Missing ones are not an error.
func (s *sweep) forget(keys []bpf.FlowKey) (err error) {
	all := keys
	defer func() { err = errors.Join(err, s.objs.InvalidateSlots(all...)) }()
	for len(keys) > 0 {
		n, err := s.objs.Flows.BatchDelete(keys, nil)
		if err == nil {
			return nil
		}
		if !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("delete flows: %w", err)
		}
		keys = keys[min(n+1, len(keys)):] // the batch stopped at a missing one
	}
	return nil
}

// ctTimeouts is how long conntrack keeps an established connection, in seconds.
//
// A slow packet resets the timeout. Conntrack has not seen the carried packets, so it may
// take what it saw last for unacknowledged or retransmitted, and choose a timeout of minutes
// where that of the established connection is days. Each update marks everything as
// acknowledged, which holds until conntrack sees another segment within the window that it
// knows. So a connection is refreshed four times in the shortest of these timeouts, if its
// flow has sent something since.
//
// For a million active flows, that is 33,000 updates a second for UDP (timeout 120 s, the
// default), and 13,000 for TCP (300 s), of some microseconds each. If all are due at once,
// the sweep pauses after every 4,096. Silent flows get no refresh, and flows that last less
// than a quarter of the timeout get one.
type ctTimeouts = kernel.Timeouts

// timeoutSysctls are the sysctls of timeouts, that of established connections first.
var timeoutSysctls = map[uint8][]string{
	syscall.IPPROTO_UDP: topology.UDPTimeouts,
	syscall.IPPROTO_TCP: topology.TCPTimeouts,
}

// unrepliedSysctls are those of flows without a reply.
var unrepliedSysctls = map[uint8][]string{syscall.IPPROTO_UDP: topology.UnrepliedUDPTimeouts}

// readLifetimes reads how long connections live.
func (s *sweep) readLifetimes() (err error) {
	if s.lifetimes, err = kernel.ReadTimeouts(timeoutSysctls); err != nil {
		return err
	}
	unreplied, err := kernel.ReadTimeouts(unrepliedSysctls)
	s.unreplied = unreplied[syscall.IPPROTO_UDP]
	return err
}
