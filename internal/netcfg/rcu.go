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
	if !expediteRCU() {
		return func() {}
	}
	return func() { _ = RestoreRCU() }
}

// expediteRCU shortens them, and tells whether it could.
func expediteRCU() bool {
	lock, err := lockRCU(rcuExpediteLimit)
	if err != nil {
		return false
	}
	defer lock.release()
	was, err := os.ReadFile(rcuExpedited)
	recorded := lock.isRecorded()
	if err != nil || !recorded && strings.TrimSpace(string(was)) != "0" {
		return false
	}
	if err := lock.record(); err != nil {
		return false
	}
	if err := os.WriteFile(rcuExpedited, []byte("1"), 0); err != nil {
		if !recorded {
			_ = lock.removeRecord()
		}
		return false
	}
	return true
}

// rcuSlice is for how long [ExpediteRCUSteps] relies on what it has asked for.
const rcuSlice = 10 * time.Millisecond

// rcuPause is for how long it does not ask again where that was in vain: to ask takes longer than a step.
const rcuPause = time.Second

// ExpediteRCUSteps does what [ExpediteRCU] does for a long series of steps: whoever is done first ends
// it for all, so each step that comes a while after the last request asks again. Otherwise the rest
// of the series would take a hundred times as long. Without a step, nobody is asked.
func ExpediteRCUSteps() (step, restore func()) {
	short, next := false, time.Time{}
	restore = func() {
		if short {
			_ = RestoreRCU()
		}
	}
	step = func() {
		if time.Now().Before(next) {
			return
		}
		restore()
		pause := rcuPause
		if short = expediteRCU(); short {
			pause = rcuSlice
		}
		next = time.Now().Add(pause)
	}
	return step, restore
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
	return errors.Join(lock.removeRecord(), removeOldRecord())
}

// removeOldRecord removes what an earlier version has recorded. To ask for the removal of a file that is not there
// fails where nothing may be written.
func removeOldRecord() error {
	if !exists(rcuOldRecord) {
		return nil
	}
	return unlessMissing(os.Remove(rcuOldRecord))
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
