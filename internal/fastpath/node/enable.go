package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/kernel"
	"github.com/venturi-net/venturi/internal/fastpath/shadow"
	"github.com/venturi-net/venturi/internal/journal"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/verr"
)

// Options of [Enable].
type Options struct {
	Open   func() (*journal.Journal, error) // opens the journal of this machine
	Reopen func() (*journal.Journal, error) // the same when carrying has ended, to record that: it may wait longer
	Trial  time.Duration                    // ends by itself after this time; 0: it does not
	Hold   func(txn int) error              // sees to it that a trial is undone, whatever becomes of this process
	Report func(fastpath.State)             // called when the state changes
	// Shadow is run first; without flows it is not. If packets differ, nothing is carried.
	Shadow     ShadowOptions
	ReportIPv6 func(fastpath.State) // as Report, of what is carried of IPv6
	// Replace takes over from the process that is here, if there is one. No packet is lost, and there is
	// no shadow if that process has carried.
	Replace bool
	Choice  *Choice // kept for a process that takes over; nil: nobody will
}

// ErrReplaced ends [Enable] when another process has taken over: what is there belongs to that one.
var ErrReplaced = errors.New("another process has taken over the fast path")

// holdMargin is how much longer than a trial its lease is: the trial ends by itself.
const holdMargin = 10 * time.Second

// Configs say what is carried of each version of IP, by a daemon of its own; nil: nothing.
type Configs struct{ IPv4, IPv6 *fastpath.Config }

// FamilyStats are what became of packets, by the version of IP.
type FamilyStats struct {
	IPv4, IPv6 []fastpath.Stat
	Disabled   bool // somebody has disabled it, whatever else has ended it
}

// Enable carries flows of the network namespace that this process is in, until ctx or a trial
// ends, or somebody disables it. Then it removes everything, and gives what became of packets. If
// the shadow finds that packets differ, nothing is carried, and the error says how.
func Enable(ctx context.Context, c Configs, o Options) (stats FamilyStats, err error) {
	disabled, err := install(ctx, o, func(f files, carried bool) error {
		if o.Shadow.Flows > 0 && !carried {
			if carry, err := f.compareFirst(ctx, c, o); !carry || err != nil {
				return err
			}
		}
		ctx, cancel := ctx, context.CancelFunc(func() {})
		if o.Trial > 0 {
			ctx, cancel = context.WithTimeout(ctx, o.Trial)
		}
		defer cancel()
		carry := func(ctx context.Context) error { return f.carry(ctx, c, o) }
		return f.serve(ctx, carry, func() {
			stats.IPv4, _ = fastpath.ReadStats(f.pins) // of one that failed, or is not there, there are none
			stats.IPv6, _ = fastpath.ReadStats(f.ipv6().pins)
			markIPv6(stats.IPv6)
		})
	})
	stats.Disabled = disabled
	return stats, err
}

// install makes the folder of a fast path, recorded in the journal, and removes it when run has
// returned, unless another process has taken over. run gets its files, and whether another process,
// from which this one has taken over, has carried until now. It tells whether somebody else has undone it, or asked to.
func install(ctx context.Context, o Options, run func(f files, carried bool) error) (disabled bool, err error) {
	f, err := ownFiles()
	if err != nil {
		return false, err
	}
	held, err := begin(ctx, f, o)
	if err != nil {
		return false, err
	}
	if err = errors.Join(netcfg.ReplaceJSON(f.process, os.Getpid()), netcfg.ReplaceJSON(f.choice, o.Choice)); err == nil {
		err = run(f, held.carried)
	}
	if errors.Is(err, ErrReplaced) {
		return false, errors.Join(err, held.lock.Close())
	}
	err = errors.Join(err, kernel.UnmountPins(f.folder))
	disabled = f.stopRequested() // afterwards whoever asks removes the folder
	err = errors.Join(err, held.lock.Close())
	undone, failed := end(o.Reopen, held.txn)
	return disabled || undone, errors.Join(err, failed)
}

// holding is what the process that carries holds.
type holding struct {
	txn     int
	lock    *os.File // of the folder
	carried bool     // another process, from which it has taken over, has carried
}

// serve runs daemons until ctx ends, somebody asks to end, they fail, or another process takes over.
// last is called before they are ended. Whoever asks sees that they are ending.
func (f files) serve(ctx context.Context, daemons func(context.Context) error, last func()) error {
	if err := kernel.RemoveFiles(f.ending); err != nil { // of a shadow
		return err
	}
	waiting, stopWaiting := context.WithCancel(ctx)
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	done := make(chan error, 1)
	go func() {
		defer stopWaiting()
		done <- daemons(serving)
	}()
	f.untilStopped(waiting)
	select {
	case err := <-done:
		return cmp.Or(err, ErrReplaced)
	default:
	}
	last()
	failed := netcfg.ReplaceJSON(f.ending, true)
	stop()
	return errors.Join(failed, <-done)
}

// daemon runs the daemon that has these files, until ctx ends or another one takes over.
func (f files) daemon(ctx context.Context, c fastpath.Config, report func(fastpath.State), compared func(shadow.Result)) error {
	c.Pins, c.State = f.pins, f.state
	if err := c.Write(f.config); err != nil {
		return err
	}
	report, stopReports := latest(report)
	defer stopReports()
	return fastpath.Main(ctx, fastpath.Options{Config: f.config, Report: report, Compared: compared})
}

