package node

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/kernel"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/verr"
)

// Root holds a folder for each network namespace that has a fast path of its own.
const Root = "/run/venturi-fastpath"

// files are those of the fast path of a network namespace. Whoever carries holds the lock of the
// folder. The pins are on a file system that may be mounted for that process alone, as in a
// container or below "ip netns exec".
type files struct {
	folder, pins, state, config string
	process                     string // holds the ID of the process
	stop                        string // asks the process to end
}

// ownFiles are those of the calling thread's namespace.
func ownFiles() (files, error) {
	id, err := host.ID("/proc/thread-self/ns/net")
	if err != nil {
		return files{}, err
	}
	folder := filepath.Join(Root, strconv.FormatUint(id.Ino, 10))
	pins := filepath.Join(folder, "bpf")
	return files{
		folder, pins, fastpath.StateFile(pins), filepath.Join(folder, "config.json"),
		filepath.Join(folder, "process"), filepath.Join(folder, "stop"),
	}, nil
}

const (
	backendName = "fastpath"
	enabled     = "enabled"
)

// Backend is whether a network namespace has a fast path: absent, or enabled. To write that it
// is absent ends its daemon, and removes its programs, its tables and its folder.
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
	return setting.Text(enabled), err
}

func write(v setting.Value) error {
	f, err := ownFiles()
	if err != nil {
		return err
	}
	if v.Present {
		return kernel.MountPins(f.pins)
	}
	return f.remove()
}

// remove has the process end that carries, if it lives, and removes what is left of the fast path.
func (f files) remove() error {
	if _, err := os.Stat(f.folder); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := f.stopProcess(); err != nil {
		return err
	}
	if err := fastpath.Remove(context.Background(), f.pins); err != nil {
		return err
	}
	return kernel.RemovePins(f.folder)
}

const stopPoll = 50 * time.Millisecond

// stopTimeout is how long the process may take to end.
var stopTimeout = host.ScaleTimeout(10 * time.Second)

// stopProcess asks the process that carries to end, and waits for it.
func (f files) stopProcess() error {
	for end := time.Now().Add(stopTimeout); ; time.Sleep(stopPoll) {
		held, err := kernel.Locked(f.folder)
		if err != nil || !held {
			return err
		}
		if time.Now().After(end) {
			return verr.New(verr.Busy, "cannot end the fast path", "its process does not answer (it may be stopped)", "kill it, and run the command again")
		}
		if err := netcfg.ReplaceJSON(f.stop, true); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
}

// untilStopped waits until somebody asks to end, or ctx ends.
func (f files) untilStopped(ctx context.Context) {
	for tick := time.NewTicker(stopPoll); ; {
		select {
		case <-ctx.Done():
			tick.Stop()
			return
		case <-tick.C:
			if _, err := os.Stat(f.stop); err == nil {
				tick.Stop()
				return
			}
		}
	}
}

// visiblePins are the pins as the process that carries sees them.
func (f files) visiblePins() string {
	pid := 0
	if err := host.ReadJSON(f.process, &pid); err != nil {
		return f.pins
	}
	return filepath.Join("/proc", strconv.Itoa(pid), "root", f.pins)
}
