package lab

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/venturi-net/venturi/internal/fastpath/kernel"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/verr"
)

// killGrace is how long processes in a lab's namespaces get to end by
// themselves before they are killed.
const killGrace = time.Second

// Status of a lab.
const (
	StatusRunning = "running" // its owner lives; one that has no folder here is in use
	StatusKept    = "kept"    // stays until it is taken down
	StatusDead    = "dead"    // its owner died: the next sweep removes it
)

// Info is one line of a list of labs.
type Info struct {
	Name    string    `json:"name"`
	Status  string    `json:"status"`
	Owner   int       `json:"pid,omitempty"` // pid of the process that made it
	Command []string  `json:"command,omitempty"`
	Since   time.Time `json:"since,omitzero"`
	Lab     *Lab      `json:"lab,omitempty"` // what is in it; nil when half-built
	// Partial says that whoever uses the lab may be out of sight: this process is in a PID
	// namespace of its own, such as a container's.
	Partial bool `json:"partial,omitempty"`
}

// List tells of all labs on the machine.
func List(ctx context.Context) ([]Info, error) {
	if err := needRoot("cannot list labs"); err != nil {
		return nil, err
	}
	var list []Info
	err := withTable(ctx, func() error {
		all, err := names()
		if err != nil {
			return err
		}
		for _, name := range all {
			info, err := inspect(name)
			if err != nil {
				return err
			}
			info.Partial = info.Status == StatusDead && !(host.Reader{}).SeesAllProcesses()
			list = append(list, info)
		}
		return nil
	})
	return list, err
}

// inspect finds out how a lab is. The caller holds the table.
func inspect(name string) (Info, error) {
	info := Info{Name: name, Status: StatusDead}
	s, readErr := readState(name)
	if readErr == nil {
		info.Owner, info.Command, info.Since, info.Lab = s.Owner, s.Command, s.Since, s.Lab
	}
	if _, err := os.Stat(folder(name)); errors.Is(err, os.ErrNotExist) {
		who, err := users(name) // of namespaces without a folder
		if who != "" {
			info.Status = StatusRunning
		}
		return info, err
	}
	lock, free, err := tryOwner(name, s.Owner)
	if err != nil {
		return info, err
	}
	if !free {
		info.Status = StatusRunning
		return info, nil
	}
	lock.Close()
	if readErr != nil || !s.Keep || s.Boot != (host.Reader{}).BootID() {
		return info, nil
	}
	if there, err := anyNamespace(name); err != nil || !there {
		return info, err // kept, but somebody else removed what it was made of
	}
	if alive, err := s.Lab.Guest.alive(name); err != nil || !alive {
		return info, err
	}
	info.Status = StatusKept
	return info, nil
}

// forkLimit is how long a process may take to begin its program, on a machine
// that is busy with starting many.
const forkLimit = 5 * time.Second

// tryOwner takes the lock that the owner of a lab holds, if it is free. When
// the owner was killed just as it started a daemon, the lock is still held by
// the half-made process, which lets go of it as soon as its program begins; that
// is waited for.
func tryOwner(name string, owner int) (lock *os.File, free bool, err error) {
	file := filepath.Join(folder(name), ownerLock)
	lock, free, err = flock(context.Background(), file, true)
	if err != nil || free || owner == 0 || len(host.Reader{}.Command(owner)) > 0 {
		return lock, free, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), forkLimit)
	defer cancel()
	lock, free, err = flock(ctx, file, false)
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, false, nil // somebody else has it after all
	}
	return lock, free, err
}

func anyNamespace(name string) (bool, error) {
	w, err := netcfg.Owned(name)
	if err != nil {
		return false, err
	}
	list, err := w.Namespaces()
	return len(list) > 0, err
}

// Sweep removes every lab whose owner is dead and that is not kept: its
// processes, its namespaces, its folder. It gives the names of what it removed.
func Sweep(ctx context.Context) (removed []string, err error) {
	if err := needRoot("cannot remove what killed runs left"); err != nil {
		return nil, err
	}
	err = withTable(ctx, func() error {
		s, err := sweepAll()
		removed = s.removed
		failed := []error{err, s.rcu}
		for _, name := range slices.Sorted(maps.Keys(s.failed)) {
			failed = append(failed, s.failed[name])
		}
		return errors.Join(failed...)
	})
	return removed, errors.Join(err, removeFreeLock(1))
}

// sweeping is what came of a sweep.
type sweeping struct {
	removed []string
	failed  map[string]error // why labs could not be removed, by their names
	rcu     error            // why the host's RCU grace periods stay short
}

// sweepAll does the work of Sweep for a caller that holds the table.
func sweepAll() (s sweeping, err error) {
	defer func() { s.rcu = netcfg.RestoreRCU() }() // of a fast path's daemon that was killed
	all, err := names()
	if err != nil {
		return s, err
	}
	s.failed = map[string]error{}
	for _, name := range all {
		info, err := inspect(name)
		if err == nil && info.Status == StatusDead {
			if err = demolish(name); err == nil {
				s.removed = append(s.removed, name)
			}
		}
		if err != nil {
			s.failed[name] = err
		}
	}
	return s, nil
}

// Remove takes down the lab of that name, kept or left behind. One whose owner
// lives is an error for a user, and so is one that is not there.
func Remove(ctx context.Context, name string) error {
	what := "cannot take down lab " + name
	if err := needRoot(what); err != nil {
		return err
	}
	err := withTable(ctx, func() error {
		all, err := names()
		if err != nil {
			return err
		}
		for _, known := range all {
			if known != name {
				continue
			}
			if err := foreign(what, name); err != nil {
				return err
			}
			info, err := inspect(name)
			if err != nil {
				return err
			}
			if info.Status == StatusRunning {
				return verr.New(verr.Busy, what, fmt.Sprintf("process %d is using it", info.Owner),
					"end that process: it then takes its lab down itself")
			}
			return demolish(name)
		}
		return verr.New(verr.Usage, what, "there is no such lab", "list labs with `venturi lab ls`")
	})
	return errors.Join(err, removeFreeLock(1))
}

// demolish removes all of a lab, whatever there is of it. A namespace's name that
// cannot be removed, or a card that is home but incomplete, holds up nothing else. The caller holds the table, and nobody
// holds the lab.
func demolish(name string) error {
	w, err := netcfg.Owned(name)
	if err != nil {
		return err
	}
	list, err := w.Namespaces()
	if err == nil {
		err = w.Kill(list, killGrace)
	}
	var unrestored error
	if err == nil {
		unrestored, err = removeCards(name, list)
	}
	if err != nil {
		return fmt.Errorf("remove lab %s: %w", name, err)
	}
	failed := []error{unrestored, netcfg.RestoreRCU()} // a fast path's daemon may have been killed
	for _, n := range slices.Backward(list) {          // a pod's name sorts after its machine's
		failed = append(failed, w.DeleteCards(n), w.Delete(n))
	}
	failed = append(failed, kernel.UnmountPins(folder(name)), os.RemoveAll(folder(name)))
	if err := errors.Join(failed...); err != nil {
		return fmt.Errorf("remove lab %s: %w", name, err)
	}
	return nil
}
