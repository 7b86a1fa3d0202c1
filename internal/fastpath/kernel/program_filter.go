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
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/fastpath/topology"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/sanitize"
)

// Kernels before 6.6 have no tcx. A program is a filter of the device's clsact there,
// which nobody holds, and which says of nobody that it is his: its name is that of its
// pin, where the program itself is. A clsact that was not there before is told of in the
// folder of pins first, by a link that leads nowhere. The kernel stops a device for a
// moment whenever clsact comes or goes, and drops what is sent by it then: it comes with
// the first program, and goes when all have gone for good.

// Points of tc filters. They are no points of the kernel's, in which filters are none.
const (
	FilterIngress = Attach(1<<16 + iota) // what the device receives
	FilterEgress                         // what is sent by it
)

var filterParents = map[Attach]uint32{FilterIngress: netlink.HANDLE_MIN_INGRESS, FilterEgress: netlink.HANDLE_MIN_EGRESS}

// HasTCX tells whether the kernel has the points [Ingress] and [Egress].
var HasTCX = sync.OnceValue(func() bool {
	const loopback = 1
	_, err := link.QueryPrograms(link.QueryOptions{Target: loopback, Attach: ebpf.AttachTCXIngress})
	return !errors.Is(err, unix.EINVAL)
})

// putFilter makes a program a filter at a point, or puts it in the place of that
// filter which has its pin. A link that was pinned there is detached by that.
func putFilter(n *netcfg.Namespace, p *ebpf.Program, device int, at Attach, pin string) error {
	f, err := filterOf(n, pin, device, at)
	if err != nil {
		return err
	}
	if err := pinAnew(p, pin); err != nil {
		return err
	}
	if f != nil {
		f.Fd = p.FD()
		err = n.Handle().FilterReplace(f)
	} else if err = needClsact(n, device, filepath.Dir(pin)); err == nil {
		err = addFilter(n, p, device, at, topology.OwnFilterPrefix+pin)
	}
	if errors.Is(err, unix.ENODEV) || errors.Is(err, unix.EEXIST) { // another qdisc is in the place of clsact
		return errors.Join(host.ErrGone, os.Remove(pin))
	}
	return err
}

// addFilter adds a filter at a point, in front of those that are there.
func addFilter(n *netcfg.Namespace, p *ebpf.Program, device int, at Attach, name string) error {
	return n.Handle().FilterAdd(&netlink.BpfFilter{
		FilterAttrs:  netlink.FilterAttrs{LinkIndex: device, Parent: filterParents[at], Protocol: unix.ETH_P_ALL},
		Name:         name,
		Fd:           p.FD(),
		DirectAction: true,
	})
}

// pinAnew pins a program, in the place of another, with no moment between.
func pinAnew(p *ebpf.Program, pin string) error {
	next := filepath.Join(filepath.Dir(pin), "next_"+filepath.Base(pin))
	if err := removed(next); err != nil {
		return err
	}
	p, err := p.Clone() // which has one pin, as the library sees it; this one has many
	if err != nil {
		return err
	}
	defer p.Close()
	if err := p.Pin(next); err != nil {
		return err
	}
	return os.Rename(next, pin)
}

// filterOf finds the filter of a pin at a point; nil: there is none.
func filterOf(n *netcfg.Namespace, pin string, device int, at Attach) (*netlink.BpfFilter, error) {
	all, err := filters(n, device, at)
	for _, f := range all {
		if f, ok := f.(*netlink.BpfFilter); ok && f.Name == topology.OwnFilterPrefix+pin {
			return f, nil
		}
	}
	return nil, err
}

// filters lists those at a point. At a device that is gone there are none.
func filters(n *netcfg.Namespace, device int, at Attach) ([]netlink.Filter, error) {
	all, err := n.Handle().FilterList(ofIndex(device), filterParents[at])
	if vanished(err) {
		return nil, nil
	}
	return all, err
}

// vanished tells of an error that a device, its clsact or a filter there has gone.
func vanished(err error) bool {
	return errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINVAL)
}

func ofIndex(device int) netlink.Link {
	return &netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: device}}
}

func clsact(device int) netlink.Qdisc {
	return &netlink.Clsact{QdiscAttrs: netlink.QdiscAttrs{
		LinkIndex: device, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT,
	}}
}

// clsactPrefix begins the names of files in a folder of pins, each of which tells that a
// device had no clsact.
const clsactPrefix = "clsact_"

// needClsact makes sure that a device has one.
func needClsact(n *netcfg.Namespace, device int, folder string) error {
	has, err := hasClsact(n, device)
	if has || err != nil {
		return err
	}
	file := filepath.Join(folder, clsactPrefix+strconv.Itoa(device))
	if err := os.Symlink("made", file); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	if err := n.Handle().QdiscAdd(clsact(device)); err != nil {
		return errors.Join(err, os.Remove(file))
	}
	return nil
}

func hasClsact(n *netcfg.Namespace, device int) (bool, error) {
	all, err := n.Handle().QdiscList(ofIndex(device))
	for _, q := range all {
		if q.Attrs().LinkIndex == device && q.Type() == "clsact" {
			return true, nil
		}
	}
	return false, err
}

// Filters lists the pins in a folder whose programs are filters, also those that are
// not there any more.
func Filters(n *netcfg.Namespace, folder string) (pins []string, err error) {
	err = eachFilter(n, func(f *netlink.BpfFilter) error {
		if pin, ours := strings.CutPrefix(f.Name, topology.OwnFilterPrefix); ours && filepath.Dir(pin) == filepath.Clean(folder) {
			pins = append(pins, pin)
		}
		return nil
	})
	return pins, err
}

// dropFilter takes away the filter of a pin, wherever it is.
func dropFilter(n *netcfg.Namespace, pin string) error {
	return eachFilter(n, func(f *netlink.BpfFilter) error {
		if f.Name != topology.OwnFilterPrefix+pin {
			return nil
		}
		return n.Handle().FilterDel(f)
	})
}

// eachFilter goes through all filters that are programs.
func eachFilter(n *netcfg.Namespace, do func(*netlink.BpfFilter) error) error {
	all, err := n.Handle().QdiscList(nil)
	for _, q := range all {
		if q.Type() != "clsact" {
			continue
		}
		for at := range filterParents {
			filters, failed := filters(n, q.Attrs().LinkIndex, at)
			for _, f := range filters {
				if f, ok := f.(*netlink.BpfFilter); ok && failed == nil {
					failed = do(f)
				}
			}
			if !vanished(failed) {
				err = errors.Join(err, failed)
			}
		}
	}
	return err
}

// DropClsacts takes away from devices what was added to them for programs that are
// pinned in a folder, where nobody has a filter there now.
func DropClsacts(n *netcfg.Namespace, folder string) error {
	files, _ := sanitize.Files(folder, clsactPrefix+"*") // the pattern is sound
	var failed []error
	for _, file := range files {
		device, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(file), clsactPrefix))
		if err == nil {
			err = dropClsact(n, device)
		}
		if err == nil {
			err = os.Remove(file)
		}
		failed = append(failed, err)
	}
	return n.Wrap("take clsact away", errors.Join(failed...))
}

func dropClsact(n *netcfg.Namespace, device int) error {
	for at := range filterParents {
		if left, err := filters(n, device, at); len(left) > 0 || err != nil {
			return err
		}
	}
	if err := n.Handle().QdiscDel(clsact(device)); !vanished(err) {
		return err
	}
	return nil
}
