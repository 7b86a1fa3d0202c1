// Package fastpath is the daemon of a fast path: it attaches the programs of
// [internal/fastpath/bpf] on a machine, tells them who is where, and ends what they have
// learned when the machine's network changes.
//
// It lives in the machine's network namespace, is told what to do by a file
// ([Config]), says how things are in another ([State]), and ends when its
// standard input does. The programs do without it for a few seconds; then they
// leave everything to the slow path, until a daemon comes back and takes over
// what is pinned.
package fastpath

import (
	"context"
	"errors"
	"io"
	"maps"
	"reflect"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"github.com/cilium/ebpf"

	"github.com/venturi-net/venturi/internal/fastpath/audit"
	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/fastpath/kernel"
	"github.com/venturi-net/venturi/internal/fastpath/topology"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/nlmsg"
	"github.com/venturi-net/venturi/internal/verr"
)

// Options say which daemon to be.
type Options struct {
	Config string    // file that holds a [Config]
	Stdin  io.Reader // the lifeline; see [host.WithLifeline]
	// Replace takes over from the daemon that lives there. It ends, and leaves in
	// place what is attached.
	Replace bool
}

const (
	// beat is how often the daemon says that it lives.
	beat = time.Second
	// grace is for how long programs carry packets on its last word.
	grace = 4 * time.Second
	// gather is how long news of the network waits for more of it.
	gather = 5 * time.Millisecond
	// glance is how often that is looked at whose changes nobody tells.
	glance = 50 * time.Millisecond
	// checkEvery is how often attached programs are looked for, at checksAtOnce
	// places at a time.
	checkEvery   = 10 // ticks
	checksAtOnce = 64
	// confirmEvery is how often it is looked whether neighbours are still there.
	confirmEvery = 3 // ticks
)

// Main is the daemon: it runs until ctx ends or the lifeline does, and then takes
// the fast path away; or until another is to replace it, and leaves it to that.
func Main(ctx context.Context, o Options) error {
	c, err := Load(o.Config)
	if err != nil {
		return verr.Wrap(verr.Usage, "cannot start a fast path", err,
			"give --config the file of a fast path; venturi itself writes it when it needs one")
	}
	// It must not spread over the cores that traffic is measured on.
	runtime.GOMAXPROCS(1)
	ctx, cancel := host.WithLifeline(ctx, o.Stdin)
	defer cancel()
	err = serve(ctx, c, o.Replace)
	if errors.Is(err, kernel.ErrTaken) {
		return verr.Wrap(verr.Busy, "cannot start a fast path", err, adviceTaken(o.Replace))
	}
	if err != nil {
		return verr.Wrap(verr.Failed, "the fast path ended badly", err, "everything goes the slow way now; run the command again")
	}
	return nil
}

// adviceTaken is what to do about another daemon that has the pins.
func adviceTaken(replace bool) string {
	if replace {
		return "the daemon that serves these pins does not answer: end it (it may be stopped), or wait until it has ended, and run the command again"
	}
	return "another daemon serves these pins: end it, or give --replace to take over from it"
}

// daemon is what it holds.
type daemon struct {
	*Config
	seat     *kernel.Seat
	space    *netcfg.Namespace
	fast     *bpf.Fast
	tables   *tables
	flows    *flows
	policy   *policy
	inbox    *inbox
	jiffy    time.Duration
	tick     uint32
	attached map[string]bool // by pin; false: somebody has detached it
	missing  []place         // programs to be attached, in this order
	spare    []string        // pins of programs to be detached
	deadline uint64          // that the programs were told last; 0: they are to do nothing
	synced   bool            // everybody was told of, and every program that is attached is this daemon's
	off      string          // why nothing is carried: legacy, fickle, torn, or routes that are fickle
	told     *State
	readWays func(topology.DeviceNames) (topology.Topology, error) // [host.ReadWays], but in tests

	unsaid       *topology.Poller
	links        filterLinks // where hooks are not told
	legacy       string      // what judges packets, and tells nobody of its changes
	fickle       string      // rules that no verdict can be learned from
	waits        *string     // why flows wait for a reply; nil: that is not known yet, and they do
	torn         string      // tables that could not be read
	rulings      audit.RulesetAudit
	ways         topology.Topology // of what is carried
	names        []string          // of our programs
	ids          []ebpf.ProgramID
	revisions    map[hook]uint64
	programNames map[ebpf.ProgramID]string
	settings     []string                      // that rules and headers depend on, as they were last
	asked        map[topology.Neighbour]uint32 // when they were, in ticks
	turn         []hook                        // to be looked at next
	objects      topology.BPFObjectIDs         // of the machine
	suspect      int                           // looks that are to be at all places
	rested       time.Time                     // when the next of these may be
	unmeasured   topology.Topology             // of them, pods and peers to be measured next
	unchecked    []string                      // pins to be looked at next
}

