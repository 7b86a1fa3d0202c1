package fastpath

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cilium/ebpf"

	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/fastpath/kernel"
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
	// sweepRest is from one look whether another sweep is due to the next.
	sweepRest = beat
	// flushPause is for sweeps that forget everything.
	flushPause = time.Millisecond
)

// sweep is a walk through all flows, in turns.
type sweep struct {
	fast      *bpf.Fast
	track     *kernel.Conntrack
	lifetimes [256]lifetime // by protocol
	unreplied lifetime      // of UDP that nobody has replied to
	flush     bool          // everything is to be forgotten
	limit     int32         // ticks after which a silent one is
	began     uint32        // tick in which it began
	before    uint32        // and that in which the last one did

	cursor  ebpf.MapBatchCursor
	seen    int // entries, until now
	keys    []bpf.FlowKey
	values  []bpf.Flow
	old     []bpf.FlowKey
	refresh []kernel.Update
	of      []bpf.FlowKey // by index in refresh
}

// sweeps looks through the flows every now and then, until ctx ends: it forgets
// those that have sent nothing for long, and keeps alive in conntrack those that
// were carried.
func (f *flows) sweeps(ctx context.Context, track *kernel.Conntrack) error {
	s := newSweep(f.fast, track)
	pause := time.NewTimer(0)
	defer pause.Stop()
	for under := false; ; {
		flush := false
		select {
		case <-ctx.Done():
			return nil
		case <-f.flush:
			flush = true
		case <-pause.C:
		}
		var tick uint32
		if err := f.fast.Tick.Get(&tick); err != nil {
			return err
		}
		if flush {
			s.start(tick)
			s.flush, under = true, true
		}
		if !under && int32(tick-s.began) >= sweepEvery {
			s.start(tick)
			s.flush, under = false, true
			var err error
			if s.lifetimes, err = lifetimes(timeouts); err != nil {
				return err
			}
			waiting, err := lifetimes(unrepliedTimeouts)
			if err != nil {
				return err
			}
			s.unreplied = waiting[protoUDP]
		}
		if under {
			done, err := s.turn(tick)
			if err != nil {
				return err
			}
			under = !done
		}
		switch {
		case !under:
			pause.Reset(sweepRest)
		case s.flush:
			pause.Reset(flushPause)
		default:
			pause.Reset(sweepPause)
		}
	}
}

func newSweep(fast *bpf.Fast, track *kernel.Conntrack) *sweep {
	return &sweep{fast: fast, track: track, keys: make([]bpf.FlowKey, sweepTurn), values: make([]bpf.Flow, sweepTurn)}
}

