package netcfg

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/safchain/ethtool"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/host"
)

// Namespace is an owned network namespace, open for writing. While it is open
// it keeps the kernel's namespace alive, even when its name is deleted.
type Namespace struct {
	name string
	path string
	file *os.File        // for the kernel calls that take a namespace by descriptor
	h    *netlink.Handle // its socket lives inside the namespace
	cpus []int           // see [Namespace.Confine]
}

// Open gets hold of a namespace that is there already.
func (w *Writer) Open(name string) (*Namespace, error) {
	if _, err := w.ownID(name); err != nil {
		return nil, err
	}
	return openFile(name, host.NamespacePath(name))
}

// openFile opens the namespace whose file is path.
func openFile(name, path string) (*Namespace, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open namespace: %w", err)
	}
	n := &Namespace{name: name, path: path, file: file}
	err = n.Do(func() error {
		n.h, err = netlink.NewHandle(unix.NETLINK_ROUTE)
		return err
	})
	if err != nil {
		file.Close()
		return nil, n.Wrap("open netlink", err)
	}
	return n, nil
}

// WithScratch gives fn a nameless namespace that is gone when fn returns. It is
// for asking the kernel what it can do, by trying.
func WithScratch(fn func(*Namespace) error) error {
	return host.InThread(func() error {
		n, err := unshare()
		if err != nil {
			return err
		}
		defer n.Close()
		return fn(n)
	})
}

// NewAnonymous makes a namespace that nobody finds by a name. It is gone when it is
// closed, and what was started in it has ended.
func NewAnonymous() (n *Namespace, err error) {
	err = host.InThread(func() error {
		n, err = unshare()
		return err
	})
	return n, err
}

// unshare moves the calling thread to a new namespace, and holds that.
func unshare() (*Namespace, error) {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return nil, fmt.Errorf("make a namespace: %w", err)
	}
	n, err := openFile("a nameless namespace", "/proc/thread-self/ns/net")
	if err == nil {
		n.path = fmt.Sprintf("/proc/self/fd/%d", n.file.Fd())
	}
	return n, err
}

// Name is the full name.
func (n *Namespace) Name() string { return n.name }

// Path is the namespace's file; that of a nameless one is there for this process
// alone, until it is closed.
func (n *Namespace) Path() string { return n.path }

// Close lets go of the namespace; it does not delete it.
func (n *Namespace) Close() {
	n.h.Close()
	n.file.Close()
}

// Handle is a netlink socket inside the namespace, for the packages that write to it.
func (n *Namespace) Handle() *netlink.Handle { return n.h }

// Do runs fn inside. The namespace is entered by its descriptor, so it does
// not matter whether it still has its name.
func (n *Namespace) Do(fn func() error) error {
	return host.Do(fmt.Sprintf("/proc/self/fd/%d", n.file.Fd()), fn)
}

// Wrap gives an error of this namespace its name.
func (n *Namespace) Wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s in %s: %w", what, n.name, err)
}

// Sysctl is one sysctl to write. A name is dotted, or has slashes when it
// holds a device name. An optional one is passed over where the kernel does
// not have it.
type Sysctl struct {
	Name, Value string
	Optional    bool
}

// Sysctl writes settings in order, and reads each back.
func (n *Namespace) Sysctl(settings ...Sysctl) error {
	return n.Do(func() error {
		for _, s := range settings {
			if err := s.write(); err != nil && (!s.Optional || !errors.Is(err, os.ErrNotExist)) {
				return n.Wrap("write sysctl "+s.Name, err)
			}
		}
		return nil
	})
}

// sysctlWrites lets one write of a sysctl be under way at a time. A kernel that cannot
// have the lock of its network settings at once puts the old value of a forwarding
// switch back and begins again; with two writers of the same value, each can take the
// other's half-made change for its own start, and the machine then says that it
// forwards while none of its devices does (devinet_sysctl_forward in
// net/ipv4/devinet.c).
var sysctlWrites sync.Mutex

// write writes the setting in the namespace of this thread, and reads it back.
func (s Sysctl) write() error {
	sysctlWrites.Lock()
	defer sysctlWrites.Unlock()
	if err := os.WriteFile(filepath.Join("/proc/sys", host.SysctlFile(s.Name)), []byte(s.Value), 0o644); err != nil {
		return err
	}
	got, err := host.Reader{}.Sysctl(s.Name)
	if err == nil && got != s.Value {
		err = fmt.Errorf("asked for %q, the kernel says %q", s.Value, got)
	}
	return err
}

// Features switches offloads of a device, by the names that `ethtool -k` uses
// for single bits. What took effect is read back; the kernel may refuse a bit
// without saying so, or take one away along with another, and that is an error.
func (n *Namespace) Features(device string, want map[string]bool) error {
	return n.Do(func() error {
		tool, err := ethtool.NewEthtool()
		if err != nil {
			return n.Wrap("open ethtool", err)
		}
		defer tool.Close()
		change := func(device string) (any, error) { return nil, tool.Change(device, want) }
		if _, err := host.AskEthtool(change, device); err != nil {
			return n.Wrap("set features of "+device, err)
		}
		got, err := host.AskEthtool(tool.Features, device)
		if err != nil {
			return n.Wrap("read back features of "+device, err)
		}
		var wrong []string
		for name, on := range want {
			if got[name] != on {
				wrong = append(wrong, fmt.Sprintf("%s stays %s", name, host.OnOff(got[name])))
			}
		}
		slices.Sort(wrong)
		if len(wrong) > 0 {
			return n.Wrap("set features of "+device, fmt.Errorf("the kernel did not take them: %s", strings.Join(wrong, ", ")))
		}
		return nil
	})
}
