package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/kernel"
	"github.com/venturi-net/venturi/internal/journal"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/verr"
)

// Options of [Enable].
type Options struct {
	Open   func() (*journal.Journal, error) // opens the journal of this machine
	Trial  time.Duration                    // ends by itself after this time; 0: it does not
	Hold   func(txn int) error              // sees to it that a trial is undone, whatever becomes of this process
	Report func(fastpath.State)             // called when the state changes
}

// holdMargin is how much longer than a trial its lease is: the trial ends by itself.
const holdMargin = 10 * time.Second

// Enable carries flows of the network namespace that this process is in, until ctx or a trial
// ends, or somebody disables it. Then it removes everything, and gives what became of packets.
func Enable(ctx context.Context, c fastpath.Config, o Options) (stats []fastpath.Stat, err error) {
	f, err := ownFiles()
	if err != nil {
		return nil, err
	}
	txn, lock, err := begin(ctx, f, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, end(o.Open, txn)) }()
	defer lock.Close()
	defer func() { err = errors.Join(err, kernel.UnmountPins(f.folder)) }()
	c.Pins, c.State = f.pins, f.state
	if err := errors.Join(c.Write(f.config), netcfg.ReplaceJSON(f.process, os.Getpid())); err != nil {
		return nil, err
	}
	if o.Trial > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.Trial)
		defer cancel()
	}
	waiting, stopWaiting := context.WithCancel(ctx)
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	done := make(chan error, 1)
	report, stopReports := latest(o.Report)
	defer stopReports()
	go func() {
		defer stopWaiting()
		done <- fastpath.Main(serving, fastpath.Options{Config: f.config, Report: report})
	}()
	f.untilStopped(waiting)
	if serving.Err() == nil {
		stats, _ = fastpath.ReadStats(f.pins) // of one that failed there may be none
	}
	stop()
	return stats, <-done
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

// begin records that the fast path comes, and makes its folder. What a killed daemon has left is
// removed first.
func begin(ctx context.Context, f files, o Options) (txn int, lock *os.File, err error) {
	const what = "cannot enable the fast path"
	j, err := o.Open()
	if err != nil {
		return 0, nil, err
	}
	defer j.Close()
	held, err := kernel.Locked(f.folder)
	if err != nil {
		return 0, nil, err
	}
	if held {
		return 0, nil, verr.New(verr.Busy, what, "it is enabled here already", "see it with: venturi fastpath status; or end it with: venturi fastpath disable")
	}
	if _, err := undo(j); err != nil {
		return 0, nil, err
	}
	s, err := ownSetting()
	if err != nil {
		return 0, nil, err
	}
	lease := time.Duration(0)
	if o.Trial > 0 {
		lease = o.Trial + holdMargin
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
		return 0, nil, verr.Wrap(verr.Failed, what, err, "see what is left with: venturi fastpath status; and remove it with: venturi fastpath disable")
	}
	return tx.ID(), lock, nil
}

// end undoes a transaction, if nobody else has.
func end(open func() (*journal.Journal, error), txn int) error {
	j, err := open()
	if err != nil {
		return err
	}
	defer j.Close()
	for _, t := range j.History().Txns {
		if t.ID == txn && t.Open() {
			return undoTxns(j, []int{txn})
		}
	}
	return nil
}

// Disable removes the fast path of the network namespace that this process is in, whatever became
// of its daemon. It tells whether there was one.
func Disable(j *journal.Journal) (was bool, err error) { return undo(j) }

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
	for _, t := range j.History().Txns {
		for _, e := range t.Entries {
			if e.State.Open() && e.Setting.ID() == s.ID() {
				txns = append(txns, t.ID)
			}
		}
	}
	switch {
	case len(txns) > 0: // if there is none any more, the machine was started anew since
		return v.Present, undoTxns(j, txns)
	case v.Present: // its journal is another one, or lost
		return true, write(setting.Value{})
	}
	return false, nil
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
