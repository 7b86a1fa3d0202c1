package fastpath

import (
	"context"
	"errors"
	"syscall"
	"time"

	"github.com/venturi-net/venturi/internal/fastpath/audit"
	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/fastpath/kernel"
	"github.com/venturi-net/venturi/internal/fastpath/lease"
	"github.com/venturi-net/venturi/internal/fastpath/topology"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/netcfg"
)

// What tests look at from outside: the fast path's own tests need labs, which are
// built with it.

const (
	IdleTicks      = idleTicks
	FirstRefresh   = firstRefresh
	MinIdleTicks   = minIdleTicks
	UnlearnedTicks = unlearnedTicks
	SweepEvery     = sweepEvery
	SweepBatch     = sweepBatch
	MaxProbes      = maxProbes
)

var (
	IdleLimit = idleLimit
	Due       = due
)

type (
	Sweep = sweep
	Flows = flows
)

// OtherTunnel says that the tunnel to a next hop is not one that the programs of a config are for.
func OtherTunnel(c *Config, p topology.NextHop) string { return c.otherTunnel(p) }

// StrangerReason says what of the tunnel to a next hop, which leaves by a device, is taken for that of others.
func StrangerReason(strangers audit.Strangers, p topology.NextHop, wire string) string {
	d := &daemon{audit: auditState{rules: audit.RulesetAudit{Strangers: strangers}}}
	return d.strangerReason(p, map[int]topology.TCState{p.WireDevice: {Name: wire}})
}

// UncarriedWith are the kinds of traffic that stay slow with a config, on a node with IPVS or without.
func UncarriedWith(c *Config, ipvs bool) []Uncarried { return c.uncarried(ipvs) }

func NewSweep(fast *bpf.Objects, track *kernel.Conntrack) *Sweep { return newSweep(fast, track) }

// Run goes through all flows, as the first sweep, and says in how many turns and how
// many they were.
func (s *sweep) Run(tick uint32, flush bool, silent map[uint8]uint32) (turns, seen int, err error) {
	s.startTick = 0
	s.start(tick)
	s.flush = flush
	for protocol, seconds := range silent {
		s.lifetimes[protocol] = ctTimeouts{Established: seconds, Shortest: seconds}
	}
	for done := false; !done && err == nil; turns++ {
		done, err = s.step(tick)
	}
	return turns, s.entries, err
}

// Inspect looks at a flow of TCP in a sweep that began in some tick, and says for how many
// seconds its connection is to live then; 0: as long as it does.
func (s *sweep) Inspect(began, tick uint32, v bpf.Flow, limit int32, silent, least uint32) (alive uint32, forgotten bool) {
	s.prevStart, s.startTick, s.idleLimit, s.expired, s.refresh = s.startTick, began, limit, nil, nil
	s.lifetimes[syscall.IPPROTO_TCP] = ctTimeouts{Established: silent, Shortest: least}
	if s.objs == nil {
		s.objs = new(bpf.Objects) // of no tables, as for IPv4
	}
	if err := s.inspect(bpf.FlowKey{TenantProto: syscall.IPPROTO_TCP}, v, tick); err != nil {
		panic(err) // it looks nothing up
	}
	for _, u := range s.refresh {
		alive = uint32(u.Timeout.Seconds())
	}
	return alive, len(s.expired) > 0
}

// ReadTimeouts gives the timeouts of connections of a protocol.
func ReadTimeouts(protocol uint8) (silent, least uint32, err error) {
	all, err := kernel.ReadTimeouts(timeoutSysctls)
	return all[protocol].Established, all[protocol].Shortest, err
}

func (s *sweep) Forget(keys []bpf.FlowKey) error { return s.forget(keys) }

func NewFlows(fast *bpf.Objects, tenant uint32) *Flows {
	e, err := newEpoch(fast)
	if err != nil {
		panic(err)
	}
	f := newFlows(fast, nil, e)
	f.tenant.Store(tenant)
	return f
}

func (f *flows) Destroyed(all []kernel.Ended, lost, more bool) error {
	return f.destroyed(all, lost, more)
}

// MaxBacklog is how long ends of connections may wait.
const MaxBacklog = maxBacklog

// CloseReset closes connections that expire within the timeout of closed ones, or else within that of
// unacknowledged data.
func (f *flows) CloseReset(all []kernel.Connection, closed, unacknowledged time.Duration, track *kernel.Conntrack) error {
	return f.closed.close(all, resetTimeouts{closed, unacknowledged}, track)
}

func (f *flows) Reopen(track *kernel.Conntrack) error { return f.closed.reopen(track) }

// Flushing tells that everything is to be forgotten.
func (f *flows) Flushing() bool { return len(f.flush) > 0 }

func (f *flows) Sweeps(ctx context.Context, track *kernel.Conntrack) error {
	return f.sweepLoop(ctx, track)
}

