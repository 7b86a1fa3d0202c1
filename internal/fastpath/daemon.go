// Package fastpath is the daemon of a fast path. It attaches the programs of
// [internal/fastpath/bpf] on a host, writes the pods and next hops into their tables, and
// invalidates what they have learned when the host's network changes.
//
// It runs in the host's network namespace, reads a file ([Config]), writes its state to
// another ([State]), and exits when its standard input is closed. It gives the programs a
// lease of a few seconds. When the lease expires they leave all packets to the slow path,
// until another daemon takes over the pins.
package fastpath

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/cilium/ebpf"

	"github.com/venturi-net/venturi/internal/fastpath/audit"
	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/fastpath/kernel"
	"github.com/venturi-net/venturi/internal/fastpath/lease"
	"github.com/venturi-net/venturi/internal/fastpath/shadow"
	"github.com/venturi-net/venturi/internal/fastpath/topology"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/nlmsg"
	"github.com/venturi-net/venturi/internal/verr"
)

// Options configure [Main].
type Options struct {
	Config string    // file that holds a [Config]
	Stdin  io.Reader // the lifeline; see [host.WithLifeline]
	// Replace takes over from a running daemon, which exits and leaves its programs
	// attached.
	Replace bool
	// Report is called with each new state once all programs are attached; nil: nobody wants
	// to know.
	Report func(State)
	// Compared is called with what a shadow ([Config].Shadow) has found until then.
	Compared func(shadow.Result)
}

const (
	// heartbeat is the interval at which the daemon renews the lease.
	heartbeat = time.Second
	// settle is the delay after an event in which further events are awaited.
	settle = 5 * time.Millisecond
	// maxRest limits the pause between reads of the network, or of the rules, so that what stops
	// packets from being carried is found soon even if all of it changes all the time.
	maxRest = 50 * time.Millisecond
	// tooManyRest is that pause while there is too much to read, and nothing is carried anyway.
	tooManyRest = time.Second
	// These say how long the pause is, as a multiple of what the read took.
	resyncRestFactor, auditRestFactor = 2, 10
	// pollInterval is how often state without notifications is polled.
	pollInterval = 50 * time.Millisecond
	// While nothing is carried, after so many polls, it is polled with each heartbeat, and at once
	// when packets are carried again. lookInterval is how often the daemon looks for these, and
	// whether another daemon wants to take over.
	idleAfter    = 40 // polls
	lookInterval = 250 * time.Millisecond
	// takeoverEvery is how often that is while it polls.
	takeoverEvery = 4 // polls
	// checkEvery is how often the daemon checks that its programs are still attached,
	// checkBatch of them at a time.
	checkEvery = 10 // ticks
	checkBatch = 64
	// startGCPercent lets the heap grow until all pods are carried, as nothing is to wait for the
	// garbage collector then; afterwards there is little garbage, and the heap is to stay small.
	startGCPercent = 400
	idleGCPercent  = 25
	// refreshEvery is how often stale neighbours are refreshed, idleRefreshEvery how often while
	// nothing is carried: the kernel forgets them after a minute.
	refreshEvery     = 5  // ticks
	idleRefreshEvery = 20 // ticks
)

// Main runs the daemon until ctx or the lifeline ends, and then removes the fast path.
// If another daemon takes over, or ctx ends with [ErrHandOver], it exits and removes nothing.
func Main(ctx context.Context, o Options) error {
	c, err := Load(o.Config)
	if err != nil {
		return verr.Wrap(verr.Usage, "cannot start a fast path", err,
			"give --config the file of a fast path; venturi itself writes it when it needs one")
	}
	defer debug.SetGCPercent(debug.SetGCPercent(startGCPercent))
	ctx, cancel := host.WithLifeline(ctx, o.Stdin)
	defer cancel()
	err = serve(ctx, c, o)
	if errors.Is(err, kernel.ErrLocked) {
		return verr.Wrap(verr.Busy, "cannot start a fast path", err, adviceTaken(o.Replace))
	}
	if err != nil {
		return verr.Wrap(verr.Failed, "the fast path failed", err, "all packets take the slow path now; run the command again")
	}
	return nil
}

// saveResources is called when all pods are carried. What loads the programs and reads all of the
// network takes the memory and the cores that it finds, so that nothing waits for it; then the
// daemon must not spread over the cores on which traffic is measured.
func saveResources() {
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(idleGCPercent)
	debug.FreeOSMemory()
	_ = host.ReleaseProgramFile() // if it fails, the daemon is as good, and larger
}

// adviceTaken says what to do if another daemon holds the pins.
func adviceTaken(replace bool) string {
	if replace {
		return "the daemon that holds these pins does not answer: end it (it may be stopped), or wait until it has exited, and run the command again"
	}
	return "another daemon holds these pins: end it, or give --replace to take over from it"
}

