package change

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
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

// The points. Programs at the first two run before those of tc filters. The others
// are those of a netkit pair, and both go by its primary device: programs there run
// in the transmission of one end, before the other one receives anything.
const (
	Ingress       = Attach(ebpf.AttachTCXIngress)    // what the device receives
	Egress        = Attach(ebpf.AttachTCXEgress)     // what is sent by it
	NetkitPeer    = Attach(ebpf.AttachNetkitPeer)    // what the other end sends
	NetkitPrimary = Attach(ebpf.AttachNetkitPrimary) // what the device itself sends, behind Egress
)

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
// error wraps [ErrGone] if there is no such device.
func (n *Namespace) AttachProgram(p *ebpf.Program, device int, at Attach, pin string) error {
	return n.fail(fmt.Sprintf("attach %s to device %d", filepath.Base(pin), device), n.do(func() error {
		if replaced, err := replaceProgram(p, device, at, pin); replaced || err != nil {
			return err
		}
		l, err := at.attach(p, device)
		if errors.Is(err, unix.ENODEV) || at.ofNetkit() && errors.Is(err, unix.ENXIO) { // another is there by now
			return ErrGone
		}
		if err != nil {
			return err
		}
		defer l.Close()
		return l.Pin(pin)
	}))
}

// replaceProgram puts a program in the place of a pinned one, if it is attached
// to the same point still.
func replaceProgram(p *ebpf.Program, device int, at Attach, pin string) (bool, error) {
	l, err := link.LoadPinnedLink(pin, nil)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer l.Close()
	switch there, err := attachedTo(l, device, at); {
	case err != nil:
		return false, err
	case !there:
		return false, l.Unpin()
	}
	return true, l.Update(p)
}

// Attached tells whether something is attached to a point of a device by a pin.
func Attached(pin string, device int, at Attach) (bool, error) {
	l, err := link.LoadPinnedLink(pin, nil)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer l.Close()
	return attachedTo(l, device, at)
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
func DetachProgram(pin string) error {
	l, err := link.LoadPinnedLink(pin, nil)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("detach %s: %w", filepath.Base(pin), err)
	}
	defer l.Close()
	return l.Unpin()
}

// TryTCX tries whether the kernel has such points to attach to.
func (n *Namespace) TryTCX() error {
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.SchedCLS, License: "GPL", Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, -1), asm.Return()},
	})
	if err != nil {
		return err
	}
	defer p.Close()
	return n.fail("attach a program to a device", n.do(func() error {
		const loopback = 1
		l, err := link.AttachTCX(link.TCXOptions{Interface: loopback, Program: p, Attach: ebpf.AttachTCXIngress})
		switch {
		case err == nil:
			err = l.Close()
		case errors.Is(err, ebpf.ErrNotSupported): // the library found that out, not the kernel
			err = fmt.Errorf("%w: %w", err, unix.EOPNOTSUPP)
		}
		return err
	}))
}