// RegularSweeps plays the schedule of sweeps of so many steps, while all flows are to be deleted every so often. It
// gives the ticks in which the other sweeps start, which are about so many.
func RegularSweeps(flushEvery time.Duration, steps, ticks int) (starts []int) {
	var s sweepSchedule
	left, wake, flushAt := 0, time.Duration(0), flushEvery
	for {
		now := min(wake, flushAt)
		flush := flushAt == now
		if flush {
			flushAt += flushEvery
		}
		tick := int(now / heartbeat)
		if tick >= ticks {
			return starts
		}
		if s.start(uint32(tick)+1000, flush) {
			if left = steps; !flush {
				starts = append(starts, tick)
			}
		}
		if s.running {
			left--
			s.running = left > 0
		}
		wake = now + s.pause(uint32(tick)+1000)
	}
}

// RestAfterResync is how long a daemon does not read the network again that had just too much of something; "": it had not.
func RestAfterResync(tooMany string) time.Duration {
	d := &daemon{topo: topology.Topology{TooMany: tooMany}}
	return time.Until(d.restAfterResync(time.Now()))
}

// MaxRest is how long it does not at most otherwise.
const MaxRest = maxRest

// MaxPodEnds is how many ends of pods the queue keeps.
const MaxPodEnds = maxPodEnds

// AuditLimit is how long packets are carried without an audit.
const AuditLimit = auditLimit

// EventQueue holds events of a fast path.
type EventQueue = eventQueue

func NewEventQueue(fast *bpf.Objects) (*EventQueue, error) {
	e, err := newEpoch(fast)
	if err != nil {
		return nil, err
	}
	queue := newEventQueue()
	return queue, queue.bumpBy(e, lease.New(fast, 20))
}

func (q *eventQueue) Push(batch ...topology.Event)       { q.push(batch) }
func (q *eventQueue) SetTopology(topo topology.Topology) { q.setTopology(topo) }
func (q *eventQueue) Drain() (topology.Changes, error)   { return q.drain() }
func (q *eventQueue) Numbers() trackingNumbers           { return q.trackingNumbers() }
func (q *eventQueue) Track(now bpf.Tracking, of trackingNumbers) (more bool, err error) {
	return q.track(now, of)
}

// Follow is a daemon in a namespace, the calling thread's, that reads the topology as it is
// told to, until ctx ends. It gives its event queue away before it reads any.
func Follow(ctx context.Context, c *Config, n *netcfg.Namespace, fast *bpf.Objects, queue chan<- *EventQueue, read func() (topology.Topology, error)) (err error) {
	d, end, err := newTestDaemon(c, n, fast, read)
	if err != nil {
		return err
	}
	defer end()
	ctx, cancel := context.WithCancel(ctx)
	if err := d.watch(ctx); err != nil {
		cancel()
		return err
	}
	defer cancelAndWait(cancel, d.watcher.Done)
	queue <- d.events
	return d.follow(ctx)
}

// newTestDaemon starts a daemon that follows nothing yet. end frees what it holds.
func newTestDaemon(c *Config, n *netcfg.Namespace, fast *bpf.Objects, read func() (topology.Topology, error)) (d *daemon, end func(), err error) {
	d = newDaemon(c)
	d.netns, d.objs = n, fast
	d.readTopology = func(topology.DeviceNames, topology.ProgramOwner) (topology.Topology, error) { return read() }
	if d.jiffy, err = host.Jiffy(); err != nil {
		return nil, nil, err
	}
	if d.lock, err = kernel.AcquirePinLock(context.Background(), c.Pins, false); err != nil {
		return nil, nil, err
	}
	if err = d.openPoller(); err != nil {
		d.lock.Close()
		return nil, nil, err
	}
	end = func() { d.closePoller(); d.lock.Close() }
	if err := d.start(); err != nil {
		end()
		return nil, nil, err
	}
	return d, end, nil
}

// StartStates attaches all that a daemon in the calling thread's namespace attaches at its start. It
// gives the state after each step, and tells how often the network was read again for it.
func StartStates(c *Config, n *netcfg.Namespace, fast *bpf.Objects) (states []State, reads int, err error) {
	d, end, err := newTestDaemon(c, n, fast, func() (topology.Topology, error) {
		reads++
		return topology.Read(c.Devices, func(uint32) bool { return false })
	})
	if err != nil {
		return nil, 0, err
	}
	defer end()
	ctx, cancel := context.WithCancel(context.Background())
	if err := d.watch(ctx); err != nil {
		cancel()
		return nil, 0, err
	}
	defer cancelAndWait(cancel, d.watcher.Done)
	d.readEarly()
	defer d.early.discard()
	following, err := d.flows.start(ctx)
	if err != nil {
		return nil, 0, err
	}
	defer cancelAndWait(cancel, following)
	if _, err = d.auditRules(); err == nil {
		states = append(states, *d.lastState)
	}
	for err == nil && d.attachPending() != nil {
		err = d.attachNext()
		states = append(states, *d.lastState)
	}
	return states, reads, errors.Join(err, d.stop(), d.closeProber())
}

