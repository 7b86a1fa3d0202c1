package netcfg

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Of the whole host: whether every wait for an RCU grace period is as short as it can be
// (Documentation/ABI/testing/sysfs-kernel-rcu), what records that it was not, and the folder whose
// lock orders those who change both: a file of its own would be left.
var (
	rcuExpedited = "/sys/kernel/rcu_expedited"
	rcuRecord    = "/run/venturi-rcu-expedited"
	rcuLock      = "/run"
)

// ExpediteRCU shortens RCU grace periods, from 15 ms to 0.2 ms, until the function that it returns
// is called. The kernel waits for one, under the RTNL lock, whenever a program is attached to a
// device. Each CPU is interrupted for each, so it is for moments only. Several callers may
// overlap: the first that is done ends it for all. Where the host does not allow it, or has it
// always, it does nothing.
func ExpediteRCU() (restore func()) {
	nothing := func() {}
	unlock, err := lockRCU(rcuExpediteLimit)
	if err != nil {
		return nothing
	}
	defer unlock()
	was, err := os.ReadFile(rcuExpedited)
	_, missing := os.Lstat(rcuRecord)
	if err != nil || missing != nil && strings.TrimSpace(string(was)) != "0" {
		return nothing
	}
	if err := os.WriteFile(rcuRecord, nil, 0o600); err != nil {
		return nothing
	}
	if err := os.WriteFile(rcuExpedited, []byte("1"), 0); err != nil {
		if missing != nil {
			_ = os.Remove(rcuRecord)
		}
		return nothing
	}
	return func() { _ = RestoreRCU() }
}

// rcuSlice is for how long [ExpediteRCUSteps] relies on what it has asked for.
const rcuSlice = 10 * time.Millisecond

// ExpediteRCUSteps does what [ExpediteRCU] does for a long series of steps: whoever is done first ends
// it for all, so each step that comes a while after the last request asks again. Otherwise the rest
// of the series would take a hundred times as long.
func ExpediteRCUSteps() (step, restore func()) {
	end, since := ExpediteRCU(), time.Now()
	step = func() {
		if time.Since(since) >= rcuSlice {
			end()
			end, since = ExpediteRCU(), time.Now()
		}
	}
	return step, func() { end() }
}

// RestoreRCU undoes [ExpediteRCU], also for a process that was killed meanwhile. A container that may
// not write the setting leaves it to the others.
func RestoreRCU() error {
	if !isRCURecorded() {
		return nil
	}
	unlock, err := lockRCU(rcuRestoreLimit)
	locked := err == nil
	switch {
	case locked:
		defer unlock()
		if !isRCURecorded() {
			return nil
		}
	case !errors.Is(err, unix.EWOULDBLOCK):
		return err
	}
	err = os.WriteFile(rcuExpedited, []byte("0"), 0)
	if errors.Is(err, unix.EROFS) {
		return nil
	}
	// Without the lock, somebody else may be about to shorten them, and relies on the record. It then stays for whoever
	// has the lock next.
	if err != nil || !locked {
		return err
	}
	if err := os.Remove(rcuRecord); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func isRCURecorded() bool {
	_, err := os.Lstat(rcuRecord)
	return err == nil
}

// These are how long a caller waits for the lock at most: it is held for an instant, unless its holder was stopped just
// then. To shorten grace periods is not worth a long wait, and to restore them does not depend on the lock.
var (
	rcuExpediteLimit = 20 * time.Millisecond
	rcuRestoreLimit  = time.Second
)

const rcuLockPoll = time.Millisecond

// lockRCU waits for the lock. The error wraps EWOULDBLOCK if somebody else has held it until the limit.
func lockRCU(limit time.Duration) (unlock func(), err error) {
	f, err := os.Open(rcuLock)
	if err != nil {
		return nil, err
	}
	for end := time.Now().Add(limit); ; time.Sleep(rcuLockPoll) {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return func() { _ = f.Close() }, nil
		case !errors.Is(err, unix.EWOULDBLOCK), time.Now().After(end):
			return nil, errors.Join(err, f.Close())
		}
	}
}
