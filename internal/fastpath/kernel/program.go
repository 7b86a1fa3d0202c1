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

// PinFolder makes a folder in which programs and tables of BPF can be pinned: they
// stay as long as the folder does, whoever dies. One that is there is taken as
// it is.
func PinFolder(path string) error {
	if err := os.MkdirAll(path, 0o700); err != nil {
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

// DropPins takes away every folder of [PinFolder] below a path, and with it what is
// pinned there and attached by nothing else.
func DropPins(below string) error {
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

// Attach is where a program sees the packets of a device.
type Attach ebpf.AttachType

// The points of the kernel. Programs at the first two, from Linux 6.6 on, run before tc
// filters, such as are at [FilterIngress] and [FilterEgress]. The others are those of a
// netkit pair, and both go by its primary device: programs there run in the transmission
// of one end, before the other one receives anything.
const (
	Ingress       = Attach(ebpf.AttachTCXIngress)    // what the device receives
	Egress        = Attach(ebpf.AttachTCXEgress)     // what is sent by it
	NetkitPeer    = Attach(ebpf.AttachNetkitPeer)    // what the other end sends
	NetkitPrimary = Attach(ebpf.AttachNetkitPrimary) // what the device itself sends, behind Egress
)

// ofFilter tells whether a point is one of tc filters.
func (at Attach) ofFilter() bool { return filterParents[at] != 0 }

// ofNetkit tells whether a point is one of a netkit pair.
func (at Attach) ofNetkit() bool { return at == NetkitPeer || at == NetkitPrimary }

// attach attaches a program by the calling thread's namespace.
func (at Attach) attach(p *ebpf.Program, device int) (link.Link, error) {
	if at.ofNetkit() {
		return link.AttachNetkit(link.NetkitOptions{Interface: device, Program: p, Attach: ebpf.AttachType(at)})
	}
	return link.AttachTCX(link.TCXOptions{Interface: device, Program: p, Attach: ebpf.AttachType(at)})
}

// AttachProgram attaches a program to a device of the namespace, by its index, and
// pins that: it stays until it is detached, or the device goes away. If there is a
// program by that pin, the new one takes its place, with no packet between. The
// error wraps [host.ErrGone] if there is no such device, or no such place at it any more.
func AttachProgram(n *netcfg.Namespace, p *ebpf.Program, device int, at Attach, pin string) error {
	return n.Wrap(fmt.Sprintf("attach %s to device %d", filepath.Base(pin), device), n.Do(func() error {
		if at.ofFilter() {
			return putFilter(n, p, device, at, pin)
		}
		if replaced, err := replaceProgram(n, p, device, at, pin); replaced || err != nil {
			return err
		}
		l, err := at.attach(p, device)
		if errors.Is(err, unix.ENODEV) || at.ofNetkit() && errors.Is(err, unix.ENXIO) { // another is there by now
			return host.ErrGone
		}
		if err != nil {
			return err
		}
		defer l.Close()
		return l.Pin(pin)
	}))
}

// ExchangeProgram puts a program in the place of that which a pin attaches to a point of
// a device, with no packet between. It tells whether there was one.
func ExchangeProgram(n *netcfg.Namespace, p *ebpf.Program, device int, at Attach, pin string) (done bool, err error) {
	err = n.Do(func() error {
		if !at.ofFilter() {
			done, err = replaceProgram(n, p, device, at, pin)
			return err
		}
		f, err := filterOf(n, pin, device, at)
		if f == nil || err != nil {
			return err
		}
		err = putFilter(n, p, device, at, pin)
		done = err == nil
		if errors.Is(err, host.ErrGone) {
			return nil
		}
		return err
	})
	return done, n.Wrap(fmt.Sprintf("exchange %s at device %d", filepath.Base(pin), device), err)
}

// replaceProgram puts a program in the place of a pinned link's, if that is attached
// to the same point still. What is attached elsewhere by that pin is detached.
func replaceProgram(n *netcfg.Namespace, p *ebpf.Program, device int, at Attach, pin string) (bool, error) {
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
func Attached(n *netcfg.Namespace, pin string, device int, at Attach) (bool, error) {
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
	if !at.ofFilter() {
		return false, nil
	}
	f, err := filterOf(n, pin, device, at)
	return f != nil, err
}

func attachedTo(l link.Link, device int, at Attach) (bool, error) {
	info, err := l.Info()
	if err != nil {
		return false, err
	}
	if nk := info.Netkit(); nk != nil {
		// The index is that of the end which sends, in the namespace where that is. There
		// is none when it has gone, and then the pair has.
		return Attach(nk.AttachType) == at && nk.Ifindex != 0, nil
	}
	tcx := info.TCX()
	return tcx != nil && Attach(tcx.AttachType) == at && int(tcx.Ifindex) == device, nil
}

// DetachProgram takes away what is attached by a pin. Where there is none, that is
// no error.
func DetachProgram(n *netcfg.Namespace, pin string) error {
	by, err := pinned.Load(pin, nil)
	if err == nil {
		defer by.Close()
	}
	if l, ok := by.(link.Link); ok {
		// Without its pin it would go, too, but only some time later: until then the same
		// program cannot be attached again.
		err = errors.Join(l.Detach(), removed(pin))
	} else if err == nil || errors.Is(err, os.ErrNotExist) {
		err = errors.Join(dropFilter(n, pin), removed(pin))
	}
	return n.Wrap("detach "+filepath.Base(pin), err)
}

// removed removes a pin, if it is there still.
func removed(pin string) error {
	err := os.Remove(pin)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}
