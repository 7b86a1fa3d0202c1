package netcfg

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// FastPathFolder is where the fast paths of a node keep their state. A container has it from the host.
const FastPathFolder = "/run/venturi-fastpath"

// Of the whole host: whether every wait for an RCU grace period is as short as it can be
// (Documentation/ABI/testing/sysfs-kernel-rcu), the folder with what records that it was not, see
// [rcuLock], and where earlier versions recorded it.
var (
	rcuExpedited = "/sys/kernel/rcu_expedited"
	rcuFolder    = FastPathFolder
	rcuOldRecord = "/run/venturi-rcu-expedited"
)

// ExpediteRCU shortens RCU grace periods, from 15 ms to 0.2 ms, until the function that it returns
// is called. The kernel waits for one, under the RTNL lock, whenever a program is attached to a
// device. Each CPU is interrupted for each, so it is for moments only. Several callers may
// overlap: the first that is done ends it for all. Where the host does not allow it, or has it
// always, it does nothing.
func ExpediteRCU() (restore func()) {
	nothing := func() {}
	lock, err := lockRCU(rcuExpediteLimit)
	if err != nil {
		return nothing
	}
	defer lock.release()
	was, err := os.ReadFile(rcuExpedited)
	recorded := lock.isRecorded()
	if err != nil || !recorded && strings.TrimSpace(string(was)) != "0" {
		return nothing
	}
	if err := lock.record(); err != nil {
		return nothing
	}
	if err := os.WriteFile(rcuExpedited, []byte("1"), 0); err != nil {
		if !recorded {
			_ = lock.removeRecord()
		}
		return nothing
	}
	return func() { _ = RestoreRCU() }
}

// rcuSlice is for how long [ExpediteRCUSteps] relies on what it has asked for.
const rcuSlice = 10 * time.Millisecond

// ExpediteRCUSteps does what [ExpediteRCU] does for a long series of steps: whoever is done first ends
// it for all, so each step that comes a while after the last request asks again. Otherwise the rest
// of the series would take a hundred times as long. Without a step, nobody is asked.
func ExpediteRCUSteps() (step, restore func()) {
	end, since := func() {}, time.Time{}
	step = func() {
		if time.Since(since) >= rcuSlice {
			end()
			end, since = ExpediteRCU(), time.Now()
		}
	}
	return step, func() { end() }
}

// RestoreRCU undoes [ExpediteRCU], also for a process that was killed meanwhile, be it of an earlier
// version. A container that may not write the setting leaves it to the others.
func RestoreRCU() error {
	if !exists(filepath.Join(rcuFolder, rcuRecord)) && !exists(rcuOldRecord) {
		return nil
	}
	lock, err := lockRCU(rcuRestoreLimit)
	locked := err == nil
	switch {
	case locked:
		defer lock.release()
		if !lock.isRecorded() && !exists(rcuOldRecord) {
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
	return errors.Join(lock.removeRecord(), unlessMissing(os.Remove(rcuOldRecord)))
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// unlessMissing is the error of a removal; nil if there was nothing to remove.
func unlessMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
