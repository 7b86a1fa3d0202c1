package setting

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/host"
)

// Stores are those of this package. Root is the folder that holds proc, sys and
// etc, for what belongs to the machine as a whole; empty on a real machine.
func Stores(root string) []Store {
	return append(deviceStores(),
		sysctlStore(),
		ipv6Store(),
		kernelFileStore(root),
		fileStore(root),
		irqStore(root),
		heldStore(root),
		unitStore(),
		unitFileStore(),
		unitConfigStore(root),
		tunedStore(root),
		nftStore(),
	)
}

// sysctlStore is /proc/sys of a namespace. A key is the file below it, with
// slashes.
func sysctlStore() Store {
	at := func(c Cell, fn func(file string) error) error {
		return c.Place.Enter(func(string) error { return fn(filepath.Join("/proc/sys", c.Key)) })
	}
	return Store{
		Name:  "sysctl",
		Read:  readAt(at),
		Write: writeAt(at),
		Alike: alikeText,
		Same:  sameText,
		// An algorithm that the machine's first namespace makes its own is allowed
		// to everybody from then on.
		Around: func(c Cell) ([]Cell, error) {
			if c.Key != "net/ipv4/tcp_congestion_control" {
				return nil, nil
			}
			return []Cell{{Store: c.Store, Place: c.Place, Key: "net/ipv4/tcp_allowed_congestion_control"}}, nil
		},
	}
}

// deviceFileStore is the folder of a device in sysfs. A key is a file below it:
// "queues/rx-0/rps_cpus".
func deviceFileStore() Store {
	at := func(c Cell, fn func(file string) error) error {
		if c.Place.Device == nil {
			return errors.New("no device is named")
		}
		return c.Place.Enter(func(device string) error {
			return c.Place.sysfs(func(root string) error { return fn(filepath.Join(root, "class/net", device, c.Key)) })
		})
	}
	return Store{
		Name:   "net",
		Read:   readAt(at),
		Write:  writeAt(at),
		Alike:  alikeText,
		Same:   sameText,
		Around: aroundDeviceFile,
	}
}

// within runs fn where the file of a cell can be reached, with its name there.
type within func(c Cell, fn func(file string) error) error

// readAt makes the Read of a store whose cells are files that the kernel makes up.
func readAt(at within) func(Cell) (Value, error) {
	return func(c Cell) (v Value, err error) {
		err = at(c, func(file string) error {
			v, err = readText(file)
			return err
		})
		return v, err
	}
}

// writeAt makes the Write of such a store.
func writeAt(at within) func(Cell, Value) error {
	return func(c Cell, v Value) error {
		return at(c, func(file string) error { return writeText(file, v) })
	}
}

// kernelFileStore is what the kernel shows of the machine as a whole below /proc
// and /sys. A key is the whole file name.
func kernelFileStore(root string) Store {
	return Store{
		Name:  "kernel",
		Read:  func(c Cell) (Value, error) { return readText(filepath.Join(root, c.Key)) },
		Write: func(c Cell, v Value) error { return writeText(filepath.Join(root, c.Key), v) },
		Alike: sameText,
		Same:  sameText,
		// Governor performance has a preference of its own.
		Around: func(c Cell) ([]Cell, error) {
			policy, ok := strings.CutSuffix(c.Key, "/scaling_governor")
			if !ok {
				return nil, nil
			}
			return []Cell{{Store: c.Store, Key: policy + "/energy_performance_preference"}}, nil
		},
	}
}

// readText reads a file that the kernel makes up. Of a list of words of which
// one is chosen ("always [madvise] never") the value is the one in brackets: it
// is what would have to be written.
func readText(file string) (Value, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return Value{}, why(err)
	}
	if _, after, found := strings.Cut(string(data), "["); found {
		if chosen, _, closed := strings.Cut(after, "]"); closed && !strings.Contains(chosen, " ") {
			return Text(chosen), nil
		}
	}
	return Value{Data: data, Present: true}, nil
}

// writeText writes in one call, and never makes a file.
func writeText(file string, v Value) error {
	if !v.Present {
		return errors.New("it cannot be made absent")
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return why(err)
	}
	n, err := f.Write(v.Data)
	if err == nil && n < len(v.Data) {
		err = fmt.Errorf("it took only %d of %d bytes", n, len(v.Data))
	}
	return why(errors.Join(err, f.Close()))
}

// why leaves of an error about a file what the caller does not know: the file is
// called by a descriptor there, or its name has been said.
func why(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		if errors.Is(p.Err, unix.ENODEV) {
			return fmt.Errorf("%w: %w", host.ErrGone, p.Err)
		}
		return p.Err
	}
	return err
}

// Sysctl gives the cell of a sysctl, by its dotted name, in a namespace.
func Sysctl(in Place, name string) Cell {
	return Cell{Store: "sysctl", Place: Place{Netns: in.Netns}, Key: host.SysctlFile(name)}
}
