package kernel

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	pinned "github.com/cilium/ebpf/pin"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/fastpath/topology"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/netcfg"
)

// Kernels before 6.6 have no tcx. There a program is a tc filter of the device's clsact, see
// [ensureClsact]. A filter has no owner, so its name is that of the pin, and the program itself is
// pinned.

// Attach points of tc filters. The kernel does not number these.
const (
	FilterIngress = AttachPoint(1<<16 + iota) // what the device receives
	FilterEgress                              // what is sent by it
)

var filterParents = map[AttachPoint]uint32{FilterIngress: netlink.HANDLE_MIN_INGRESS, FilterEgress: netlink.HANDLE_MIN_EGRESS}

// HasTCX tells whether the kernel has the attach points [Ingress] and [Egress].
var HasTCX = sync.OnceValue(func() bool {
	const loopback = 1
	_, err := link.QueryPrograms(link.QueryOptions{Target: loopback, Attach: ebpf.AttachTCXIngress})
	return !errors.Is(err, unix.EINVAL)
})

// putFilter adds a program as a filter, or replaces the filter with the same pin.
func putFilter(n *netcfg.Namespace, p *ebpf.Program, device int, at AttachPoint, pin string) error {
	f, err := filterOf(n, pin, device, at)
	switch {
	case err != nil:
		return err
	case f != nil:
		return replaceFilter(n, p, device, at, pin, f)
	}
	return pinFilter(p, device, pin, func() error {
		return addToClsact(device, func() error { return addFilter(n, p, device, at, topology.OwnFilterPrefix+pin) })
	})
}

func replaceFilter(n *netcfg.Namespace, p *ebpf.Program, device int, at AttachPoint, pin string, f *topology.BPFFilter) error {
	return pinFilter(p, device, pin, func() error { return n.Handle().FilterReplace(newFilter(p, device, at, f)) })
}

// pinFilter pins a program, and makes it a filter by calling put. A link that was pinned there is
// detached. The error wraps [host.ErrGone] if there is no place for a filter any more.
func pinFilter(p *ebpf.Program, device int, pin string, put func() error) error {
	before, err := pinned.Load(pin, nil)
	if err == nil {
		defer before.Close()
	} else if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := repin(p, pin); err != nil {
		return err
	}
	if l, ok := before.(link.Link); ok {
		// Without its pin the link would go too, but later: until then both programs run.
		if err := l.Detach(); err != nil {
			return err
		}
	}
	if err = put(); lostClsact(device, err) {
		return errors.Join(host.ErrGone, os.Remove(pin))
	}
	return err
}

// addFilter adds a filter in front of the others.
func addFilter(n *netcfg.Namespace, p *ebpf.Program, device int, at AttachPoint, name string) error {
	return n.Handle().FilterAdd(newFilter(p, device, at, &topology.BPFFilter{Name: name}))
}

// newFilter is a filter that runs a program; without a handle, it becomes the first.
func newFilter(p *ebpf.Program, device int, at AttachPoint, f *topology.BPFFilter) *netlink.BpfFilter {
	return &netlink.BpfFilter{
		FilterAttrs:  netlink.FilterAttrs{LinkIndex: device, Parent: filterParents[at], Protocol: unix.ETH_P_ALL, Handle: f.Handle, Priority: f.Priority},
		Name:         f.Name,
		Fd:           p.FD(),
		DirectAction: true,
	}
}

// repin pins a program, and atomically replaces another.
func repin(p *ebpf.Program, pin string) error {
	next := filepath.Join(filepath.Dir(pin), "next_"+filepath.Base(pin))
	if err := RemoveFiles(next); err != nil {
		return err
	}
	p, err := p.Clone() // the library allows one pin for each handle
	if err != nil {
		return err
	}
	defer p.Close()
	if err := p.Pin(next); err != nil {
		return err
	}
	return os.Rename(next, pin)
}

// filterOf finds the filter of a pin; nil: there is none.
func filterOf(n *netcfg.Namespace, pin string, device int, at AttachPoint) (*topology.BPFFilter, error) {
	all, err := filters(n, device, at)
	for _, f := range all {
		if f.Name != topology.OwnFilterPrefix+pin {
			continue
		}
		if own, err := isOwn(f); own || err != nil {
			return &f, err
		}
	}
	return nil, err
}

// isOwn tells whether the program of a filter whose name is ours is, too. Without the privilege to
// know, the name counts.
func isOwn(f topology.BPFFilter) (bool, error) {
	own, err := IsFastPath(ebpf.ProgramID(f.Program))
	if errors.Is(err, unix.EPERM) {
		return true, nil
	}
	return own, err
}

// filters lists the filters at a point that are BPF programs. A device that is gone has none.
func filters(n *netcfg.Namespace, device int, at AttachPoint) (all []topology.BPFFilter, err error) {
	err = n.Do(func() error {
		all, err = topology.BPFFilters(device, filterParents[at])
		return err
	})
	return all, err
}

// isGone tells whether an error means that a device, its clsact or a filter is gone.
func isGone(err error) bool {
	return errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINVAL)
}

// Filters lists the pins in a folder whose programs are filters, even if the pin itself is
// gone.
func Filters(n *netcfg.Namespace, folder string) (pins []string, err error) {
	devices, err := devicesWithClsact(n)
	if err != nil {
		return nil, err
	}
	return FiltersAt(n, folder, devices)
}

func devicesWithClsact(n *netcfg.Namespace) (devices []int, err error) {
	err = n.Do(func() error {
		devices, err = topology.DevicesWithClsact()
		return err
	})
	return devices, err
}

// FiltersAt lists those at some devices.
func FiltersAt(n *netcfg.Namespace, folder string, devices []int) (pins []string, err error) {
	for _, device := range devices {
		for at := range filterParents {
			all, failed := filters(n, device, at)
			err = errors.Join(err, failed)
			for _, f := range all {
				pin, ours := strings.CutPrefix(f.Name, topology.OwnFilterPrefix)
				if !ours || filepath.Dir(pin) != filepath.Clean(folder) {
					continue
				}
				own, failed := isOwn(f)
				err = errors.Join(err, failed)
				if own {
					pins = append(pins, pin)
				}
			}
		}
	}
	return pins, err
}

// removeFilter removes the filter of a pin from the device that the pin is named after. One that is
// named after none, as another version of the daemon may name it, is searched for at all devices.
func removeFilter(n *netcfg.Namespace, pin string) error {
	device, err := strconv.Atoi(pin[strings.LastIndexByte(pin, '_')+1:])
	devices := []int{device}
	if err != nil {
		if devices, err = devicesWithClsact(n); err != nil {
			return err
		}
	}
	for _, device := range devices {
		err = errors.Join(err, removeFilterAt(n, pin, device))
	}
	return err
}

// removeFilterAt removes it from a device, if it is there.
func removeFilterAt(n *netcfg.Namespace, pin string, device int) (err error) {
	for at, parent := range filterParents {
		f, failed := filterOf(n, pin, device, at)
		if f != nil && failed == nil {
			failed = n.Handle().FilterDel(&netlink.GenericFilter{
				FilterAttrs: netlink.FilterAttrs{LinkIndex: device, Parent: parent, Protocol: unix.ETH_P_ALL, Handle: f.Handle, Priority: f.Priority},
				FilterType:  "bpf",
			})
		}
		if !isGone(failed) {
			err = errors.Join(err, failed)
		}
	}
	return err
}
