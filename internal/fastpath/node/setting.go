package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/kernel"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/verr"
)

// Root holds a folder for each network namespace that has a fast path of its own.
const Root = netcfg.FastPathFolder

// files are those of the fast path of a network namespace. Whoever carries holds the lock of the
// folder. The pins are on a file system that may be mounted for that process alone, as in a
// container or below "ip netns exec".
type files struct {
	folder, pins, state, config string
	process                     string // holds the ID of the process
	stop                        string // asks the process to end
	choice                      string // what the process was asked to carry
	ending                      string // the process has begun to end
	namespace                   string // identifies the namespace
}

// ipv6 are the files of the fast path for IPv6, which the same process has. It has one folder more, so
// that its pins and its state are its own.
func (f files) ipv6() files {
	six := filesIn(filepath.Join(f.folder, "ipv6"))
	six.process, six.stop, six.ending = f.process, f.stop, f.ending
	return six
}

// ownFiles are those of the calling thread's namespace.
func ownFiles() (files, error) {
	id, err := setting.ThreadNetns()
	if err != nil {
		return files{}, err
	}
	return filesOf(id), nil
}

// filesOf are those of a namespace.
func filesOf(n *setting.NetnsID) files {
	return filesIn(filepath.Join(Root, strconv.FormatUint(n.Inode, 10)))
}

// filesIn are those in the folder of a namespace.
func filesIn(folder string) files {
	pins := filepath.Join(folder, "bpf")
	return files{
		folder, pins, fastpath.StateFile(pins), filepath.Join(folder, "config.json"),
		filepath.Join(folder, "process"), filepath.Join(folder, "stop"), filepath.Join(folder, "choice.json"),
		filepath.Join(folder, "ending"), filepath.Join(folder, "namespace.json"),
	}
}

const (
	backendName = "fastpath"
	enabled     = "enabled"
)

// Backend is whether a network namespace has a fast path: absent, or enabled. To write that it
// is absent ends its daemon, and removes its programs, its tables and its folder. What is left of one whose namespace
// is gone is swept.
func Backend() setting.Backend {
	return setting.Backend{
		Name: backendName,
		Read: func(s setting.Setting) (v setting.Value, err error) {
			return v, s.Scope.Enter(func(string) (err error) {
				v, err = read()
				return err
			})
		},
		Write: func(s setting.Setting, v setting.Value) error {
			return s.Scope.Enter(func(string) error { return write(v) })
		},
		Sweep: func(s setting.Setting) error {
			if s.Scope.Netns == nil {
				return nil
			}
			err := filesOf(s.Scope.Netns).removeOrphan()
			if errors.Is(err, kernel.ErrLocked) { // so it may not be gone
				return nil
			}
			return err
		},
	}
}

// ownSetting is that of the namespace that this process is in.
func ownSetting() (setting.Setting, error) {
	scope, err := setting.NetnsScope("")
	return setting.Setting{Backend: backendName, Scope: scope}, err
}

func read() (setting.Value, error) {
	f, err := ownFiles()
	if err != nil {
		return setting.Value{}, err
	}
	_, err = os.Stat(f.folder)
	if errors.Is(err, fs.ErrNotExist) {
		return setting.Value{}, nil
	}
	if err != nil {
		return setting.Value{}, err
	}
	if former, err := f.isOrphan(); former || err != nil {
		return setting.Value{}, err
	}
	return setting.Text(enabled), nil
}

func write(v setting.Value) error {
	f, err := ownFiles()
	if err != nil {
		return err
	}
	if v.Present {
		return f.create()
	}
	return f.remove()
}

// create makes the folder, and says in it whose it is.
func (f files) create() error {
	if err := f.removeOrphan(); err != nil { // of an earlier namespace with this number
		return err
	}
	n, err := setting.ThreadNetns()
	if err != nil {
		return err
	}
	if err := kernel.MountPins(f.pins); err != nil {
		return err
	}
	return netcfg.ReplaceJSON(f.namespace, n)
}

// remove has the process end that carries, if it lives, and removes what is left of the fast path.
func (f files) remove() error {
	if _, err := os.Stat(f.folder); errors.Is(err, fs.ErrNotExist) {
		return netcfg.RestoreRCU()
	}
	if err := f.stopProcess(); err != nil {
		return err
	}
	for _, pins := range []string{f.pins, f.ipv6().pins} {
		if err := fastpath.Remove(context.Background(), pins); err != nil {
			return err
		}
	}
	return kernel.RemovePins(f.folder)
}

