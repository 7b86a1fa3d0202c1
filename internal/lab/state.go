package lab

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/internal/verr"
)

// Folder holds one folder a lab, and the locks. It is below /run because what
// it describes does not outlive a boot.
const Folder = "/run/venturi"

const (
	stateFile = "state.json"
	ownerLock = "lock"  // in the lab's folder: held for as long as the owner lives
	tableLock = ".lock" // in Folder: held while labs come and go
)

// lockPoll is how often a lock that somebody holds is tried again.
const lockPoll = 20 * time.Millisecond

// state is what a lab's folder says about it.
type state struct {
	Owner   int       `json:"owner"`   // pid
	Command []string  `json:"command"` // of the owner
	Since   time.Time `json:"since"`
	Boot    string    `json:"boot"` // id of the boot it was made in
	Keep    bool      `json:"kept"` // stays when the owner ends
	Lab     *Lab      `json:"lab,omitempty"`
}

// flock takes an exclusive lock on a file, which it makes if needed. It tries
// until it has it or ctx ends; once tries just once. taken is false, without
// an error, when somebody else has it and once is set.
func flock(ctx context.Context, path string, once bool) (f *os.File, taken bool, err error) {
	f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, false, fmt.Errorf("open lock: %w", err)
	}
	for {
		taken, err = tryLock(f)
		if err == nil && !taken && !once && host.Sleep(ctx, lockPoll) != nil {
			err = ctx.Err()
		}
		switch {
		case err != nil:
			f.Close()
			return nil, false, fmt.Errorf("lock %s: %w", path, err)
		case taken:
			return f, true, nil
		case once:
			f.Close()
			return nil, false, nil
		}
	}
}

// tryLock takes an exclusive lock on a file. taken is false, without an error, when somebody else
// has it.
func tryLock(f *os.File) (taken bool, err error) {
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EWOULDBLOCK):
			return false, nil
		}
		return err == nil, err
	}
}

// lockInFolder takes the lock of a file in Folder, as flock does. Whoever has it removes the file,
// so the one that is locked must still be there.
func lockInFolder(ctx context.Context, name string, once bool) (f *os.File, taken bool, err error) {
	path := filepath.Join(Folder, name)
	for {
		if err := os.MkdirAll(Folder, 0o700); err != nil {
			return nil, false, fmt.Errorf("make %s: %w", Folder, err)
		}
		f, taken, err = flock(ctx, path, once)
		switch {
		case errors.Is(err, os.ErrNotExist) && ctx.Err() == nil:
			continue // the folder was just removed
		case err != nil || !taken:
			return nil, false, err
		}
		locked, err := f.Stat()
		there, statErr := os.Stat(path)
		if err == nil && statErr == nil && os.SameFile(locked, there) {
			return f, true, nil
		}
		f.Close()
		if err := ctx.Err(); err != nil {
			return nil, false, fmt.Errorf("lock %s: %w", path, err)
		}
	}
}

// unlockInFolder releases it, and leaves nothing: the folder goes with the last file.
func unlockInFolder(f *os.File) {
	_ = os.Remove(f.Name())
	f.Close()
	_ = os.Remove(Folder)
}

func folder(name string) string { return filepath.Join(Folder, name) }

// Claim is a lab's name, held. While it is held nobody sweeps the namespaces
// that carry it.
type Claim struct {
	Name  string
	lock  *os.File
	state state

	guarded *os.File // one of its namespaces, locked; nil: none yet
}

