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

// Seat is the right to what is pinned in a folder of [PinFolder]. One process has it
// at a time; however that ends, the seat is free.
type Seat struct {
	path   string
	folder *os.File // locked
	next   *os.File // locked by who waits for the seat
}

// Errors of seats.
var (
	// ErrTaken is wrapped by the error when another process has the seat.
	ErrTaken = errors.New("another process has it")
	// ErrNoFolder is wrapped by the error when the folder is not there any more.
	ErrNoFolder = errors.New("it was taken away, or another was put in its place")
)

const (
	seatPoll = 10 * time.Millisecond
	// seatDying is for how long a process that was killed may still have the seat.
	seatDying = time.Second
)

// seatLeaving is for how long one that was asked for it may.
var seatLeaving = host.ScaleTimeout(10 * time.Second)

// TakeSeat takes the seat of a folder. A process that has it is asked to leave, and
// waited for, if it is to be replaced; see [Seat.Look].
func TakeSeat(ctx context.Context, folder string, replace bool) (s *Seat, err error) {
	s = &Seat{path: folder}
	defer func() {
		if err != nil {
			s.Close()
			err = fmt.Errorf("take over %s: %w", folder, err)
		}
	}()
	next := filepath.Join(folder, "next")
	if err := os.Mkdir(next, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	if s.folder, err = os.Open(folder); err != nil {
		return nil, err
	}
	if s.next, err = os.Open(next); err != nil {
		return nil, err
	}
	limit := seatDying
	if replace {
		limit = seatLeaving
		if err := lock(ctx, s.next, limit); err != nil {
			return nil, err
		}
		defer func() { _ = unix.Flock(int(s.next.Fd()), unix.LOCK_UN) }() // what is held can be let go
	}
	return s, lock(ctx, s.folder, limit)
}

// lock tries for so long.
func lock(ctx context.Context, f *os.File, limit time.Duration) error {
	for end := time.Now().Add(limit); ; {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil || !errors.Is(err, unix.EWOULDBLOCK):
			return err
		case time.Now().After(end):
			return ErrTaken
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(seatPoll):
		}
	}
}

// Look tells whether another process asks for the seat. The error wraps
// [ErrNoFolder] if there is nothing left to have: what is at the folder's path now
// is not this process' to touch.
func (s *Seat) Look() (wanted bool, err error) {
	ours, err := s.folder.Stat()
	if err != nil {
		return false, err
	}
	if there, err := os.Stat(s.path); err != nil || !os.SameFile(ours, there) {
		return false, fmt.Errorf("look at %s: %w", s.path, ErrNoFolder)
	}
	err = unix.Flock(int(s.next.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return false, unix.Flock(int(s.next.Fd()), unix.LOCK_UN)
}

// Close leaves the seat.
func (s *Seat) Close() {
	for _, f := range []*os.File{s.folder, s.next} {
		if f != nil {
			f.Close()
		}
	}
}
