package accel

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/cilium/ebpf"

	"github.com/venturi-net/venturi/internal/bpf"
	"github.com/venturi-net/venturi/internal/change"
)

const (
	// idle is for how long an entry of a flow that sends nothing is kept while there
	// is room, in ticks. As the table fills, it becomes fewer, down to hurried.
	idle    = 120
	hurried = 10
	// unproven is for how long one is kept of a flow that was never carried, or is not
	// now: what sends one way only must not fill the table.
	unproven = 5
	// sweepEvery is how often entries are looked through, in ticks.
	sweepEvery = 5

	// A sweep looks at so many entries at once, and then lets others have the core:
	// of a million entries, it takes about as long as the time until the next.
	sweepTurn  = 4096
	sweepPause = 40 * time.Millisecond
	// flushPause is for sweeps that forget everything.
	flushPause = time.Millisecond
)

// sweep is a walk through all flows, in turns.
type sweep struct {
	fast     *bpf.Fast
	track    *change.Conntrack
	lifetime [256]uint32 // of connections in conntrack, by protocol, in ticks; 0: nothing is tracked
	flush    bool        // everything is to be forgotten
	limit    int32       // ticks after which a silent one is

	cursor  ebpf.MapBatchCursor
	seen    int // entries, until now
	keys    []bpf.FlowKey
	values  []bpf.Flow
	old     []bpf.FlowKey
	refresh []change.Update
	of      []bpf.FlowKey // by index in refresh
}

// sweeps looks through the flows every now and then, until ctx ends: it forgets
// those that have sent nothing for long, and keeps alive in conntrack those that
// were carried.
func (f *flows) sweeps(ctx context.Context, track *change.Conntrack) error {
	s := newSweep(f.fast, track)
	var began uint32
	pause := time.NewTimer(0)
	defer pause.Stop()
	for under := false; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-pause.C:
		}
		var tick uint32
		if err := f.fast.Tick.Get(&tick); err != nil {
			return err
		}
		if f.flush.Swap(false) {
			s.start()
			s.flush, under, began = true, true, tick
		}
		if !under && int32(tick-began) >= sweepEvery {
			s.start()
			s.flush, under, began = false, true, tick
			var err error
			if s.lifetime, err = lifetimes(); err != nil {
				return err
			}
		}
		switch {
		case under:
			done, err := s.turn(tick)
			if err != nil {
				return err
			}
			under = !done
			pause.Reset(map[bool]time.Duration{false: sweepPause, true: flushPause}[s.flush])
		default:
			pause.Reset(sweepPause)
		}
	}
}

func newSweep(fast *bpf.Fast, track *change.Conntrack) *sweep {
	return &sweep{fast: fast, track: track, keys: make([]bpf.FlowKey, sweepTurn), values: make([]bpf.Flow, sweepTurn)}
}

// start begins anew. How many entries there were the last time says how long they
// are kept.
func (s *sweep) start() {
	s.limit = limit(s.seen, int(s.fast.Flows.MaxEntries()))
	s.cursor, s.seen = ebpf.MapBatchCursor{}, 0
}

// limit is after how many ticks a silent flow is forgotten: fewer, the more of the
// second half of the table is used.
func limit(entries, most int) int32 {
	over := max(0, 2*entries-most)
	return max(hurried, idle-int32((idle-hurried)*over/most))
}

// turn looks at some entries, and says whether they were the last.
func (s *sweep) turn(tick uint32) (done bool, err error) {
	n, err := s.fast.Flows.BatchLookup(&s.cursor, s.keys, s.values, nil)
	if done = errors.Is(err, ebpf.ErrKeyNotExist); err != nil && !done {
		return false, fmt.Errorf("go through flows: %w", err)
	}
	s.seen += n
	s.old, s.refresh, s.of = s.old[:0], s.refresh[:0], s.of[:0]
	for i, k := range s.keys[:n] {
		s.judge(k, s.values[i], tick)
	}
	if err := s.keepAlive(); err != nil {
		return false, err
	}
	return done, s.forget(s.old)
}

// judge decides what becomes of an entry.
func (s *sweep) judge(k bpf.FlowKey, v bpf.Flow, tick uint32) {
	quiet, age := max(0, int32(tick-v.Used)), max(0, int32(tick-v.Asked))
	switch {
	case s.flush, quiet > s.limit, v.Epoch == 0 && quiet > unproven:
		s.old = append(s.old, k)
	case v.Pinned != 0 && due(quiet, age, int32(s.lifetime[uint8(k.TenantProto)])):
		alive := int32(s.lifetime[uint8(k.TenantProto)]) - quiet
		s.refresh = append(s.refresh, change.Update{Of: connection(k), Alive: time.Duration(alive) * time.Second})
		s.of = append(s.of, k)
	}
}

// due says whether a flow's connection is to be kept alive in this sweep, as the
// packets would that conntrack does not see: first soon after it began, because
// conntrack gives new ones less time, and then whenever a quarter of its lifetime
// is over. One that has sent nothing since is left to age.
func due(quiet, age, lifetime int32) bool {
	every := max(1, lifetime/4/sweepEvery)
	number := age / sweepEvery
	return lifetime > 0 && age > 2 && (number < 2 || number%every == 0) &&
		quiet < lifetime && quiet <= every*sweepEvery+1
}

// keepAlive lets connections live on in conntrack. What it does not have any more,
// is forgotten; what has come to its end meanwhile, goes soon.
func (s *sweep) keepAlive() error {
	var closing []change.Update
	err := s.track.Update(s.refresh, func(i int, is change.Tracked) {
		switch is {
		case change.NotTracked:
			s.old = append(s.old, s.of[i])
		case change.TrackedClosing:
			s.old = append(s.old, s.of[i])
			closing = append(closing, change.Update{Of: s.refresh[i].Of, Alive: closed})
		}
	})
	return errors.Join(err, s.track.Update(closing, func(int, change.Tracked) {}))
}

// closed is for how long conntrack remembers a TCP connection that is over.
const closed = 2 * time.Minute

// forget deletes entries; those that are not there any more, are.
func (s *sweep) forget(keys []bpf.FlowKey) (err error) {
	all := keys
	defer func() { err = errors.Join(err, s.fast.Ended(all...)) }()
	for len(keys) > 0 {
		n, err := s.fast.Flows.BatchDelete(keys, nil)
		if err == nil {
			return nil
		}
		if !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("forget flows: %w", err)
		}
		keys = keys[min(n+1, len(keys)):] // it ended at one that is gone
	}
	return nil
}

// lifetimes are how long conntrack keeps connections that are silent, in seconds.
func lifetimes() (all [256]uint32, err error) {
	for protocol, name := range map[uint8]string{protoUDP: "nf_conntrack_udp_timeout_stream", protoTCP: "nf_conntrack_tcp_timeout_established"} {
		text, err := os.ReadFile("/proc/sys/net/netfilter/" + name)
		if errors.Is(err, os.ErrNotExist) {
			continue // this kernel tracks nothing
		}
		if err != nil {
			return all, err
		}
		seconds, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 31)
		if err != nil {
			return all, err
		}
		all[protocol] = uint32(seconds)
	}
	return all, nil
}