// NewClaim takes a name, after removing what dead owners left. A name in use is
// an error for a user.
func NewClaim(ctx context.Context, name string) (*Claim, error) {
	if !netcfg.ValidLab(name) {
		return nil, verr.New(verr.Usage, fmt.Sprintf("cannot name a lab %q", name),
			"namespaces and sockets carry the name",
			fmt.Sprintf("use at most %d of a-z, 0-9 and -, beginning with a letter or digit", netcfg.MaxLab))
	}
	if err := needRoot("cannot raise a lab"); err != nil {
		return nil, err
	}
	c := &Claim{Name: name, state: state{
		Owner: os.Getpid(), Command: host.Reader{}.Command(os.Getpid()), Since: time.Now(), Boot: host.Reader{}.BootID(),
	}}
	err := withTable(ctx, func() error {
		// What another dead lab cannot be rid of is no reason not to raise this
		// one; "venturi lab down" tells of it.
		s, err := sweepAll()
		if err != nil {
			return err
		}
		if say := sayOf(ctx); say != nil && s.rcu != nil { // the kernel is no worse for it, only busier
			say("warning: %v", s.rcu)
		}
		if err := foreign("cannot raise lab "+name, name); err != nil {
			return err
		}
		if err := os.Mkdir(folder(name), 0o700); err != nil {
			if errors.Is(err, os.ErrExist) {
				return inUse(name, s.failed[name])
			}
			return fmt.Errorf("make folder of lab %s: %w", name, err)
		}
		err = c.lockFolder(ctx)
		if err != nil {
			c.Release()
			err = errors.Join(err, os.RemoveAll(folder(name)))
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

// lockFolder locks the claim's folder and writes who has it.
func (c *Claim) lockFolder(ctx context.Context) (err error) {
	if c.lock, _, err = flock(ctx, filepath.Join(folder(c.Name), ownerLock), false); err != nil {
		return err
	}
	return c.save()
}

// Release lets go of the name. Its folder and namespaces stay: the next sweep
// takes them, unless the lab is marked as kept.
func (c *Claim) Release() {
	c.unguard()
	if c.lock != nil {
		c.lock.Close()
		c.lock = nil
	}
}

// save writes the state so that a reader sees either the old or the new one.
func (c *Claim) save() error {
	if err := netcfg.ReplaceJSON(filepath.Join(folder(c.Name), stateFile), c.state); err != nil {
		return fmt.Errorf("write state of lab %s: %w", c.Name, err)
	}
	return nil
}

// inUse is the error for a user that a lab has the name. Left is why that could not
// be removed, if its owner is dead.
func inUse(name string, left error) error {
	why := "another lab has the name"
	do := "give another --name"
	s, err := readState(name)
	if left != nil {
		why = "the lab that had the name is dead, and something of it could not be removed: " + left.Error()
		do = fmt.Sprintf("mend that, and take it down with `venturi lab down --name %s`, or give another --name", name)
	} else if err == nil {
		if s.Keep {
			why = "a lab of that name was raised and is kept"
			do = fmt.Sprintf("take it down with `venturi lab down --name %s`, or give another --name", sanitize.Shell(name))
		} else {
			why = fmt.Sprintf("process %d has it (%s) since %s", s.Owner,
				strings.Join(s.Command, " "), s.Since.Format(time.DateTime))
			do = "wait until it ends, or give another --name"
		}
	}
	return verr.New(verr.Busy, "cannot raise lab "+name, why, do)
}

func readState(name string) (state, error) {
	var s state
	if err := host.ReadJSON(filepath.Join(folder(name), stateFile), &s); err != nil {
		return s, fmt.Errorf("read state of lab %s: %w", name, err)
	}
	return s, nil
}

// names lists the labs that left any trace: a folder or a namespace.
func names() ([]string, error) {
	seen := map[string]bool{}
	entries, err := os.ReadDir(Folder)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("list labs: %w", err)
	}
	for _, e := range entries {
		if e.IsDir() && netcfg.ValidLab(e.Name()) {
			seen[e.Name()] = true
		}
	}
	spaces, err := netcfg.Namespaces()
	if err != nil {
		return nil, err
	}
	for _, space := range spaces {
		if lab, ok := netcfg.LabOf(space); ok {
			seen[lab] = true
		}
	}
	return slices.Sorted(maps.Keys(seen)), nil
}

// Owner gives the pid of the process that holds a lab, if one does.
func Owner(name string) (pid int, held bool) {
	_ = withTable(context.Background(), func() error {
		info, err := inspect(name)
		pid, held = info.Owner, err == nil && info.Status == StatusRunning
		return err
	})
	return pid, held
}

func needRoot(what string) error {
	if os.Geteuid() != 0 {
		return verr.New(verr.Permission, what, "only root can create, enter and remove network namespaces", "run it as root, or through sudo")
	}
	return nil
}