// errReplaced is why a daemon ends that another takes over from.
var errReplaced = errors.New("another daemon takes over")

func serve(ctx context.Context, c *Config, replace bool) (err error) {
	d := newDaemon(c)
	if d.space, err = netcfg.CurrentNetns(); err != nil {
		return err
	}
	defer d.space.Close()
	if d.jiffy, err = host.Jiffy(); err != nil {
		return err
	}
	if err := kernel.PinFolder(c.Pins); err != nil {
		return err
	}
	if d.seat, err = kernel.TakeSeat(ctx, c.Pins, replace); err != nil {
		return err
	}
	defer d.seat.Close()
	if d.fast, err = d.load(); err != nil {
		return err
	}
	defer d.fast.Close()
	if end, err := d.fast.EndWithProcess(); err == nil { // else programs find out at the deadline
		defer end.Close()
	}
	if d.unsaid, err = topology.OpenPoller(); err != nil {
		return err
	}
	defer d.unsaid.Close()
	if err := d.begin(); err != nil {
		return err
	}
	debug.FreeOSMemory() // what it took to load the programs
	err = d.follow(ctx)
	switch {
	case errors.Is(err, errReplaced):
		return nil
	case errors.Is(err, kernel.ErrNoFolder):
		// What is at its place is not this daemon's to take away.
		return errors.Join(err, d.fast.Deadline.Set(uint64(0)))
	}
	return errors.Join(err, d.end())
}

func newDaemon(c *Config) *daemon {
	c.TC = c.TC || !kernel.HasTCX()
	return &daemon{Config: c, attached: map[string]bool{}, programNames: map[ebpf.ProgramID]string{}, readWays: topology.Read}
}

// load loads the programs, with what is pinned of a daemon before.
func (d *daemon) load() (*bpf.Fast, error) {
	o := bpf.Options{Pins: d.Pins, Detach: d.detachPin, Stamp: d.Stamp}
	if d.Kind == VXLAN {
		return bpf.NewVXLAN(o, d.Port)
	}
	return bpf.NewRouted(o)
}

// begin makes sure that nothing is carried until this daemon knows everybody, by
// programs of a daemon before neither, and that nothing holds then that was learned
// before.
func (d *daemon) begin() (err error) {
	if d.policy, err = newPolicy(d.fast); err != nil {
		return err
	}
	d.inbox, d.flows = newInbox(d.policy), newFlows(d.fast, d.space, d.policy)
	if err := errors.Join(d.fast.Deadline.Set(uint64(0)), d.policy.raise(), d.fast.Tick.Get(&d.tick)); err != nil {
		return err
	}
	d.tables = newTables(d.fast, d.policy.epoch)
	d.fickle, d.settings = unread, d.unsaid.Sysctls()
	if err := d.fast.SetUnreplied(false); err != nil {
		return err
	}
	if err := d.ownNames(); err != nil {
		return err
	}
	if err := d.glance(); err != nil {
		return err
	}
	return d.tell() // whatever the daemon before has said
}