// daemon serves one fast path. Its main loop is [daemon.follow].
type daemon struct {
	*Config
	lock   *kernel.PinLock
	netns  *netcfg.Namespace
	objs   *bpf.Objects
	tables *tables
	flows  *flows
	epoch  *epoch
	lease  *lease.Lease
	events *eventQueue
	poller *topology.Poller

	topo         topology.Topology                                                            // what is carried: refused pods and next hops are left out
	readTopology func(topology.DeviceNames, topology.ProgramOwner) (topology.Topology, error) // [topology.Read]; tests replace it
	early        earlyRead                                                                    // of before the programs were loaded
	watcher      topology.Watcher
	bypassed     BypassedCounters // devices on the network's own path to topo's pods and peers
	complete     bool             // every pod that was there at the start has its programs
	whenComplete func()
	synced       bool // the tables are complete, and every attached program is this daemon's

	jiffy    time.Duration
	tick     uint32
	polls    int
	activity activity
	deadline uint64         // the last one written for the programs; 0: they carry nothing
	outdated topology.Cause // why the epoch is to be bumped before the next deadline, see [daemon.invalidate]; "": it is not

	attach                attachState
	audit                 auditState
	programs              programTracker
	neigh                 neighbourState
	prober                *kernel.ARPProber // nil: no probe was sent yet
	lastState, lastReport *State            // as written to the state file, and what of it is reported when it changes
	report                func(State)
	compared              func(shadow.Result)
}

// errReplaced ends a daemon from which another takes over.
var errReplaced = errors.New("another daemon takes over")

// ErrHandOver is the cause with which a context of [Main] ends so that another daemon can take over: the
// fast path stays, and carries nothing until then.
var ErrHandOver = errors.New("another process takes over")

func serve(ctx context.Context, c *Config, o Options) (err error) {
	d := newDaemon(c)
	d.report, d.compared = o.Report, o.Compared
	d.whenComplete = func() { d.watcher.Settle(); saveResources() }
	open := netcfg.CurrentNetns
	if c.Devices.Node {
		open = netcfg.OpenNode
	}
	if d.netns, err = open(); err != nil {
		return err
	}
	defer d.netns.Close()
	if d.jiffy, err = host.Jiffy(); err != nil {
		return err
	}
	if err := kernel.MountPins(c.Pins); err != nil {
		return err
	}
	if d.lock, err = kernel.AcquirePinLock(ctx, c.Pins, o.Replace); err != nil {
		return err
	}
	defer d.lock.Close()
	if err := errors.Join(netcfg.RestoreRCU(), kernel.MarkClsacts(d.netns, filepath.Dir(c.Pins))); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer d.close(cancel)
	if err := d.prepare(ctx); err != nil {
		return err
	}
	if end, err := d.objs.RevokeOnExit(); err == nil { // otherwise the programs stop at the deadline
		defer end.Close()
	}
	if err := d.start(); err != nil {
		return err
	}
	err = d.follow(ctx)
	switch {
	case errors.Is(err, errReplaced), err == nil && errors.Is(context.Cause(ctx), ErrHandOver):
		return d.lease.Set(0) // nobody follows the network until the next one does
	case errors.Is(err, kernel.ErrPinsRemoved):
		// What is there now is not this daemon's to remove.
		return errors.Join(err, d.lease.Set(0))
	}
	return errors.Join(err, d.stop())
}

func newDaemon(c *Config) *daemon {
	c.TC = c.TC || !kernel.HasTCX()
	c.Devices.Family = c.family()
	return &daemon{
		Config: c, readTopology: topology.Read, events: newEventQueue(), bypassed: bypassedDevices(c.Devices, topology.Topology{}),
		attach:   attachState{attached: map[string]bool{}},
		audit:    auditState{links: audit.NewNetfilterLinks(c.Devices.Family)},
		programs: programTracker{cache: map[ebpf.ProgramID]seenProgram{}},
	}
}

