package kernel

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	pinned "github.com/cilium/ebpf/pin"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/netcfg"
)

// MountPins mounts a BPF file system at a path, unless there is one. Programs and tables
// that are pinned there stay until it is unmounted.
func MountPins(path string) error {
	if err := makeFolders(path); err != nil {
		return err
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(path, &fs); err != nil {
		return fmt.Errorf("look at %s: %w", path, err)
	}
	if fs.Type == unix.BPF_FS_MAGIC {
		return nil
	}
	if err := unix.Mount("venturi", path, "bpf", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=0700"); err != nil {
		return fmt.Errorf("mount a BPF file system at %s: %w", path, err)
	}
	return nil
}

// makeFolders makes a folder, and those above it, of which somebody else may just remove one in which nothing is yet.
func makeFolders(path string) (err error) {
	for range 10 {
		if err = os.MkdirAll(path, 0o700); !errors.Is(err, os.ErrNotExist) {
			break
		}
	}
	return err
}

// UnmountPins unmounts every BPF file system below a path. What is pinned there, and held by
// nothing else, is unloaded.
func UnmountPins(below string) error {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	var failed error
	for line := range strings.Lines(string(mounts)) {
		fields := strings.Fields(line)
		if len(fields) < 5 || !strings.HasPrefix(fields[4], filepath.Clean(below)+"/") || !strings.Contains(line, " - bpf ") {
			continue
		}
		if err := unix.Unmount(fields[4], unix.MNT_DETACH); err != nil {
			failed = errors.Join(failed, fmt.Errorf("unmount %s: %w", fields[4], err))
		}
	}
	return failed
}

// RemovePins unmounts what is mounted below a folder, and removes the folder, and the one that it
// is in if nothing else is there.
func RemovePins(folder string) error {
	if err := UnmountPins(folder); err != nil {
		return err
	}
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	_ = os.Remove(filepath.Dir(folder)) // fails if there is something in it
	return nil
}

// DiscardPins removes a folder as [RemovePins] does, but its path in one step: whoever finds nothing there may make a
// new one.
func DiscardPins(folder string) error {
	aside := folder + ".old"
	// Somebody who was killed in between may have left one.
	if err := errors.Join(UnmountPins(folder), os.RemoveAll(aside)); err != nil {
		return err
	}
	if err := os.Rename(folder, aside); err != nil {
		return err
	}
	return RemovePins(aside)
}

// RemoveFiles removes pins, or what a daemon has written beside them, if they are there.
func RemoveFiles(files ...string) error {
	var failed error
	for _, f := range files {
		if err := os.Remove(f); err != nil && !errors.Is(err, os.ErrNotExist) {
			failed = errors.Join(failed, err)
		}
	}
	return failed
}

// AttachPoint is where a program sees the packets of a device.
type AttachPoint ebpf.AttachType

// The kernel's attach points. Programs at the first two, which exist from Linux 6.6 on, run
// before tc filters, such as those at [FilterIngress] and [FilterEgress]. The others are
// those of a netkit pair, both named by its primary device: programs there run in the
// transmission of one end, before the other receives.
const (
	Ingress       = AttachPoint(ebpf.AttachTCXIngress)    // what the device receives
	Egress        = AttachPoint(ebpf.AttachTCXEgress)     // what is sent by it
	NetkitPeer    = AttachPoint(ebpf.AttachNetkitPeer)    // what the other end sends
	NetkitPrimary = AttachPoint(ebpf.AttachNetkitPrimary) // what the device itself sends, behind Egress
)

// IsFilter tells whether programs at the point are tc filters.
func (at AttachPoint) IsFilter() bool { return filterParents[at] != 0 }

// isNetkit tells whether the point is that of a netkit pair.
func (at AttachPoint) isNetkit() bool { return at == NetkitPeer || at == NetkitPrimary }

// attach attaches a program in the calling thread's network namespace.
func (at AttachPoint) attach(p *ebpf.Program, device int) (link.Link, error) {
	if at.isNetkit() {
		return link.AttachNetkit(link.NetkitOptions{Interface: device, Program: p, Attach: ebpf.AttachType(at)})
	}
	return link.AttachTCX(link.TCXOptions{Interface: device, Program: p, Attach: ebpf.AttachType(at)})
}

// AttachProgram attaches a program to a device of the namespace, and pins it: it stays until
// it is detached, or the device goes away. A program with the same pin is replaced
// atomically. The error wraps [host.ErrGone] if the device or its attach point is gone.
func AttachProgram(n *netcfg.Namespace, p *ebpf.Program, device int, at AttachPoint, pin string) error {
	return n.Wrap(fmt.Sprintf("attach %s to device %d", filepath.Base(pin), device), n.Do(func() error {
		if at.IsFilter() {
			return putFilter(n, p, device, at, pin)
		}
		if replaced, err := replaceLink(n, p, device, at, pin); replaced || err != nil {
			return err
		}
		l, err := at.attach(p, device)
		if errors.Is(err, unix.ENODEV) || at.isNetkit() && errors.Is(err, unix.ENXIO) { // another device has its index now
			return host.ErrGone
		}
		if err != nil {
			return err
		}
		defer l.Close()
		return l.Pin(pin)
	}))
}

// ReplaceProgram atomically replaces the program that a pin attaches to a device. It tells
// whether there was one.
func ReplaceProgram(n *netcfg.Namespace, p *ebpf.Program, device int, at AttachPoint, pin string) (done bool, err error) {
	err = n.Do(func() error {
		if !at.IsFilter() {
			done, err = replaceLink(n, p, device, at, pin)
			return err
		}
		f, err := filterOf(n, pin, device, at)
		if f == nil || err != nil {
			return err
		}
		err = replaceFilter(n, p, device, at, pin, f)
		done = err == nil
		if errors.Is(err, host.ErrGone) {
			return nil
		}
		return err
	})
	return done, n.Wrap(fmt.Sprintf("replace %s at device %d", filepath.Base(pin), device), err)
}

// replaceLink replaces the program of a pinned link, if the link is still attached at the
// same point. A link that is attached elsewhere is detached.
func replaceLink(n *netcfg.Namespace, p *ebpf.Program, device int, at AttachPoint, pin string) (bool, error) {
	if _, err := os.Lstat(pin); errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	there, err := Attached(n, pin, device, at)
	if err != nil {
		return false, err
	}
	if !there {
		return false, DetachProgram(n, pin)
	}
	l, err := link.LoadPinnedLink(pin, nil)
	if err != nil {
		return false, err
	}
	defer l.Close()
	return true, l.Update(p)
}

// Attached tells whether something is attached to a point of a device by a pin.
func Attached(n *netcfg.Namespace, pin string, device int, at AttachPoint) (bool, error) {
	by, err := pinned.Load(pin, nil)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer by.Close()
	if l, ok := by.(link.Link); ok {
		return attachedTo(l, device, at)
	}
	if !at.IsFilter() {
		return false, nil
	}
	f, err := filterOf(n, pin, device, at)
	return f != nil, err
}

func attachedTo(l link.Link, device int, at AttachPoint) (bool, error) {
	info, err := l.Info()
	if err != nil {
		return false, err
	}
	if nk := info.Netkit(); nk != nil {
		// The index is that of the end which sends, in the namespace where that is. There
		// is none when it has gone, and then the pair has.
		return AttachPoint(nk.AttachType) == at && nk.Ifindex != 0, nil
	}
	tcx := info.TCX()
	return tcx != nil && AttachPoint(tcx.AttachType) == at && int(tcx.Ifindex) == device, nil
}

// DetachProgram detaches the program of a pin, and removes the pin. A missing pin is not an
// error.
func DetachProgram(n *netcfg.Namespace, pin string) error {
	by, err := pinned.Load(pin, nil)
	if err == nil {
		defer by.Close()
	}
	if l, ok := by.(link.Link); ok {
		// Without its pin the link would go too, but later: until then the same program
		// cannot be attached again.
		err = l.Detach()
		if errors.Is(err, ebpf.ErrNotSupported) { // of a kind that another version of the daemon has: it goes without its pin
			err = nil
		}
		err = errors.Join(err, RemoveFiles(pin))
	} else if err == nil || errors.Is(err, os.ErrNotExist) {
		err = errors.Join(removeFilter(n, pin), RemoveFiles(pin))
	}
	return n.Wrap("detach "+filepath.Base(pin), err)
}