const stopPoll = 50 * time.Millisecond

// stopTimeout is how long the process may take to answer that it ends, and removeTimeout how long it may
// then take: to detach a program may take 15 ms, and each pod has some.
var stopTimeout, removeTimeout = host.ScaleTimeout(10 * time.Second), host.ScaleTimeout(3 * time.Minute)

// requestStop asks the process that carries to end. One that has just ended has taken its folder along.
func (f files) requestStop() error {
	if err := netcfg.ReplaceJSON(f.stop, true); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// stopProcess asks the process that carries to end, and waits for it. One that is stopped or does
// not answer is killed: the kernel ends the carrying then.
func (f files) stopProcess() error {
	killed := false
	for begun := time.Now(); ; time.Sleep(stopPoll) {
		held, err := kernel.Locked(f.folder)
		if err != nil || !held {
			return err
		}
		limit := stopTimeout
		if _, err := os.Stat(f.ending); err == nil && !killed {
			limit = removeTimeout
		}
		late, did := time.Since(begun) > limit, false
		if !killed {
			if did, err = f.killHolder(late); err != nil {
				return err
			}
		}
		switch {
		case did:
			killed, begun = true, time.Now()
		case late:
			return verr.New(verr.Busy, "cannot stop the fast path", "its daemon does not answer, and runs in another PID namespace", "kill that process, and run the command again")
		}
		if err := f.requestStop(); err != nil {
			return err
		}
	}
}

// killHolder kills the process that carries if it is stopped, or late.
func (f files) killHolder(late bool) (did bool, err error) {
	p := f.holder()
	if p == nil {
		return false, nil
	}
	defer release(p)
	if !late && !isStopped(p.Pid) {
		return false, nil
	}
	if err := p.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return false, fmt.Errorf("kill process %d, which did not stop the fast path when asked: %w", p.Pid, err)
	}
	return true, nil
}

// holder is the process that carries, if it lives and can be seen from here; nil: it does not, or
// cannot. It has the folder open, which no other process with its ID has. The handle is that of a
// process, not of an ID: it never reaches another that gets the ID later. The caller releases it.
func (f files) holder() *os.Process {
	pid := 0
	if err := host.ReadJSON(f.process, &pid); err != nil || pid <= 0 {
		return nil
	}
	folder, err := os.Stat(f.folder)
	if err != nil {
		return nil
	}
	p, err := os.FindProcess(pid) // before its files are looked at, which thus are those of this process or a later one
	if err != nil {
		return nil
	}
	open, _ := sanitize.Files(filepath.Join("/proc", strconv.Itoa(pid), "fd"), "*") // the pattern is sound
	for _, fd := range open {
		if is, err := os.Stat(fd); err == nil && os.SameFile(is, folder) {
			return p
		}
	}
	release(p)
	return nil
}

// release closes a process's handle: that cannot fail in a way that matters.
func release(p *os.Process) { _ = p.Release() }

// isStopped tells whether a process is stopped, by a signal or by a debugger.
func isStopped(pid int) bool {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return false
	}
	_, state, _ := strings.Cut(string(text), ") ") // behind the name
	return strings.HasPrefix(state, "T") || strings.HasPrefix(state, "t")
}

// untilStopped waits until somebody asks to end, or ctx ends.
func (f files) untilStopped(ctx context.Context) {
	for tick := time.NewTicker(stopPoll); ; {
		select {
		case <-ctx.Done():
			tick.Stop()
			return
		case <-tick.C:
			if f.stopRequested() {
				tick.Stop()
				return
			}
		}
	}
}

// stopRequested tells whether somebody has asked to end.
func (f files) stopRequested() bool {
	_, err := os.Stat(f.stop)
	return err == nil
}

// visible is a folder of pins as the process that carries sees it, if it lives.
func (f files) visible(pins string) string {
	p := f.holder()
	if p == nil {
		return pins
	}
	defer release(p)
	return seenBy(p, pins)
}

// seenBy is a folder as a process sees it.
func seenBy(p *os.Process, folder string) string {
	return filepath.Join("/proc", strconv.Itoa(p.Pid), "root", folder)
}
