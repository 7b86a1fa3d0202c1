package tune

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/journal"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/internal/verr"
)

// leasePoll is how often the holder of a lease looks whether there is still something
// to wait for.
const leasePoll = time.Second

// HolderArgs are the arguments of the command that holds the lease of a
// transaction in a journal's folder. By them others find it.
func HolderArgs(folder string, txn int) []string {
	return []string{"lease", "--journal", folder, "--txn", strconv.Itoa(txn)}
}

// maxPause is how long the holder of a lease waits at most until it tries
// again what went wrong.
const maxPause = time.Minute

// Hold waits for the end of a transaction's lease and undoes it then. The lease of one that
// was not written to its end is over as soon as its writer is gone. Hold returns
// when there is nothing to wait for any more: the transaction was confirmed or
// undone, or its journal is gone; or all that is left of it somebody else has
// changed. What else goes wrong it tries again and again, for nobody else undoes
// it. When ctx ends it returns, and undoes nothing. Open opens the journal.
func Hold(ctx context.Context, folder string, txn int, open func() (*journal.Journal, error)) error {
	for pause := leasePoll; ; pause = min(2*pause, maxPause) {
		over, err := hold(ctx, folder, txn, open)
		if over {
			return err
		}
		if verr.Code(err) == verr.Busy {
			pause = leasePoll // who has the journal may be done any time
		}
		if err := host.Sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// hold waits and undoes, and tells whether it is over.
func hold(ctx context.Context, folder string, txn int, open func() (*journal.Journal, error)) (over bool, err error) {
	for {
		h, err := journal.ReadHistory(folder)
		if err != nil {
			return false, err
		}
		t := pendingLease(h, txn)
		if t == nil {
			return true, nil
		}
		now, err := host.SinceBootAsleep()
		if err != nil {
			return false, err
		}
		if now >= t.Lease.Until || !t.Ended && !journal.InUse(folder) {
			break
		}
		if err := host.Sleep(ctx, min(leasePoll, t.Lease.Until-now)); err != nil {
			return true, err
		}
	}
	j, err := open()
	if err != nil {
		return false, err
	}
	defer j.Close()
	t := pendingLease(j.History(), txn)
	if t == nil {
		return true, nil // confirmed while the journal was waited for
	}
	if now, err := host.SinceBootAsleep(); err != nil || t.Ended && now < t.Lease.Until {
		return false, err // its writer was about to end it
	}
	outcomes, err := j.Undo([]int{txn}, journal.UndoOptions{})
	over, failed := err == nil, []error{err}
	for _, o := range outcomes {
		failed = append(failed, o.Err)
		var conflict *journal.ConflictError
		over = over && (o.Err == nil || errors.As(o.Err, &conflict))
	}
	return over, errors.Join(failed...)
}

// UndoExpired undoes the leases that the machine's last start has ended: those who
// were to undo them ended with it. It gives what became of each of their writes.
func UndoExpired(j *journal.Journal) (ended []int, outcomes []journal.Outcome, err error) {
	expired, err := j.Expired()
	if err != nil {
		return nil, nil, err
	}
	boot, err := host.BootID()
	if err != nil {
		return nil, nil, err
	}
	for _, t := range j.History().Txns {
		if t.Boot != boot && slices.Contains(expired, t.ID) {
			ended = append(ended, t.ID)
		}
	}
	if len(ended) == 0 {
		return nil, nil, nil // none named would mean all
	}
	outcomes, err = j.Undo(ended, journal.UndoOptions{})
	return ended, outcomes, err
}

// pendingLease gives a transaction whose lease is still to end; nil: there is none.
func pendingLease(h journal.History, txn int) *journal.Txn {
	for _, t := range h.Txns {
		done := t.Lease == nil || !t.Confirmed.IsZero() || t.Ended && !t.Open()
		if t.ID == txn && !done {
			return t
		}
	}
	return nil
}

// Lease is a transaction with a lease that nobody has confirmed, and that was
// not undone.
type Lease struct {
	Txn       int
	Proof     bool          // it is of a proof, and nothing to keep
	Remaining time.Duration // until its lease ends; 0 or less: it has ended
	Rebooted  bool          // the machine was rebooted since, which ended the lease
	HasHolder bool          // a process is there that undoes it when its lease ends
}

// OpenLeases lists the transactions of a journal that are on trial, or of a proof.
func OpenLeases(h journal.History, folder string) ([]Lease, error) {
	now, err := host.SinceBootAsleep()
	if err != nil {
		return nil, err
	}
	boot, err := host.BootID()
	if err != nil {
		return nil, err
	}
	var trials []Lease
	for _, t := range h.Txns {
		if t.Lease == nil || !t.Confirmed.IsZero() || !t.Open() {
			continue
		}
		trial := Lease{Txn: t.ID, Proof: t.OfProof(), Remaining: t.Lease.Until - now, Rebooted: t.Boot != boot}
		if trial.HasHolder, err = hasHolder(folder, t.ID); err != nil {
			return nil, err
		}
		trials = append(trials, trial)
	}
	return trials, nil
}

// hasHolder tells whether there is a process that holds the lease of a transaction: one
// of root's, or of the user whose journal it is. Anybody can start one that is called so.
func hasHolder(folder string, txn int) (bool, error) {
	processes, err := sanitize.Files("/proc", "[0-9]*")
	if err != nil {
		return false, fmt.Errorf("list processes: %w", err)
	}
	info, err := os.Stat(folder)
	if err != nil {
		return false, err
	}
	owner := info.Sys().(*syscall.Stat_t).Uid
	want := HolderArgs(folder, txn)
	for _, p := range processes {
		pid, err := strconv.Atoi(filepath.Base(p))
		if err != nil || pid == os.Getpid() {
			continue
		}
		command := (host.Reader{}).Command(pid)
		if len(command) < 2 || !slices.Equal(command[1:], want) {
			continue
		}
		if uid, ok := (host.Reader{}).RealUID(pid); ok && (uid == 0 || uid == owner) {
			return true, nil
		}
	}
	return false, nil
}
