package kernel

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/feature"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/internal/verr"
)

// FetchRequest says which kernel to fetch.
type FetchRequest struct {
	Series string // one of Known
	Mirror string // URL of a Debian mirror; empty: the host's package sources
	Newer  bool   // look for a newer one even if one of the series is stored
}

// ProgressFunc receives progress. For a step that moves bytes, it is called several times with the
// same text; for other steps total is 0.
type ProgressFunc func(step string, have, total int64)

// tools are the programs of the package manager.
type tools struct{ get, cache, deb, depmod string }

// CheckFetch refuses what is not a series that can be fetched. The error is for users.
func CheckFetch(series string) error {
	if _, ok := suites[series]; ok {
		return nil
	}
	return verr.New(verr.Usage, "cannot fetch kernel "+series, "it is not one of the series that can be fetched",
		"choose from "+strings.Join(FetchableSeries(), ", ")+", or use the file of a bzImage")
}

// Fetch fetches Debian's kernel of a series into the store, with its signature checked. fresh
// reports whether it was not there before. If ctx ends, or the process is killed, the store stays
// unchanged: incomplete files do not count, and the next Fetch removes them. Errors are for users.
func Fetch(ctx context.Context, w FetchRequest, say ProgressFunc) (k Kernel, fresh bool, err error) {
	what := "cannot fetch kernel " + w.Series
	if err := CheckFetch(w.Series); err != nil {
		return k, false, err
	}
	s := stores()[0]
	kept, known := s.newest(w.Series)
	if known && !w.Newer {
		return kept, false, nil
	}
	f, err := prepare(ctx, what, w)
	if err != nil {
		return k, false, err
	}
	k, fresh, err = f.fetch(ctx, s, say)
	if ctx.Err() != nil && err != nil {
		return k, false, context.Cause(ctx)
	}
	return k, fresh, inParts(what, s, err)
}

// newest returns the newest kernel of a series in the store.
func (s store) newest(series string) (newest Kernel, ok bool) {
	kept, _ := s.list() // writing reports an unreadable store
	for _, k := range kept {
		if k.Series() == series && compareReleases(k.Release, newest.Release) > 0 {
			newest, ok = k, true
		}
	}
	return newest, ok
}

// fetcher holds what a fetch needs.
type fetcher struct {
	FetchRequest
	archives archives
	keys     string
	programs tools
}

// aptGet is the package manager's program. Who has none does not want one.
var aptGet = feature.Program{Name: "apt-get", Package: "apt"}

// prepare checks everything that can be checked without the network.
func prepare(ctx context.Context, what string, w FetchRequest) (f fetcher, err error) {
	f.FetchRequest = w
	if runtime.GOARCH != "amd64" {
		return f, verr.New(verr.Missing, what, "this machine is "+runtime.GOARCH+"; kernels are fetched and run for amd64 only",
			"run it on an amd64 machine")
	}
	if _, err := aptGet.Find(); err != nil {
		return f, verr.New(verr.Missing, what, "it takes Debian's package manager, and there is no "+aptGet.Name+" here",
			"give --kernel the file of a bzImage that has its modules beside it, or fetch one on a host with Debian")
	}
	for _, p := range []struct {
		to      *string
		program feature.Program
	}{
		{&f.programs.get, aptGet},
		{&f.programs.cache, feature.Program{Name: "apt-cache", Package: "apt"}},
		{&f.programs.deb, feature.Program{Name: "dpkg-deb", Package: "dpkg"}},
		{&f.programs.depmod, feature.Program{Name: "depmod", Package: "kmod"}},
	} {
		if err := feature.Require(what, p.program); err != nil {
			return f, err
		}
		if *p.to, err = p.program.Find(); err != nil {
			return f, err
		}
	}
	if w.Mirror != "" {
		f.archives, err = fromMirror(w.Mirror)
	} else {
		f.archives, err = fromMachine(ctx, f.programs.get)
	}
	if err != nil {
		return f, err
	}
	f.keys, err = keyring("/")
	return f, err
}

const (
	lockFile   = ".lock"   // held during a fetch into the store
	unfinished = ".fetch-" // name prefix of incomplete folders
)

