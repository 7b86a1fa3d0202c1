package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/kernel"
	"github.com/venturi-net/venturi/internal/verr"
)

// Status is what there is of a fast path in a network namespace.
type Status struct {
	Enabled bool             // there is one
	Running bool             // its daemon lives
	Config  *fastpath.Config // nil: it has not started yet, or carries IPv6 alone
	State   *fastpath.State  // nil: as Config
	Stats   []fastpath.Stat  // since it was enabled
	Table   fastpath.Table
	Pods    []fastpath.PodFlows
	Peers   []fastpath.PeerFlows
	IPv6    *Status // the same of IPv6; nil: it is not carried
}

// ReadStatus reads it of the calling thread's namespace.
func ReadStatus() (s Status, err error) { return readStatus(files.readTables) }

// readStatus reads it, and of each version of IP what else is asked for.
func readStatus(more func(f files, s *Status, pins string) error) (s Status, err error) {
	f, err := ownFiles()
	if err != nil {
		return s, err
	}
	v, err := read()
	if err != nil || !v.Present {
		return s, err
	}
	s.Enabled = true
	if s.Running, err = kernel.Locked(f.folder); err != nil {
		return s, err
	}
	if err := f.readStatus(&s, f.visible(f.pins), more); err != nil {
		return s, err
	}
	six := &Status{Enabled: true, Running: s.Running}
	if _, err := os.Stat(f.ipv6().config); errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	s.IPv6 = six
	err = f.ipv6().readStatus(six, f.visible(f.ipv6().pins), more)
	markIPv6(six.Stats)
	return s, err
}

// markIPv6 says of stats that they are of IPv6.
func markIPv6(stats []fastpath.Stat) {
	for i := range stats {
		stats[i].IPv6 = true
	}
}

// readStatus reads what a daemon has written.
func (f files) readStatus(s *Status, pins string, more func(files, *Status, string) error) error {
	// A daemon that starts makes these one after the other.
	for _, read := range []func() error{
		func() (err error) { s.Config, err = fastpath.Load(f.config); return err },
		func() (err error) { s.State, err = fastpath.ReadState(f.state); return err },
		func() error { return s.checkVersion(pins) },
		func() error { return s.checkLease(pins) },
		func() (err error) { s.Stats, err = fastpath.ReadStats(pins); return err },
		func() error { return more(f, s, pins) },
	} {
		if err := read(); err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				err = nil
			}
			return err
		}
	}
	return nil
}

// readTables reads what a daemon has in its tables.
func (files) readTables(s *Status, pins string) (err error) {
	s.Table, s.Pods, s.Peers, err = fastpath.ReadOwners(s.Config, pins)
	return err
}

// checkVersion expects that this version can read the tables of a fast path.
func (s *Status) checkVersion(pins string) error {
	err := fastpath.CheckVersion(s.Config, pins)
	if !errors.Is(err, fastpath.ErrOtherVersion) {
		return err
	}
	hint := `remove it with: venturi fastpath disable`
	if s.Running {
		hint = `run "venturi fastpath status" of that version; or take over with: venturi fastpath enable --replace`
	}
	return verr.New(verr.Failed, "cannot read the fast path", "it was set up by another version of venturi", hint)
}

// checkLease says in the state that nothing is carried because the daemon has not reported for too long, as one
// that was stopped (SIGSTOP): it cannot say so itself.
func (s *Status) checkLease(pins string) error {
	if !s.Running || s.State.Off != "" {
		return nil
	}
	late, err := fastpath.LateBy(s.Config, pins)
	if late > 0 {
		s.State.Off = fmt.Sprintf("its daemon has not renewed its lease, which expired %v ago: the process is stopped (SIGSTOP), or this host is overloaded", late.Round(time.Millisecond))
	}
	return err
}