// start begins anew. How many entries there were the last time says how long they
// are kept.
func (s *sweep) start(tick uint32) {
	s.limit = limit(s.seen, int(s.fast.Flows.MaxEntries()))
	s.before, s.began = s.began, tick
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

// judge decides what becomes of an entry. Whether its connection is to be kept alive is
// asked as of when the sweep began: so each tick counts in one sweep, and in no other,
// whenever that comes to the entry.
func (s *sweep) judge(k bpf.FlowKey, v bpf.Flow, tick uint32) {
	quiet := since(tick, v.Used)
	at, last := s.began, false
	switch {
	case s.flush, v.Epoch == 0 && quiet > unproven:
		s.old = append(s.old, k)
		return
	case quiet > s.limit:
		s.old = append(s.old, k)
		at, last = tick, true
	}
	l := s.lifetimes[uint8(k.TenantProto)]
	if v.Unreplied != 0 {
		l = s.unreplied
	}
	every, alive := max(1, int32(l.least)/4), int32(l.silent)-quiet
	if v.Pinned != 0 && alive > 0 && due(since(at, v.Used), since(at, v.Asked), since(s.before, v.Asked), every, last) {
		of := connection(k)
		s.refresh = append(s.refresh, kernel.Update{Of: of, Liberal: of.Protocol == protoTCP, Unreplied: v.Unreplied != 0, Alive: time.Duration(alive) * time.Second})
		s.of = append(s.of, k)
	}
}

// since is how many ticks a tick is after another one; 0: it is before that.
func since(tick, other uint32) int32 { return max(0, int32(tick-other)) }

// due says whether a flow's connection is to be kept alive, as the packets would that
// conntrack does not see: first soon after it began, because conntrack gives new ones
// less time, and then every so many ticks. Such a moment has come if it has between
// the ages of this look and of the one before, however far apart they are; the last
// look, after which the flow is forgotten, does not wait for one. One that has sent
// nothing since the moment before is left to age.
func due(quiet, age, before, every int32, last bool) bool {
	was := moment(before, every)
	return quiet <= age-was && (last || moment(age, every) != was)
}

// moment is the age at which a connection was to be kept alive last; 0: there was none.
func moment(age, every int32) int32 {
	if age < soon {
		return 0
	}
	return max(soon, age-age%every)
}

// soon is how old a flow is, in ticks, when its connection is kept alive at first.
const soon = 3

// keepAlive lets connections live on in conntrack. What it does not have any more,
// is forgotten; what has come to its end meanwhile, goes soon.
func (s *sweep) keepAlive() error {
	var closing []kernel.Update
	err := s.track.Update(s.refresh, func(i int, is kernel.Tracked) {
		switch is {
		case kernel.NotTracked:
			s.old = append(s.old, s.of[i])
		case kernel.TrackedClosing:
			s.old = append(s.old, s.of[i])
			closing = append(closing, kernel.Update{Of: s.refresh[i].Of, Alive: closed})
		}
	})
	return errors.Join(err, s.track.Update(closing, func(int, kernel.Tracked) {}))
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

// lifetime is how long conntrack keeps an established connection, in seconds.
//
// A packet that goes slow sets that anew, to what conntrack makes of a connection of
// which it has not seen the packets that were carried: it takes what it saw last for
// unacknowledged, or for repeated, and gives up within minutes what it was told to
// keep for days. It is told each time that all is acknowledged, which holds until it
// sees the next segment that is within the window as it knows it. So a connection is
// kept alive four times in the least of these, if its flow has sent something since.
//
// Of a million flows that do, those are 33,000 updates a second for UDP (120 s, as the
// kernel has it by itself), and 13,000 for TCP (300 s), of some microseconds each; and
// when they are all due at once, a sweep pauses every 4,096 of them. What it does not
// cost: flows that send nothing get none, and those that go on for less than a quarter
// get one.
type lifetime struct {
	silent uint32 // of one that is silent from now on; 0: nothing is tracked
	least  uint32 // after whatever packet
}

// timeouts are settings of conntrack: of one that is silent first.
var timeouts = map[uint8][]string{
	protoUDP: {"udp_timeout_stream"},
	protoTCP: {"tcp_timeout_established", "tcp_timeout_unacknowledged", "tcp_timeout_max_retrans"},
}

// unrepliedTimeouts is that of a flow that nobody has replied to.
var unrepliedTimeouts = map[uint8][]string{protoUDP: {"udp_timeout"}}

// lifetimes reads settings of conntrack, in the calling thread's namespace.
func lifetimes(timeouts map[uint8][]string) (all [256]lifetime, err error) {
	for protocol, names := range timeouts {
		var seconds []uint32
		for _, name := range names {
			text, err := os.ReadFile("/proc/sys/net/netfilter/nf_conntrack_" + name)
			if errors.Is(err, os.ErrNotExist) {
				continue // this kernel tracks nothing
			}
			if err != nil {
				return all, err
			}
			n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 31)
			if err != nil {
				return all, err
			}
			seconds = append(seconds, uint32(n))
		}
		if len(seconds) > 0 {
			all[protocol] = lifetime{seconds[0], slices.Min(seconds)}
		}
	}
	return all, nil
}