// fetch does the work: lists, package, image and modules, and finally the name.
func (f fetcher) fetch(ctx context.Context, s store, say ProgressFunc) (k Kernel, fresh bool, err error) {
	unlock, err := s.lock()
	if err != nil {
		return k, false, err
	}
	defer unlock()
	folder, err := os.MkdirTemp(string(s), unfinished)
	if err != nil {
		return k, false, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()

	a := apt{filepath.Join(folder, "apt")}
	if err := a.setUp(f.archives, f.keys, suites[f.Series]); err != nil {
		return k, false, err
	}
	say("reading which kernels there are of "+f.Series, 0, 0)
	_, lists := a.run(ctx, f.programs.get, "update")
	if ctx.Err() != nil {
		return k, false, lists
	}
	d, err := a.newest(ctx, f.programs, f.Series)
	if err != nil && lists != nil {
		return k, false, lists // there is none because the lists are missing
	}
	if err != nil {
		return k, false, err
	}
	if lists != nil {
		// One suite could not be read, but another one has a kernel.
		say(fmt.Sprintf("(a newer one may be in a suite that cannot be read: %v)", lists), 0, 0)
	}
	if k, ok := s.kernel(d.release()); ok && k.Source == d.String() {
		return k, false, nil
	}
	step := "fetching " + d.String()
	say(step, 0, d.size)
	file, err := a.download(ctx, f.programs, d, func(have int64) { say(step, have, d.size) })
	if err != nil {
		return k, false, err
	}
	say("unpacking "+d.release(), 0, 0)
	done := filepath.Join(folder, "done")
	if err := f.build(ctx, file, d, done); err != nil {
		return k, false, err
	}
	if err := s.put(done, d.release(), folder); err != nil {
		return k, false, err
	}
	k, _ = s.kernel(d.release())
	return k, true, nil
}

// build unpacks a package into the layout of a kernel's folder in the store.
func (f fetcher) build(ctx context.Context, file string, d deb, done string) error {
	if err := unpack(ctx, f.programs, file, d.release(), done); err != nil {
		return err
	}
	if err := addPlain(done, d.release()); err != nil {
		return err
	}
	if _, err := run(ctx, done, f.programs.depmod, "-b", done, d.release()); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(done, sourceFile), []byte(d.String()+"\n"), 0o644)
}

// put moves a folder to its final name in the store. An existing one of that name becomes
// incomplete and is removed.
func (s store) put(done, release, folder string) error {
	to := filepath.Join(string(s), release)
	// At once, where the file system can: between two steps, who is killed would lose both.
	err := unix.Renameat2(unix.AT_FDCWD, done, unix.AT_FDCWD, to, unix.RENAME_EXCHANGE)
	if err == nil {
		return nil
	}
	if !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOSYS) {
		return fmt.Errorf("replace %s: %w", to, err)
	}
	if err := os.Rename(to, filepath.Join(folder, "old")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return os.Rename(done, to)
}

// errOthers means that another process is fetching.
var errOthers = errors.New("another process is fetching a kernel")

// lock creates the store, locks it until unlock is called or the process ends, and removes what
// killed processes left.
func (s store) lock() (unlock func(), err error) {
	if err := os.MkdirAll(string(s), 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(string(s), lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errOthers
		}
		return nil, fmt.Errorf("lock %s: %w", s, err)
	}
	left, _ := sanitize.Files(string(s), unfinished+"*") // fails only on a bad pattern
	for _, folder := range left {
		if err := os.RemoveAll(folder); err != nil {
			f.Close()
			return nil, err
		}
	}
	return func() { f.Close() }, nil
}

// inParts converts an error of fetching to one for users.
func inParts(what string, s store, err error) error {
	switch {
	case errors.Is(err, errOthers):
		return verr.Wrap(verr.Busy, what, err, "wait until it is done")
	case errors.Is(err, os.ErrPermission):
		return verr.Wrap(verr.Permission, what, err, "name a folder that you may write to in "+StoreVariable)
	case errors.Is(err, syscall.ENOSPC):
		return verr.Wrap(verr.Failed, what, err, fmt.Sprintf("free about 600 MB on the disk of %s, or name a folder on another disk in %s", s, StoreVariable))
	}
	return verr.Wrap(verr.Failed, what, err,
		"check that this host reaches the archive (apt-get update), or name another one with --mirror")
}

// CheckRemove refuses what is not in the store. The error is for users.
func CheckRemove(release string) error {
	what := "cannot remove kernel " + release
	s := stores()[0]
	if _, ok := s.kernel(release); ok {
		return nil
	}
	for _, other := range stores()[1:] {
		if _, ok := other.kernel(release); ok {
			return verr.New(verr.Permission, what, "it belongs to root, in "+string(other), "run it as root: sudo venturi kernel rm "+release)
		}
	}
	return verr.New(verr.Usage, what, string(s)+" has no kernel of that release", "list them with: venturi kernel ls")
}

// Remove removes a kernel from the store, by its full release. The error is for users.
func Remove(release string) error {
	if err := CheckRemove(release); err != nil {
		return err
	}
	what := "cannot remove kernel " + release
	s := stores()[0]
	unlock, err := s.lock()
	if err != nil {
		return inParts(what, s, err)
	}
	defer unlock()
	// Renaming invalidates it before the first of its files goes.
	gone := filepath.Join(string(s), unfinished+release)
	if err := os.Rename(filepath.Join(string(s), release), gone); err != nil {
		return inParts(what, s, err)
	}
	return inParts(what, s, os.RemoveAll(gone))
}
