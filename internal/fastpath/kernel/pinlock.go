package kernel

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/host"
)

// PinLock is an exclusive lock of a folder of pins, see [MountPins]. The kernel releases it
// when the process exits.
type PinLock struct {
	path   string
	folder *os.File // locked
	next   *os.File // locked by a process that asks to take over
}

// Errors of locks.
var (
	// ErrLocked means that another process holds the lock.
	ErrLocked = errors.New("another process holds the lock")
	// ErrPinsRemoved means that the folder was removed or replaced.
	ErrPinsRemoved = errors.New("it was removed or replaced")
)

const (
	lockPoll = 10 * time.Millisecond
	// exitTimeout is how long a killed process may still hold the lock.
	exitTimeout = time.Second
)

// takeoverTimeout is how long a process that was asked to hand over may still hold the lock.
var takeoverTimeout = host.ScaleTimeout(10 * time.Second)

// AcquirePinLock locks a folder. With replace, it asks the process that holds the lock to
// hand over, and waits; see [PinLock.TakeoverRequested].
func AcquirePinLock(ctx context.Context, folder string, replace bool) (_ *PinLock, err error) {
	l := &PinLock{path: folder}
	defer func() {
		if err != nil {
			l.Close()
			err = fmt.Errorf("take over %s: %w", folder, err)
		}
	}()
	next := filepath.Join(folder, "next")
	if err := os.Mkdir(next, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	if l.folder, err = os.Open(folder); err != nil {
		return nil, err
	}
	if l.next, err = os.Open(next); err != nil {
		return nil, err
	}
	limit := exitTimeout
	if replace {
		limit = takeoverTimeout
		if err := lock(ctx, l.next, limit); err != nil {
			return nil, err
		}
		defer func() { _ = unix.Flock(int(l.next.Fd()), unix.LOCK_UN) }() // a lock that is held can be released
	}
	if err := lock(ctx, l.folder, limit); err != nil {
		return nil, err
	}
	return l, nil
}

// lock tries until a time limit.
func lock(ctx context.Context, f *os.File, limit time.Duration) error {
	for end := time.Now().Add(limit); ; {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil || !errors.Is(err, unix.EWOULDBLOCK):
			return err
		case time.Now().After(end):
			return ErrLocked
		}
		if err := host.Sleep(ctx, lockPoll); err != nil {
			return err
		}
	}
}

// LockFolder locks a folder until the file is closed. The error wraps [ErrLocked] if another
// process holds the lock; one that only looks whether somebody does is waited for.
func LockFolder(ctx context.Context, path string) (*os.File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if err := lock(ctx, f, exitTimeout); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return f, nil
}

// Locked tells whether a process holds the lock of a folder.
func Locked(folder string) (bool, error) {
	f, err := os.Open(folder)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	err = unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return true, nil
	}
	return false, err
}

// TakeoverRequested tells whether another process asks to take over. The error wraps
// [ErrPinsRemoved] if the folder was removed or replaced: then what is at its path belongs
// to another process.
func (l *PinLock) TakeoverRequested() (wanted bool, err error) {
	var ours, there unix.Stat_t // os.Stat would leave garbage each time
	if err := unix.Fstat(int(l.folder.Fd()), &ours); err != nil {
		return false, err
	}
	if err := unix.Stat(l.path, &there); err != nil || there.Dev != ours.Dev || there.Ino != ours.Ino {
		return false, fmt.Errorf("look at %s: %w", l.path, ErrPinsRemoved)
	}
	err = unix.Flock(int(l.next.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return false, unix.Flock(int(l.next.Fd()), unix.LOCK_UN)
}

// Close releases the lock.
func (l *PinLock) Close() {
	for _, f := range []*os.File{l.folder, l.next} {
		if f != nil {
			f.Close()
		}
	}
}