// follow is the main loop: it follows the network until ctx ends.
func (d *daemon) follow(ctx context.Context) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer func() { err = errors.Join(err, d.closeProber()) }()
	keeping, err := d.flows.start(ctx)
	if err != nil {
		return err
	}
	defer cancelAndWait(cancel, keeping) // releases the tables
	comparing := d.startShadow(ctx)
	defer cancelAndWait(cancel, comparing)
	heartbeats, polls := time.NewTicker(heartbeat), time.NewTimer(pollInterval)
	defer heartbeats.Stop()
	defer polls.Stop()
	auditDue, resync := time.After(0), (<-chan time.Time)(nil) // the first audit has the topology read
	resyncRest, auditRest := time.Now(), time.Now()
	for {
		err := error(nil)
		select {
		case <-ctx.Done():
			return nil
		case <-d.events.filled:
			var changed topology.Changes
			changed, err = d.events.drain()
			d.early.discard()
			if changed&topology.RulesChanged != 0 && auditDue == nil {
				auditDue = time.After(max(settle, time.Until(auditRest)))
			}
			if changed&topology.TopologyChanged != 0 && resync == nil {
				resync = time.After(max(settle, time.Until(resyncRest)))
			}
		case <-resync:
			begin := time.Now()
			resync, err = nil, d.resync()
			resyncRest = d.restAfterResync(begin)
		case <-auditDue:
			begin := time.Now()
			auditDue, err = d.auditRules()
			auditRest = restAfter(begin, auditRestFactor)
		case <-heartbeats.C:
			err = d.heartbeat()
		case <-polls.C:
			err = d.look()
			polls.Reset(d.nextPoll())
		case <-d.attachPending():
			err = d.attachNext()
		case err = <-d.watcher.Done:
		case err = <-keeping:
		case err = <-comparing:
		}
		if errors.Is(err, nlmsg.ErrInterrupted) {
			// What was learned may point to a pod or peer that is gone.
			d.audit.stale = interruptedReason
			resync, err = time.After(pollInterval), d.updateGate()
		}
		if err != nil {
			return err
		}
	}
}

// restAfter is the earliest time to read again what was read since begin: where there is much of
// it, and it changes all the time, the daemon must not read all the time.
func restAfter(begin time.Time, factor time.Duration) time.Time {
	now := time.Now()
	return now.Add(min(factor*now.Sub(begin), maxRest))
}

// restAfterResync is that of the topology: longer while there is so much that nothing may be carried.
func (d *daemon) restAfterResync(begin time.Time) time.Time {
	if d.topo.TooMany != "" {
		return time.Now().Add(tooManyRest)
	}
	return restAfter(begin, resyncRestFactor)
}

// cancelAndWait cancels a worker and waits until its channel is closed.
func cancelAndWait(cancel context.CancelFunc, done <-chan error) {
	cancel()
	for range done {
	}
}

// checkTakeover returns errReplaced if another daemon asks to take over.
func (d *daemon) checkTakeover() error {
	wanted, err := d.lock.TakeoverRequested()
	if wanted {
		return errReplaced
	}
	return err
}

// resync reads the topology, writes it to the tables, and plans which programs to attach. The first
// audit of the rules comes before it.
func (d *daemon) resync() error {
	if !d.audit.done {
		return nil
	}
	topo, err := d.takeTopology()
	if err == nil && topology.ConfsDiffer(d.topo, topo) {
		err = d.invalidate(topology.Sysctl)
	}
	if err == nil {
		d.topo, err = d.refuse(topo)
	}
	if err != nil {
		return err
	}
	d.programs.queue, d.neigh.unmeasured, d.neigh.confMTUs, d.neigh.confs = nil, topology.Topology{}, nil, nil
	d.bypassed = bypassedDevices(d.Devices, d.topo)
	d.events.setTopology(d.topo)
	if err := errors.Join(d.followBridges(), d.followTracking()); err != nil {
		return err
	}
	d.flows.tenant.Store(podTenant(d.topo)) // with another VNI, pods get new epochs, so flows with the old one are void
	if err := d.tables.sync(d.topo); err != nil {
		return err
	}
	if !d.synced {
		if err := d.replacePrograms(); err != nil {
			return err
		}
	}
	d.forgetFilters()
	d.planAttach()
	d.synced, d.audit.stale = true, ""
	return errors.Join(d.probeNewPods(), d.probeMissingFDB(), d.updateGate(), d.renewLease())
}

// heartbeat advances the tick and does the periodic work.
func (d *daemon) heartbeat() error {
	d.tick++
	if err := d.objs.Tick.Set(d.tick); err != nil {
		return err
	}
	if d.tick%checkEvery == 0 {
		if err := d.reattach(d.nextChecks()); err != nil {
			return err
		}
	}
	if d.tick%refreshEvery == 0 {
		if err := d.probeMissingFDB(); err != nil {
			return err
		}
	}
	if d.tick%refreshEvery == 0 && !d.activity.idle() || d.tick%idleRefreshEvery == 0 {
		if err := d.refreshNeighbours(); err != nil {
			return err
		}
	}
	if err := d.probeSomePods(); err != nil {
		return err
	}
	if d.resting() {
		if err := d.poll(); err != nil {
			return err
		}
	}
	return d.renewLease()
}

// stop revokes the lease, and then detaches and removes everything.
func (d *daemon) stop() error {
	err := d.lease.Set(0)
	if _, gone := d.lock.TakeoverRequested(); gone != nil {
		return errors.Join(err, gone)
	}
	detach, restore := expediteEach(d.detachPin)
	defer restore()
	return errors.Join(err, bpf.Remove(d.Pins, detach), kernel.RemoveClsacts(d.netns))
}