// Reload loads the programs over what an earlier daemon has left, and nothing else.
func Reload(c *Config, n *netcfg.Namespace) error {
	d := newDaemon(c)
	d.netns = n
	objs, err := d.load()
	if err == nil {
		objs.Close()
	}
	return err
}

// FirstPods is how many pods a daemon reads before it attaches anything.
const FirstPods = firstPods

// NewsBesideSysctl polls once after a sysctl has changed and load has loaded a program, and tells
// how many full polls are due afterwards.
func NewsBesideSysctl(c *Config, n *netcfg.Namespace, fast *bpf.Objects, load func()) (due int, err error) {
	d, end, err := newTestDaemon(c, n, fast, func() (topology.Topology, error) { return topology.Topology{}, nil })
	if err != nil {
		return 0, err
	}
	defer end()
	d.programs.full, d.programs.nextFull = 0, time.Now().Add(time.Hour)
	d.audit.sysctls = nil
	load()
	err = d.poll()
	return d.programs.full, err
}

// PollsOfAdvertisements is a daemon that polls, and counts router advertisements, whenever it is told to.
func PollsOfAdvertisements(c *Config, n *netcfg.Namespace, fast *bpf.Objects, read func() (topology.Topology, error)) (poll func() error, end func(), err error) {
	d, end, err := newTestDaemon(c, n, fast, read)
	if err != nil {
		return nil, nil, err
	}
	d.audit.done = true
	return d.poll, end, nil
}

// MaxAdvertisedRest is how long the daemon does not count them at most.
const MaxAdvertisedRest = maxAdvertisedRest

// IdleAfter is after how many polls without a carried packet they become rare.
const IdleAfter = idleAfter

// Polling is a daemon that has attached all, and does only what a test has it do.
type Polling struct{ d *daemon }

// Polled is what a look or a heartbeat did.
type Polled struct {
	All  bool          // it has polled
	Full int           // full polls that are due
	Next time.Duration // time until the next look
}

func NewPolling(c *Config, n *netcfg.Namespace, fast *bpf.Objects) (p Polling, end func(), err error) {
	d, end, err := newTestDaemon(c, n, fast, func() (topology.Topology, error) { return topology.Topology{}, nil })
	if err != nil {
		return p, nil, err
	}
	d.complete = true
	d.programs.full = 0
	return Polling{d}, end, nil
}

func (p Polling) Look() (Polled, error)      { return p.run(p.d.look) }
func (p Polling) Heartbeat() (Polled, error) { return p.run(p.d.heartbeat) }

func (p Polling) run(do func() error) (Polled, error) {
	p.d.programs.nextFull = time.Now().Add(time.Hour)
	p.d.audit.sysctls = nil
	err := do()
	return Polled{p.d.audit.sysctls != nil, p.d.programs.full, p.d.nextPoll()}, err
}

// LeaseEpochs are those of a daemon that invalidates what was learned, without a lease, gets one, and
// invalidates again with it: after each step.
func LeaseEpochs(c *Config, n *netcfg.Namespace, fast *bpf.Objects) (begin, without, leased, with uint32, err error) {
	d, end, err := newTestDaemon(c, n, fast, func() (topology.Topology, error) { return topology.Topology{}, nil })
	if err != nil {
		return 0, 0, 0, 0, err
	}
	defer end()
	var failed []error
	after := func(err error) (now uint32) {
		failed = append(failed, err, fast.Epoch.Get(&now))
		return now
	}
	begin, without = after(nil), after(d.invalidate(topology.Rules))
	d.audit.off, d.synced = "", true
	leased, with = after(d.renewLease()), after(d.invalidate(topology.Rules))
	return begin, without, leased, with, errors.Join(failed...)
}

// ProbeInterval is in how many ticks all pods behind bridges are probed that age so.
func ProbeInterval(resting bool, ageing time.Duration) uint32 {
	d := &daemon{Config: &Config{}, complete: true, topo: topology.Topology{Ageing: ageing}}
	if resting {
		d.activity.quiet = idleAfter
	}
	return d.probeInterval()
}

// NewTables are tables that nothing is in yet.
func NewTables(fast *bpf.Objects) *tables { return newTables(fast, 1) }

func (t *tables) Sync(topo topology.Topology) error { return t.sync(topo) }

// SendProbes has the pods of a machine speak, those that are known and those that are not.
func SendProbes(m *netcfg.Namespace, topo topology.Topology) error {
	d := &daemon{Config: &Config{}, netns: m, topo: topo}
	for range probeEvery {
		if err := d.probeSomePods(); err != nil {
			return errors.Join(err, d.closeProber())
		}
		d.tick++
	}
	return errors.Join(d.probeMissingFDB(), d.closeProber())
}

// ProbeMissing probes neighbours without an FDB entry, in so many ticks.
func ProbeMissing(m *netcfg.Namespace, topo topology.Topology, ticks int) (err error) {
	d := &daemon{Config: &Config{}, netns: m, topo: topo}
	for range ticks {
		d.tick++
		err = errors.Join(err, d.probeMissingFDB())
	}
	return errors.Join(err, d.closeProber())
}
