package netcfg

import (
	"errors"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// rcuRecord records in its folder that RCU grace periods were not short.
const rcuRecord = "rcu-expedited"

// rcuLock orders those who change how long RCU grace periods are. The lock is that of the folder
// itself: a file of its own would be left. Nobody but root can open the folder, and thus hold the lock.
// One that a lock has made is removed when nothing is in it; others may be mounted in containers.
type rcuLock struct {
	folder *os.Root // and no other that has its name by now
	file   *os.File
	sticky bool // the folder: a lock has made it, and not a mount
}

// rcuFolderMode is the mode of folders that a lock has made: the sticky bit tells them from others.
const rcuFolderMode = 0o700 | os.ModeSticky

// These are how long a caller waits for the lock at most: it is held for an instant, unless its holder was stopped just
// then. To shorten grace periods is not worth a long wait, and to restore them does not depend on the lock.
var (
	rcuExpediteLimit = 20 * time.Millisecond
	rcuRestoreLimit  = time.Second
)

const rcuLockPoll = time.Millisecond

// lockRCU waits for the lock. The error wraps EWOULDBLOCK if it could not be had within the limit.
func lockRCU(limit time.Duration) (*rcuLock, error) {
	for end := time.Now().Add(limit); ; time.Sleep(rcuLockPoll) {
		lock, err := tryLockRCU()
		if err == nil || !errors.Is(err, unix.EWOULDBLOCK) || time.Now().After(end) {
			return lock, err
		}
	}
}

// tryLockRCU makes the folder if there is none, and locks it. The error wraps EWOULDBLOCK if somebody else has the
// lock, or has just removed the folder.
func tryLockRCU() (*rcuLock, error) {
	if err := os.Mkdir(rcuFolder, rcuFolderMode); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	folder, err := os.OpenRoot(rcuFolder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, unix.EWOULDBLOCK
	}
	if err != nil {
		return nil, err
	}
	file, err := folder.Open(".")
	if err != nil {
		return nil, errors.Join(err, folder.Close())
	}
	lock := &rcuLock{folder: folder, file: file}
	if err := lock.acquire(); err != nil {
		lock.close()
		return nil, err
	}
	return lock, nil
}

func (l *rcuLock) acquire() error {
	info, err := l.file.Stat()
	if err != nil {
		return err
	}
	// Whoever mounts it into containers may have made it for everybody to open, and somebody may have.
	if info.Mode().Perm() != 0o700 {
		if err := l.file.Chmod(0o700); err != nil {
			return err
		}
	}
	if err := unix.Flock(int(l.file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return err
	}
	if there, err := os.Stat(rcuFolder); err != nil || !os.SameFile(info, there) {
		return unix.EWOULDBLOCK
	}
	l.sticky = info.Mode()&os.ModeSticky != 0
	return nil
}

func (l *rcuLock) isRecorded() bool {
	_, err := l.folder.Lstat(rcuRecord)
	return err == nil
}

func (l *rcuLock) record() error { return l.folder.WriteFile(rcuRecord, nil, 0o600) }

func (l *rcuLock) removeRecord() error { return unlessMissing(l.folder.Remove(rcuRecord)) }

func (l *rcuLock) release() {
	if l.sticky {
		_ = os.Remove(rcuFolder) // fails if there is something in it
	}
	l.close()
}

func (l *rcuLock) close() {
	_ = l.file.Close()
	_ = l.folder.Close()
}
