package fastpath

import (
	"context"

	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/fastpath/kernel"
	"github.com/venturi-net/venturi/internal/fastpath/topology"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/netcfg"
)

// What tests look at from outside: the fast path's own tests need labs, which are
// built with it.

const (
	Idle       = idle
	Soon       = soon
	Hurried    = hurried
	Unproven   = unproven
	SweepEvery = sweepEvery
	SweepTurn  = sweepTurn
)

var (
	Limit = limit
	Due   = due
)

type (
	Sweep       = sweep
	Flows       = flows
	FilterLinks = filterLinks
)

func NewSweep(fast *bpf.Fast, track *kernel.Conntrack) *Sweep { return newSweep(fast, track) }

// Whole goes through all flows, as the first sweep, and says in how many turns and how
// many they were.
func (s *sweep) Whole(tick uint32, flush bool, silent map[uint8]uint32) (turns, seen int, err error) {
	s.began = 0
	s.start(tick)
	s.flush = flush
	for protocol, seconds := range silent {
		s.lifetimes[protocol] = lifetime{seconds, seconds}
	}
	for done := false; !done && err == nil; turns++ {
		done, err = s.turn(tick)
	}
	return turns, s.seen, err
}

// Look looks at a flow of TCP in a sweep that began in some tick, and says for how many
// seconds its connection is to live then; 0: as long as it does.
func (s *sweep) Look(began, tick uint32, v bpf.Flow, limit int32, silent, least uint32) (alive uint32, forgotten bool) {
	s.before, s.began, s.limit, s.old, s.refresh = s.began, began, limit, nil, nil
	s.lifetimes[protoTCP] = lifetime{silent, least}
	s.judge(bpf.FlowKey{TenantProto: protoTCP}, v, tick)
	for _, u := range s.refresh {
		alive = uint32(u.Alive.Seconds())
	}
	return alive, len(s.old) > 0
}

// Lifetimes are those of connections of a protocol.
func Lifetimes(protocol uint8) (silent, least uint32, err error) {
	all, err := lifetimes(timeouts)
	return all[protocol].silent, all[protocol].least, err
}

func (s *sweep) Forget(keys []bpf.FlowKey) error { return s.forget(keys) }

func NewFlows(fast *bpf.Fast, tenants []uint32) *Flows {
	p, err := newPolicy(fast)
	if err != nil {
		panic(err)
	}
	f := newFlows(fast, nil, p)
	f.of(tenants)
	return f
}

func (f *flows) Ended(all []kernel.Connection, lost bool) error { return f.ended(all, lost) }

// Lost: everything is to be forgotten.
func (f *flows) Lost() bool { return len(f.flush) > 0 }

func (f *flows) Sweeps(ctx context.Context, track *kernel.Conntrack) error {
	return f.sweeps(ctx, track)
}

// Inbox holds news of a fast path.
type Inbox = inbox

func NewInbox(fast *bpf.Fast) (*Inbox, error) {
	p, err := newPolicy(fast)
	return newInbox(p), err
}

func (i *inbox) Put(n topology.Event)            { i.put(n) }
func (i *inbox) Know(w topology.Topology)        { i.know(w) }
func (i *inbox) Take() (topology.Changes, error) { return i.take() }

// Follow is a daemon in a namespace, the calling thread's, that reads ways as it is
// told to, until ctx ends. It gives its inbox away before it reads any.
func Follow(ctx context.Context, c *Config, n *netcfg.Namespace, fast *bpf.Fast, inbox chan<- *Inbox, read func() (topology.Topology, error)) (err error) {
	d := newDaemon(c)
	d.space, d.fast = n, fast
	d.readWays = func(topology.DeviceNames) (topology.Topology, error) { return read() }
	if d.jiffy, err = host.Jiffy(); err != nil {
		return err
	}
	if d.seat, err = kernel.TakeSeat(ctx, c.Pins, false); err != nil {
		return err
	}
	defer d.seat.Close()
	if d.unsaid, err = topology.OpenPoller(); err != nil {
		return err
	}
	defer d.unsaid.Close()
	if err := d.begin(); err != nil {
		return err
	}
	inbox <- d.inbox
	return d.follow(ctx)
}

func (f *filterLinks) Look(tunnels bool) (hook string, err error) { return f.look(tunnels) }

// NewTables are tables that nothing is in yet.
func NewTables(fast *bpf.Fast) *tables { return newTables(fast, 1) }

func (t *tables) Sync(w topology.Topology) error { return t.sync(w) }

// Ask has the pods of a machine speak, those that are known and those that are not.
func Ask(m *netcfg.Namespace, ways topology.Topology) error {
	d := &daemon{space: m, ways: ways}
	for range askEvery {
		if err := d.askSome(); err != nil {
			return err
		}
		d.tick++
	}
	return d.askUnplaced()
}