// follow follows the network until ctx ends.
func (d *daemon) follow(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watching, err := topology.Watch(ctx, d.inbox.put)
	if err != nil {
		return err
	}
	defer finish(cancel, watching) // a daemon that takes over must be the only one to raise the epoch
	keeping, err := d.flows.keep(ctx)
	if err != nil {
		return err
	}
	defer finish(cancel, keeping) // it lets go of the tables
	beats, glances := time.NewTicker(beat), time.NewTicker(glance)
	defer beats.Stop()
	defer glances.Stop()
	resync, judge, rested := time.After(0), time.After(0), time.Now()
	for {
		err := error(nil)
		select {
		case <-ctx.Done():
			return nil
		case <-d.inbox.filled:
			var changed topology.Changes
			changed, err = d.inbox.take()
			if changed&topology.RulesChanged != 0 && judge == nil {
				judge = time.After(max(gather, time.Until(rested)))
			}
			if changed&topology.TopologyChanged != 0 && resync == nil {
				resync = time.After(gather)
			}
		case <-resync:
			resync, err = nil, d.resync()
		case <-judge:
			var rest time.Duration
			judge, rest, err = d.judge()
			rested = time.Now().Add(rest)
		case <-beats.C:
			err = d.beat()
		case <-glances.C:
			if err = d.yield(); err == nil {
				err = d.glance()
			}
		case <-d.unattached():
			err = d.attachNext()
		case err = <-watching:
		case err = <-keeping:
		}
		if errors.Is(err, nlmsg.ErrInterrupted) {
			// What was learned may lead where nobody is any more.
			d.torn = torn
			resync, err = time.After(glance), d.judged()
		}
		if err != nil {
			return err
		}
	}
}

// finish ends what goes on until its context does, and waits for that.
func finish(cancel context.CancelFunc, done <-chan error) {
	cancel()
	for range done {
	}
}

// yield ends the daemon if another is to replace it.
func (d *daemon) yield() error {
	wanted, err := d.seat.Look()
	if wanted {
		return errReplaced
	}
	return err
}

// resync reads where everybody is, tells the programs, and finds out where they are not
// attached yet.
func (d *daemon) resync() error {
	ways, err := d.readWays(d.Devices)
	if err == nil {
		d.ways, err = d.refuse(ways)
	}
	if err != nil {
		return err
	}
	d.turn, d.unmeasured = nil, topology.Topology{}
	d.inbox.know(d.ways)
	if err := d.tables.sync(d.ways); err != nil {
		return err
	}
	d.flows.of(d.tables.tenants())
	if !d.synced {
		if err := d.takeOver(); err != nil {
			return err
		}
	}
	if d.plan(); d.TC {
		// Filters go with their qdisc, of which there was news maybe.
		if err := d.reattach(slices.Collect(maps.Keys(d.attached))); err != nil {
			return err
		}
	}
	d.synced, d.torn = true, ""
	return errors.Join(d.askNew(), d.askUnplaced(), d.judged(), d.beatOnce())
}

// tell writes the state, where it has changed.
func (d *daemon) tell() error {
	waiting := d.waiting()
	now := &State{Off: d.off, Unreplied: d.unreplied(), Pods: len(d.tables.pods) - waiting, Waiting: waiting, Peers: len(d.tables.peers), Refused: d.ways.Refusals}
	if reflect.DeepEqual(now, d.told) {
		return nil
	}
	d.told = now
	return now.write(d.State)
}

// unreplied says why flows wait for a reply.
func (d *daemon) unreplied() string {
	if d.waits == nil {
		return ""
	}
	return *d.waits
}

func (d *daemon) beat() error {
	d.tick++
	if err := d.fast.Tick.Set(d.tick); err != nil {
		return err
	}
	if d.tick%checkEvery == 0 {
		if err := d.reattach(d.nextChecks()); err != nil {
			return err
		}
	}
	if d.tick%confirmEvery == 0 {
		if err := errors.Join(d.confirm(), d.askUnplaced()); err != nil {
			return err
		}
	}
	if err := d.askSome(); err != nil {
		return err
	}
	return d.beatOnce()
}

// beatOnce gives the programs some more time, unless nothing must be carried. If they
// have given up meanwhile, then this daemon was held up for so long that it cannot
// answer for what was learned before: the news of it wait to be read.
func (d *daemon) beatOnce() error {
	now, err := d.fast.Now()
	if err != nil {
		return err
	}
	if d.deadline != 0 && now >= d.deadline {
		if err := d.policy.raise(); err != nil {
			return err
		}
	}
	d.deadline = 0
	if d.off == "" && d.synced {
		d.deadline = now + uint64(grace/d.jiffy)
	}
	if err := d.fast.Deadline.Set(d.deadline); err != nil {
		return err
	}
	return d.tell()
}

// end takes everything away: first what carries, so that nothing is learned that
// nobody follows.
func (d *daemon) end() error {
	err := d.fast.Deadline.Set(uint64(0))
	if _, gone := d.seat.Look(); gone != nil {
		return errors.Join(err, gone)
	}
	return errors.Join(err, bpf.Remove(d.Pins, d.detachPin), kernel.DropClsacts(d.space, d.Pins))
}