// latest hands what a function is called with to report, in order, and leaves out what is
// outdated by the time that report returns: nobody may hold up the daemon, such as a terminal
// that is stopped. The second function is called when no more come.
func latest(report func(fastpath.State)) (func(fastpath.State), func()) {
	if report == nil {
		return nil, func() {}
	}
	states := make(chan fastpath.State, 1)
	go func() {
		for s := range states {
			report(s)
		}
	}()
	return func(s fastpath.State) {
		select {
		case <-states:
		default:
		}
		states <- s // one goroutine sends, so there is room
	}, func() { close(states) }
}

// begin records that the fast path comes, and makes its folder. What killed daemons have left is
// removed first. If another process is here, it takes over from it, or refuses to.
func begin(ctx context.Context, f files, o Options) (holding, error) {
	j, err := o.Open()
	if err != nil {
		return holding{}, err
	}
	defer j.Close()
	removeOrphans(Root)
	carries, err := kernel.Locked(f.folder)
	switch {
	case err != nil:
		return holding{}, err
	case !carries:
		txn, lock, err := record(ctx, j, f, o)
		return holding{txn, lock, false}, err
	case !o.Replace:
		return holding{}, verr.New(verr.Busy, cannotEnable, "it is enabled here already",
			"see it with: venturi fastpath status; take over from it with --replace; or end it with: venturi fastpath disable")
	}
	return f.takeOver(ctx, j)
}

const cannotEnable = "cannot enable the fast path"

// record records in the journal that the fast path comes, and makes its folder.
func record(ctx context.Context, j *journal.Journal, f files, o Options) (txn int, lock *os.File, err error) {
	if _, err := undo(j); err != nil {
		return 0, nil, err
	}
	s, err := ownSetting()
	if err != nil {
		return 0, nil, err
	}
	lease := time.Duration(0)
	if o.Trial > 0 {
		lease = o.Trial + 2*o.Shadow.Limit + holdMargin // one for each version of IP
	}
	tx, err := j.BeginProof(lease) // a trial ends, whatever anybody confirms
	if err != nil {
		return 0, nil, err
	}
	if o.Trial > 0 {
		err = o.Hold(tx.ID())
	}
	if err == nil {
		_, err = tx.Set("fastpath", setting.Write{Setting: s, Value: setting.Text(enabled)})
	}
	if err == nil {
		lock, err = kernel.LockFolder(ctx, f.folder)
	}
	if err := errors.Join(err, tx.End()); err != nil {
		err = errors.Join(err, undoTxns(j, []int{tx.ID()}))
		return 0, nil, verr.Wrap(verr.Failed, cannotEnable, err, "see what is left with: venturi fastpath status; and remove it with: venturi fastpath disable")
	}
	return tx.ID(), lock, nil
}

// end undoes a transaction, if nobody else has. It tells whether somebody has.
func end(open func() (*journal.Journal, error), txn int) (undone bool, err error) {
	j, err := open()
	if err != nil {
		return false, err
	}
	defer j.Close()
	for _, t := range j.History().Txns {
		if t.ID == txn && t.Open() {
			return false, undoTxns(j, []int{txn})
		}
	}
	return true, nil
}

// RequestStop asks the process that carries flows of this network namespace to end, if there is one. It does
// so at once, whoever has the journal open; [Disable] waits for it, and removes what it leaves. It tells whether there is
// a fast path, be it only what a killed process has left.
func RequestStop() (is bool, err error) {
	f, err := ownFiles()
	if err != nil {
		return false, err
	}
	v, err := read()
	if err != nil || !v.Present {
		return false, err
	}
	if held, err := kernel.Locked(f.folder); err != nil || !held {
		return true, err
	}
	return true, f.requestStop()
}

// Disable removes the fast path of the network namespace that this process is in, whatever became
// of its daemon. It tells whether there was one.
func Disable(j *journal.Journal) (was bool, err error) {
	removeOrphans(Root)
	return undo(j)
}

// undo undoes what the journal has of the fast path of this namespace.
func undo(j *journal.Journal) (was bool, err error) {
	v, err := read()
	if err != nil {
		return false, err
	}
	s, err := ownSetting()
	if err != nil {
		return false, err
	}
	var txns []int
	for _, t := range openTxns(j, s) {
		txns = append(txns, t.ID)
	}
	switch {
	case len(txns) > 0: // if there is none any more, the machine was started anew since
		return v.Present, undoTxns(j, txns)
	case v.Present: // its journal is another one, or lost
		return true, write(setting.Value{})
	}
	return false, nil
}

// openTxns are the transactions that may have something of a setting to undo.
func openTxns(j *journal.Journal, s setting.Setting) (txns []*journal.Txn) {
	for _, t := range j.History().Txns {
		for _, e := range t.Entries {
			if e.State.Open() && e.Setting.ID() == s.ID() {
				txns = append(txns, t)
			}
		}
	}
	return txns
}

func undoTxns(j *journal.Journal, txns []int) error {
	outcomes, err := j.Undo(txns, journal.UndoOptions{})
	for _, out := range outcomes {
		if out.Err != nil {
			err = errors.Join(err, fmt.Errorf("undo transaction %v: %w", txns, out.Err))
		}
	}
	return err
}
