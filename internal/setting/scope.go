package setting

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/sanitize"
)

// Scope is where a setting is. The zero Scope is the whole host.
type Scope struct {
	Netns  *NetnsID  `json:"netns,omitempty"`  // a network namespace
	Device *DeviceID `json:"device,omitempty"` // a device in it

	entered *entered // what the calling thread has at hand of it; nil: it is elsewhere
}

// NetnsID identifies a network namespace for as long as the machine runs: not
// by its name, which others may take away and give to another one.
type NetnsID struct {
	Path   string `json:"path"`             // by which it was found
	Inode  uint64 `json:"inode"`            // of its file: given again to others when it is gone
	Cookie uint64 `json:"cookie,omitempty"` // never given again; 0 on kernels before 5.14
}

// DeviceID identifies a network device in its namespace.
type DeviceID struct {
	Name  string `json:"name"` // by which it was found; it may have another one now
	Index int    `json:"index"`
	Kind  string `json:"kind"`          // as `ip -d link` names it: "veth", "vxlan", "device"
	MAC   string `json:"mac,omitempty"` // the permanent address, of those that have one
}

func (s Scope) String() string {
	switch {
	case s.Netns == nil:
		return ""
	case s.Device != nil && s.Netns.Path == HomeNetns:
		return "of " + s.Device.Name
	case s.Device != nil:
		return "of " + s.Device.Name + " in " + s.Netns.Path
	case s.Netns.Path == HomeNetns:
		return ""
	}
	return "in " + s.Netns.Path
}

// identity is what of a scope never changes.
func (s Scope) identity() any {
	var id struct {
		Inode, Cookie uint64
		Index         int
	}
	if s.Netns != nil {
		id.Inode, id.Cookie = s.Netns.Inode, s.Netns.Cookie
	}
	if s.Device != nil {
		id.Index = s.Device.Index
	}
	return id
}

// HomeNetns is the file of the namespace that the machine itself lives in.
const HomeNetns = host.HomeNetns

// NetnsScope gives the scope of the namespace with this file; an empty path
// means the one that this process is in.
func NetnsScope(path string) (Scope, error) {
	if path == "" {
		path = "/proc/self/ns/net"
		own, err := host.ID(path)
		if err != nil {
			return Scope{}, err
		}
		if home, err := host.ID(HomeNetns); err == nil && home == own {
			path = HomeNetns
		}
	}
	if path != HomeNetns {
		path = host.NamedFile(path)
	}
	id, err := netnsID(path)
	if err != nil {
		return Scope{}, err
	}
	return Scope{Netns: id}, nil
}

// DeviceScope gives the scope of a device in a namespace.
func DeviceScope(netns, device string) (Scope, error) {
	scope, err := NetnsScope(netns)
	if err != nil {
		return scope, err
	}
	err = host.Do(scope.Netns.Path, func() error {
		h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
		if err != nil {
			return err
		}
		defer h.Close()
		link, err := h.LinkByName(device)
		if err != nil {
			return fmt.Errorf("find %s: %w", device, err)
		}
		scope.Device = deviceID(link)
		return nil
	})
	return scope, err
}

func deviceID(link netlink.Link) *DeviceID {
	a := link.Attrs()
	id := &DeviceID{Name: a.Name, Index: a.Index, Kind: link.Type()}
	if len(a.PermHWAddr) > 0 {
		id.MAC = a.PermHWAddr.String()
	}
	return id
}

// ThreadNetns identifies the namespace that the calling thread is in.
func ThreadNetns() (*NetnsID, error) { return netnsID("/proc/thread-self/ns/net") }

func netnsID(path string) (*NetnsID, error) {
	id, err := host.ID(path)
	if err != nil {
		return nil, err
	}
	n := &NetnsID{Path: path, Inode: id.Ino}
	err = host.Do(path, func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("open a socket: %w", err)
		}
		defer unix.Close(fd)
		n.Cookie, err = unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
		if errors.Is(err, unix.ENOPROTOOPT) {
			return nil
		}
		return err
	})
	return n, err
}

// find gives a file of the namespace, which may have another name than it had.
// That it is gone is only said when all that there are were looked at: else its
// values would be given up while they stand.
func (n *NetnsID) find() (string, error) {
	it, unseen := n.isFile(n.Path)
	if it {
		return n.Path, nil
	}
	files, unread := namespaceFiles(n.Inode)
	unseen = errors.Join(unseen, unread)
	for _, path := range files {
		it, err := n.isFile(path)
		if it {
			return path, nil
		}
		unseen = errors.Join(unseen, ignorePermission(err))
	}
	if unseen != nil {
		return "", fmt.Errorf("network namespace %s: it is not there by that name, and not all others could be looked at: %w", n.Path, unseen)
	}
	return "", fmt.Errorf("network namespace %s: %w", n.Path, host.ErrGone)
}

// IsGone tells whether the namespace is gone, going by all that can be seen from here. Error: not all could be looked
// at.
func (n *NetnsID) IsGone() (bool, error) {
	_, err := n.find()
	if errors.Is(err, host.ErrGone) {
		return true, nil
	}
	return false, err
}

