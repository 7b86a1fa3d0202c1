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
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/fastpath/topology"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/sanitize"
)

// Kernels before 6.6 have no tcx. There a program is a tc filter of the device's clsact. A
// filter has no owner, so its name is that of the pin, and the program itself is pinned.
// Before clsact is added to a device, a dangling symbolic link beside the folder of pins
// records that: pins may be on a file system that ends with the process that mounted it. The
// kernel stops a device for a moment when clsact is added or removed, and drops what is sent
// meanwhile. So clsact is added with the first program, and removed when the last is detached
// for good.

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

// putFilter adds a program as a filter, or replaces the filter with the same pin. A link that
// was pinned there is detached.
func putFilter(n *netcfg.Namespace, p *ebpf.Program, device int, at AttachPoint, pin string) error {
	f, err := filterOf(n, pin, device, at)
	if err != nil {
		return err
	}
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
	if f != nil {
		err = n.Handle().FilterReplace(newFilter(p, device, at, f))
	} else if err = ensureClsact(n, device, filepath.Dir(pin)); err == nil {
		err = addFilter(n, p, device, at, topology.OwnFilterPrefix+pin)
	}
	if errors.Is(err, unix.ENODEV) || errors.Is(err, unix.EEXIST) { // another qdisc is in clsact's place
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
	if err := removePin(next); err != nil {
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

func clsact(device int) netlink.Qdisc {
	return &netlink.Clsact{QdiscAttrs: netlink.QdiscAttrs{
		LinkIndex: device, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT,
	}}
}

// clsactPrefix begins the names of the files that record which devices had no clsact.
const clsactPrefix = "clsact_"

// clsactRecord is the file that records that a device had none.
func clsactRecord(pins string, device int) string {
	return filepath.Join(filepath.Dir(filepath.Clean(pins)), clsactPrefix+strconv.Itoa(device))
}

// ensureClsact adds clsact to a device, unless it has one.
func ensureClsact(n *netcfg.Namespace, device int, pins string) error {
	has, err := hasClsact(device)
	if has || err != nil {
		return err
	}
	file := clsactRecord(pins, device)
	if err := os.Symlink("made", file); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	if err := n.Handle().QdiscAdd(clsact(device)); err != nil {
		return errors.Join(err, os.Remove(file))
	}
	return nil
}

// hasClsact tells whether a device of the calling thread's namespace has clsact. It asks for that
// alone: the library would list the qdiscs of all devices. The kernel answers if it is to echo,
// and only acknowledges where a clsact was removed before.
func hasClsact(device int) (bool, error) {
	req := nl.NewNetlinkRequest(unix.RTM_GETQDISC, unix.NLM_F_ECHO|unix.NLM_F_ACK)
	req.AddData(&nl.TcMsg{Family: nl.FAMILY_ALL, Ifindex: int32(device), Parent: netlink.HANDLE_CLSACT})
	found, err := req.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWQDISC)
	if errors.Is(err, unix.ENOENT) {
		return false, nil
	}
	if err != nil || len(found) != 1 || len(found[0]) < nl.SizeofTcMsg {
		return false, err
	}
	attrs, err := nl.ParseRouteAttrAsMap(found[0][nl.SizeofTcMsg:])
	return unix.ByteSliceToString(attrs[nl.TCA_KIND].Value) == "clsact", err
}

// Filters lists the pins in a folder whose programs are filters, even if the pin itself is
// gone.
func Filters(n *netcfg.Namespace, folder string) (pins []string, err error) {
	var devices []int
	err = n.Do(func() (err error) {
		devices, err = topology.DevicesWithClsact()
		return err
	})
	if err != nil {
		return nil, err
	}
	return FiltersAt(n, folder, devices)
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
				if err = errors.Join(err, failed); own {
					pins = append(pins, pin)
				}
			}
		}
	}
	return pins, err
}

// removeFilter removes the filter of a pin from the device that the pin is named after.
func removeFilter(n *netcfg.Namespace, pin string) error {
	device, err := strconv.Atoi(pin[strings.LastIndexByte(pin, '_')+1:])
	if err != nil {
		return nil // it is the pin of no filter
	}
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

// RemoveClsacts removes the clsact qdiscs that were added for programs pinned in a folder,
// unless there are filters of others now.
func RemoveClsacts(n *netcfg.Namespace, pins string) error {
	files, _ := sanitize.Files(filepath.Dir(filepath.Clean(pins)), clsactPrefix+"*") // the pattern is sound
	step, restore := netcfg.ExpediteRCUSteps()
	defer restore()
	var failed []error
	for _, file := range files {
		step()
		device, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(file), clsactPrefix))
		if err == nil {
			err = removeClsact(n, device)
		}
		if err == nil {
			err = os.Remove(file)
		}
		failed = append(failed, err)
	}
	return n.Wrap("remove clsact", errors.Join(failed...))
}

func removeClsact(n *netcfg.Namespace, device int) error {
	for _, parent := range filterParents {
		left := false
		err := n.Do(func() (err error) {
			left, err = topology.HasFilters(device, parent)
			return err
		})
		if left || err != nil {
			return err
		}
	}
	if err := n.Handle().QdiscDel(clsact(device)); !isGone(err) {
		return err
	}
	return nil
}
