package netcfg

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/host"
)

// Mark begins the name of every network namespace that Venturi owns. The name
// of its lab follows, then what it is in the lab: venturi.<lab>.<rest>.
const Mark = "venturi."

// MaxLab is the greatest length of a lab's name: with it, the path of a socket
// in the lab's folder stays below the 108 bytes that the kernel takes.
const MaxLab = 32

// ErrNotOwned is wrapped by the error of an attempt to touch a namespace that
// does not carry the mark of the writer's lab.
var ErrNotOwned = errors.New("not ours")

// The lab's name has no dot, so that it can be read back from a namespace's name.
var (
	labName  = regexp.MustCompile(`^[a-z0-9][a-z0-9-]*$`)
	restName = regexp.MustCompile(`^[a-z0-9][a-z0-9.+-]*$`)
)

// Writer is the owned writer of one lab.
type Writer struct{ lab string }

// Owned makes the writer for the namespaces of a lab. Only package lab and
// tests call it.
func Owned(lab string) (*Writer, error) {
	if !ValidLab(lab) {
		return nil, fmt.Errorf("use %q as name of a lab: want at most %d of a-z, 0-9 and -, the first no -", lab, MaxLab)
	}
	return &Writer{lab: lab}, nil
}

// ValidLab tells whether a lab may have this name.
func ValidLab(lab string) bool { return len(lab) <= MaxLab && labName.MatchString(lab) }

// Name gives the full name of one of the lab's namespaces.
func (w *Writer) Name(rest string) string { return Mark + w.lab + "." + rest }

// LabOf reads the lab's name from that of a namespace; false if it has no mark.
func LabOf(namespace string) (lab string, ok bool) {
	rest, ok := strings.CutPrefix(namespace, Mark)
	if !ok {
		return "", false
	}
	lab, _, ok = strings.Cut(rest, ".")
	return lab, ok && ValidLab(lab)
}

// Namespaces lists the names of all namespaces that carry the mark, of any
// lab, half-made ones included.
func Namespaces() ([]string, error) {
	entries, err := os.ReadDir(host.NamespaceFolder)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list namespaces: %w", err)
	}
	var names []string
	for _, e := range entries {
		if _, ok := LabOf(e.Name()); ok {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names, nil
}

// Namespaces lists those of the writer's own lab.
func (w *Writer) Namespaces() ([]string, error) {
	all, err := Namespaces()
	var own []string
	for _, name := range all {
		if w.owns(name) == nil {
			own = append(own, name)
		}
	}
	return own, err
}

// owns refuses a name without the mark of this lab.
func (w *Writer) owns(name string) error {
	rest, ok := strings.CutPrefix(name, Mark+w.lab+".")
	if !ok || !restName.MatchString(rest) || filepath.Base(name) != name {
		return fmt.Errorf("touch namespace %q: %w: want a name that begins with %s%s", name, ErrNotOwned, Mark, w.lab+".")
	}
	return nil
}

// ownID reads which namespace a name stands for and refuses the one that the
// machine itself lives in, which somebody may have given such a name.
func (w *Writer) ownID(name string) (host.NamespaceID, error) { return w.readID(name, host.ID) }

// ownIDAnywhere does the same, also where another mount lies over the namespace.
func (w *Writer) ownIDAnywhere(name string) (host.NamespaceID, error) {
	id, err := w.ownID(name)
	if err == nil || errors.Is(err, ErrNotOwned) {
		return id, err
	}
	return w.readID(name, hiddenID)
}

func (w *Writer) readID(name string, read func(path string) (host.NamespaceID, error)) (host.NamespaceID, error) {
	if err := w.owns(name); err != nil {
		return host.NamespaceID{}, err
	}
	// We make files and mount on them; a link of such a name leads to a
	// namespace that is somebody else's, such as a container's.
	if info, err := os.Lstat(host.NamespacePath(name)); err == nil && info.Mode()&os.ModeSymlink != 0 {
		return host.NamespaceID{}, fmt.Errorf("touch namespace %q: %w: it is a symbolic link", name, ErrNotOwned)
	}
	id, err := read(host.NamespacePath(name))
	if err != nil {
		return id, err
	}
	// Where the first process may not be looked at, this one stands for it: it
	// is in a lab's namespace only when somebody ran it there by hand.
	first, err := host.ID("/proc/1/ns/net")
	if err != nil {
		if first, err = host.ID("/proc/self/ns/net"); err != nil {
			return id, err
		}
	}
	if first == id {
		return id, fmt.Errorf("touch namespace %q: %w: it is the machine's own", name, ErrNotOwned)
	}
	return id, nil
}

// Create makes a network namespace with nothing in it but a loopback device,
// which is brought up. On an error nothing is left behind.
func (w *Writer) Create(name string) (*Namespace, error) {
	if err := w.owns(name); err != nil {
		return nil, err
	}
	if err := shareNetnsFolder(); err != nil {
		return nil, fmt.Errorf("create namespace %s: %w", name, err)
	}
	path := host.NamespacePath(name)
	err := makeName(path)
	if err != nil {
		return nil, fmt.Errorf("create namespace %s: %w", name, err)
	}
	err = host.InThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("unshare: %w", err)
		}
		// The mount keeps the namespace when the thread goes back home.
		if err := unix.Mount("/proc/thread-self/ns/net", path, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("bind mount: %w", err)
		}
		return nil
	})
	var n *Namespace
	if err == nil {
		if n, err = w.Open(name); err == nil {
			if err = n.Up("lo"); err == nil {
				return n, nil
			}
			n.Close()
		}
	}
	return nil, errors.Join(fmt.Errorf("create namespace %s: %w", name, err), w.Delete(name))
}

// makeName makes the file that a namespace is mounted on. One that is there, and
// that none is mounted on, is what could not be removed of an earlier namespace, and
// does as well.
func makeName(path string) error {
	file, err := os.OpenFile(path, os.O_RDONLY|os.O_CREATE|os.O_EXCL, 0o444)
	if err == nil {
		return file.Close()
	}
	if info, statErr := os.Lstat(path); statErr != nil || !info.Mode().IsRegular() || info.Size() > 0 {
		return err
	}
	if _, isNamespace := host.ID(path); isNamespace == nil {
		return err
	}
	return nil
}

// Delete removes a namespace's name. The namespace itself goes with it, unless
// a process is still in it or holds it open: see [Writer.Kill]. What does not
// exist or was only half made is no error.
func (w *Writer) Delete(name string) error {
	if err := w.owns(name); err != nil {
		return err
	}
	path := host.NamespacePath(name)
	for {
		err := unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
			break // no mount is left on it
		}
		if err != nil {
			return fmt.Errorf("delete namespace %s: %w", name, err)
		}
	}
	err := os.Remove(path)
	if errors.Is(err, unix.EBUSY) {
		err = removeHidden(path)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("delete namespace %s: %w", name, err)
	}
	return nil
}
