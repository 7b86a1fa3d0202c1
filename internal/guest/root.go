package guest

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// mount is one file system. An optional one is skipped if the kernel does not support it.
type mount struct {
	kind, source, target string
	flags                uintptr
	options              string
	optional             bool
}

func (m mount) do() error {
	err := os.MkdirAll(m.target, 0o755)
	if err == nil {
		err = unix.Mount(m.source, m.target, m.kind, m.flags, m.options)
	}
	if err != nil && !m.optional {
		return fmt.Errorf("mount %s on %s: %w", m.kind, m.target, err)
	}
	return nil
}

func mountAll(mounts []mount) error {
	for _, m := range mounts {
		if err := m.do(); err != nil {
			return err
		}
	}
	return nil
}

const (
	plain = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	// share are the mount options of every shared folder. The message size is the largest that the
	// transport supports.
	share = "trans=virtio,version=9p2000.L,msize=512000"
)

// kernelMounts are the kernel's own file systems.
var kernelMounts = []mount{
	{kind: "proc", source: "proc", target: "/proc", flags: plain},
	{kind: "sysfs", source: "sysfs", target: "/sys", flags: plain},
	{kind: "devtmpfs", source: "devtmpfs", target: "/dev", flags: unix.MS_NOSUID, options: "mode=755"},
}

// bootMounts are the others that a Debian machine has after booting.
var bootMounts = []mount{
	{kind: "devpts", source: "devpts", target: "/dev/pts", flags: unix.MS_NOSUID | unix.MS_NOEXEC, options: "gid=5,mode=620,ptmxmode=666"},
	{kind: "tmpfs", source: "tmpfs", target: "/dev/shm", flags: unix.MS_NOSUID | unix.MS_NODEV, options: "mode=1777"},
	{kind: "tmpfs", source: "tmpfs", target: "/run", flags: unix.MS_NOSUID | unix.MS_NODEV, options: "mode=755"},
	{kind: "cgroup2", source: "cgroup2", target: "/sys/fs/cgroup", flags: plain, optional: true},
	{kind: "bpf", source: "bpf", target: "/sys/fs/bpf", flags: plain, options: "mode=700", optional: true},
	{kind: "debugfs", source: "debugfs", target: "/sys/kernel/debug", flags: plain, optional: true},
	{kind: "tracefs", source: "tracefs", target: "/sys/kernel/tracing", flags: plain, optional: true},
}

// mountFirst mounts what all later steps need.
func mountFirst() error { return mountAll(kernelMounts) }

// enterRoot makes the host's file system the guest's root: the lower layer of an overlay, whose
// upper layer is in memory.
func enterRoot(c Config) error {
	err := mountAll([]mount{
		{kind: "9p", source: RootTag, target: "/lower", flags: unix.MS_RDONLY, options: share + ",cache=loose"},
		{kind: "tmpfs", source: "tmpfs", target: "/upper", options: "mode=755"},
	})
	if err != nil {
		return err
	}
	for _, folder := range []string{"/upper/files", "/upper/work"} {
		if err := os.Mkdir(folder, 0o755); err != nil {
			return fmt.Errorf("make the root file system: %w", err)
		}
	}
	const root = "/root"
	overlay := mount{kind: "overlay", source: "overlay", target: root,
		options: "lowerdir=/lower,upperdir=/upper/files,workdir=/upper/work"}
	if err := overlay.do(); err != nil {
		return err
	}
	if err := changeRoot(root); err != nil {
		return fmt.Errorf("change to the root file system: %w", err)
	}
	mounts := append(append([]mount{}, kernelMounts...), bootMounts...)
	if c.HasKmod {
		mounts = append(mounts, mount{kind: "9p", source: ModulesTag, target: filepath.Join("/lib/modules", c.Release),
			flags: unix.MS_RDONLY, options: share + ",cache=loose"})
	}
	for i, folder := range c.Writable {
		// Without caching: what is written is on the host when the call returns.
		mounts = append(mounts, mount{kind: "9p", source: WritableTag(i), target: folder, options: share + ",cache=none"})
	}
	if err := mountAll(mounts); err != nil {
		return err
	}
	return makeDevices(filepath.Join("/lib/modules", c.Release, "modules.devname"))
}

// changeRoot does what switch_root(8) does. It must run in the first process, so that the kernel's
// own calls of modprobe see the new root.
func changeRoot(to string) error {
	if err := unix.Chdir(to); err != nil {
		return err
	}
	if err := unix.Mount(".", "/", "", unix.MS_MOVE, ""); err != nil {
		return err
	}
	if err := unix.Chroot("."); err != nil {
		return err
	}
	return unix.Chdir("/")
}

// deviceLinks are links in /dev that no kernel makes.
var deviceLinks = map[string]string{
	"/dev/fd": "/proc/self/fd", "/dev/stdin": "/proc/self/fd/0",
	"/dev/stdout": "/proc/self/fd/1", "/dev/stderr": "/proc/self/fd/2",
}

// makeDevices makes the files in /dev that udev would make: links, and the nodes of modules that
// are loaded when a node is opened, such as /dev/net/tun.
func makeDevices(devname string) error {
	for link, to := range deviceLinks {
		if err := os.Symlink(to, link); err != nil && !errors.Is(err, os.ErrExist) {
			return fmt.Errorf("make devices: %w", err)
		}
	}
	f, err := os.Open(devname)
	if err != nil {
		return nil // a kernel without modules
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		file, mode, device, ok := deviceNode(lines.Text())
		if !ok {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return fmt.Errorf("make devices: %w", err)
		}
		if err := unix.Mknod(file, mode|0o600, int(device)); err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("make device %s: %w", file, err)
		}
	}
	return nil
}

// deviceNode parses a line of modules.devname: "tun net/tun c10:200".
func deviceNode(line string) (file string, mode uint32, device uint64, ok bool) {
	words := strings.Fields(line)
	if len(words) != 3 || strings.HasPrefix(line, "#") {
		return "", 0, 0, false
	}
	kinds := map[string]uint32{"c": unix.S_IFCHR, "b": unix.S_IFBLK}
	mode, ok = kinds[words[2][:1]]
	major, minor, colon := strings.Cut(words[2][1:], ":")
	a, errA := strconv.ParseUint(major, 10, 32)
	b, errB := strconv.ParseUint(minor, 10, 32)
	if !ok || !colon || errA != nil || errB != nil || !filepath.IsLocal(words[1]) {
		return "", 0, 0, false
	}
	return filepath.Join("/dev", words[1]), mode, unix.Mkdev(uint32(a), uint32(b)), true
}