// namespaceFiles lists the files of all namespaces that have a name, or processes,
// and those by which the one with this inode, or with 0 any, is held elsewhere.
// Error: there may be more.
func namespaceFiles(inode uint64) ([]string, error) {
	named, err1 := sanitize.Files(host.NamespaceFolder, "*")
	processes, err2 := sanitize.Files("/proc", "[0-9]*/ns/net")
	table, err3 := os.ReadFile("/proc/self/mountinfo")
	files := slices.Concat(named, processes, netnsMounts(string(table), inode))
	// Who has mounts of its own, as below "ip netns exec", may not see what was mounted since for all others.
	first, _ := os.ReadFile("/proc/1/mountinfo") // users may not be shown it
	for _, file := range netnsMounts(string(first), inode) {
		files = append(files, "/proc/1/root"+file)
	}
	return files, errors.Join(err1, err2, err3)
}

// netnsMounts lists the files, in a table of mounts (/proc/PID/mountinfo), by
// which a namespace is held, or with inode 0 any: container engines have folders
// of their own.
func netnsMounts(table string, inode uint64) (files []string) {
	spaces := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	root := fmt.Sprintf("net:[%d]", inode)
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		if len(f) > 4 && (f[3] == root || inode == 0 && strings.HasPrefix(f[3], "net:[")) {
			files = append(files, spaces.Replace(f[4]))
		}
	}
	return files
}

// isFile tells whether a file is of this namespace. The cheap question comes first:
// all processes of a machine may be asked. Error: it cannot be told.
func (n *NetnsID) isFile(path string) (bool, error) {
	id, err := host.ID(path)
	switch {
	case err == nil && id.Ino != n.Inode:
		return false, nil
	case err == nil:
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ESRCH), errors.Is(err, unix.ENOTDIR), !errors.As(err, new(unix.Errno)):
		return false, nil // it went away meanwhile, or is no namespace
	default:
		return false, err
	}
	now, err := netnsID(path)
	if err != nil {
		if _, err := host.ID(path); err != nil {
			return false, nil
		}
		return false, err
	}
	return now.Cookie == n.Cookie, nil
}

// Enter runs fn inside the scope's namespace, or where the process is if it has none,
// with the name that the scope's device has now. A card that moved to another
// namespace is followed. Error: [host.ErrGone].
func (s Scope) Enter(fn func(device string) error) error {
	return s.enterDevice(func(device string, _ int) error { return fn(device) })
}

// enterDevice is [Scope.Enter] with the number that the device has now, too: in another
// namespace, the recorded one may be another device's.
func (s Scope) enterDevice(fn func(device string, index int) error) error {
	switch {
	case s.Netns == nil:
		return fn("", 0)
	case s.entered != nil:
		return fn(s.entered.device, s.entered.index)
	case s.Device == nil:
		path, err := s.Netns.find()
		if err != nil {
			return err
		}
		return host.Do(path, func() error { return fn("", 0) })
	}
	gone, err := s.enterRecorded(fn)
	if gone == nil {
		return err
	}
	path, now, err := s.relocate(gone)
	if err != nil {
		return err
	}
	gone, err = now.enter(path, fn)
	return cmp.Or(gone, err)
}

// enterRecorded runs fn where the device was recorded. Gone: it is not there any more,
// and may be elsewhere. Of a namespace that ended only cards remain.
func (s Scope) enterRecorded(fn func(device string, index int) error) (gone, err error) {
	path, err := s.Netns.find()
	if errors.Is(err, host.ErrGone) && s.Device.identifiable() {
		return err, nil
	}
	if err != nil {
		return nil, err
	}
	return s.Device.enter(path, fn)
}

// enter runs fn in a namespace with the name that the device has there, and its number;
// gone: it is not there.
func (d *DeviceID) enter(path string, fn func(device string, index int) error) (gone, err error) {
	err = host.Do(path, func() error {
		name, err := d.find()
		if errors.Is(err, host.ErrGone) {
			gone = err
			return nil
		}
		if err != nil {
			return err
		}
		return fn(name, d.Index)
	})
	return gone, err
}

// find gives the name that the device has now, in the calling thread's namespace.
func (d *DeviceID) find() (string, error) {
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return "", err
	}
	defer h.Close()
	link, err := h.LinkByIndex(d.Index)
	var none netlink.LinkNotFoundError
	if errors.As(err, &none) || errors.Is(err, unix.ENODEV) {
		return "", fmt.Errorf("device %s: %w: it was removed, or moved to another network namespace", d.Name, host.ErrGone)
	}
	if err != nil {
		return "", fmt.Errorf("find %s: %w", d.Name, err)
	}
	// A namespace that was emptied gives its numbers again.
	if now := deviceID(link); now.Kind != d.Kind || now.MAC != d.MAC {
		return "", fmt.Errorf("device %s: %w: number %d is another one now", d.Name, host.ErrGone, d.Index)
	}
	return link.Attrs().Name, nil
}

// UnmarshalJSON reads a scope as it was written, and refuses one that could lead
// somewhere else than meant.
func (s *Scope) UnmarshalJSON(text []byte) error {
	type plain Scope
	if err := UnmarshalStrict(text, (*plain)(s)); err != nil {
		return err
	}
	if s.Device != nil && s.Netns == nil {
		return errors.New("a device without a network namespace")
	}
	if s.Netns != nil && (s.Netns.Path == "" || s.Netns.Inode == 0) {
		return errors.New("a network namespace without a path or inode")
	}
	return nil
}

// sysfs runs fn with the folder that shows the namespace's own devices.
func sysfs(fn func(root string) error) error { return host.Sysfs(fn) }
