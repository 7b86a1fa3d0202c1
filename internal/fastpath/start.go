package fastpath

import (
	"context"
	"errors"

	"github.com/venturi-net/venturi/internal/fastpath/audit"
	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/fastpath/lease"
	"github.com/venturi-net/venturi/internal/fastpath/topology"
)

// firstPods is how many pods are read before anything is attached, so that the first one need not
// wait for all of them.
const firstPods = 16

// earlyRead is what was read of the network while the programs were loaded. It holds until there is
// an event.
type earlyRead struct {
	reader *topology.TableReader // nil: nothing holds any more
	topo   *topology.Topology    // of the first pods; nil: it was taken
	rules  *rulesRead            // nil: they were taken
}

// rulesRead is what a read of the rules gave.
type rulesRead struct {
	audit  audit.RulesetAudit
	reason string // why flows may not bypass them, such as that their verdict on a packet may not hold for the next one; "": flows may
	unread bool   // they could not be read, which is the reason: most likely they changed meanwhile
}

func (e *earlyRead) discard() {
	if e.reader != nil {
		e.reader.Close()
	}
	*e = earlyRead{}
}

// takeTopology gives the topology: first that of some pods, then that of all, from the tables that
// were read early, and then whatever the kernel says.
func (d *daemon) takeTopology() (topology.Topology, error) {
	if first := d.early.topo; first != nil {
		d.early.topo = nil
		return *first, nil
	}
	if reader := d.early.reader; reader != nil {
		defer d.early.discard()
		return reader.Read(topology.AllPods)
	}
	return d.readTopology(d.Devices, d.programs.owns)
}

// prepare loads the programs, and reads the network meanwhile.
func (d *daemon) prepare(ctx context.Context) error {
	loaded := make(chan error, 1)
	go func() {
		objs, err := d.load()
		d.objs = objs
		loaded <- err
	}()
	err := d.openPoller()
	if err == nil {
		err = d.watch(ctx)
	}
	if err == nil {
		d.readEarly()
	}
	return errors.Join(err, <-loaded)
}

// readEarly reads what the first pods need. What cannot be read now is read later.
func (d *daemon) readEarly() {
	reader, err := topology.OpenTableReader(d.watcher.Tables, d.Devices, d.programs.owns)
	if err != nil {
		return
	}
	d.early.reader = reader
	if topo, err := reader.Read(firstPods); err == nil {
		d.early.topo = &topo
	}
	if rules, err := d.readRules(); err == nil {
		d.early.rules = &rules
	}
}

// watch starts to listen to changes of the network.
func (d *daemon) watch(ctx context.Context) (err error) {
	d.watcher, err = topology.Watch(ctx, d.Devices.Family, d.programs.owns, d.events.push)
	return err
}

// close ends what [daemon.prepare] has started. A daemon that takes over must be the only one that
// bumps the epoch.
func (d *daemon) close(cancel context.CancelFunc) {
	cancel()
	if d.watcher.Done != nil {
		cancelAndWait(cancel, d.watcher.Done)
	}
	d.early.discard()
	if d.poller != nil {
		d.closePoller()
	}
	if d.objs != nil {
		d.objs.Close()
	}
}

// load loads the programs, and adopts the tables that an earlier daemon has pinned, or detaches its programs if these
// tables do not fit.
func (d *daemon) load() (*bpf.Objects, error) {
	detach, restore := expediteEach(d.detachPin)
	defer restore()
	return bpf.New(d.Kind, bpf.Options{Pins: d.Pins, Detach: detach, Stamp: d.Stamp, NoNAT: d.NoNAT, Shadow: d.Shadow}, d.Port)
}

// start revokes the lease and bumps the epoch, so that nothing is carried before this
// daemon has filled the tables, not even by programs of an earlier daemon, and nothing
// that was learned before is valid afterwards.
func (d *daemon) start() (err error) {
	if d.epoch, err = newEpoch(d.objs); err != nil {
		return err
	}
	d.flows = newFlows(d.objs, d.netns, d.epoch)
	d.lease = lease.New(d.objs, uint64(auditLimit/d.jiffy))
	if err := errors.Join(d.lease.Set(0), d.events.bumpBy(d.epoch, d.lease), d.objs.Tick.Get(&d.tick)); err != nil {
		return err
	}
	d.outdated = causeStart
	d.tables = newTables(d.objs, d.epoch.value)
	d.audit.perPacket = notAuditedYet
	d.readSysctls()
	if err := d.objs.SetUnreplied(false, false); err != nil {
		return err
	}
	if err := d.programs.loadOwn(d.objs); err != nil {
		return err
	}
	if err := d.poll(); err != nil {
		return err
	}
	return d.writeState() // replaces the state of an earlier daemon
}
