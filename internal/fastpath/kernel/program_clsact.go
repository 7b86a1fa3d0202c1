package kernel

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/fastpath/topology"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/sanitize"
)

// A device has one clsact for the filters of everybody. The kernel stops a device for a moment when
// clsact is added or removed, and drops what is sent meanwhile. So it is added with the first
// program, and removed when the last is detached for good. Before it is added, a dangling symbolic
// link in a folder records that: pins may be on a file system that ends with the process that mounted
// it. The fast paths for IPv4 and IPv6 of one namespace have one folder for that, and whichever ends
// last removes what either has added.

// clsactMu is held from the look at a device's clsact until it has the filter for which it is needed,
// or is removed: the daemons for both versions of IP are in one process.
var clsactMu sync.Mutex

func clsact(device int) netlink.Qdisc {
	return &netlink.Clsact{QdiscAttrs: netlink.QdiscAttrs{
		LinkIndex: device, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT,
	}}
}

// clsactPrefix begins the names of the files that record which devices had no clsact.
const clsactPrefix = "clsact_"

// addToClsact calls add, which adds a filter to a device of the calling thread's namespace, and adds
// clsact before that if there is none.
func addToClsact(n *netcfg.Namespace, device int, records string, add func() error) error {
	clsactMu.Lock()
	defer clsactMu.Unlock()
	if err := ensureClsact(n, device, records); err != nil {
		return err
	}
	return add()
}

// ensureClsact adds clsact to a device, unless it has one.
func ensureClsact(n *netcfg.Namespace, device int, records string) error {
	has, err := hasClsact(device)
	if has || err != nil {
		return err
	}
	record := filepath.Join(records, clsactPrefix+strconv.Itoa(device))
	if err := os.Symlink("made", record); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	added := n.Handle().QdiscAdd(clsact(device))
	if added == nil {
		return nil
	}
	if err := removePin(record); err != nil {
		return err
	}
	if errors.Is(added, unix.EEXIST) { // somebody else has just added it, or another qdisc is in its place
		if has, err = hasClsact(device); has || err != nil {
			return err
		}
	}
	return added
}

// lostClsact tells whether an error in adding a filter means that its device is gone, or has no
// clsact: another qdisc is in its place, or somebody has just removed it.
func lostClsact(device int, err error) bool {
	if errors.Is(err, unix.ENODEV) || errors.Is(err, unix.EEXIST) {
		return true
	}
	if err == nil || !isGone(err) {
		return false
	}
	has, failed := hasClsact(device)
	return !has && (failed == nil || isGone(failed))
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

// RemoveClsacts removes the clsact qdiscs whose addition is recorded in a folder. One with filters of
// a fast path stays recorded, and one that has only filters of others is theirs from now on.
func RemoveClsacts(n *netcfg.Namespace, records string) error {
	files, _ := sanitize.Files(records, clsactPrefix+"*") // the pattern is sound
	step, restore := netcfg.ExpediteRCUSteps()
	defer restore()
	var failed []error
	for _, file := range files {
		step()
		device, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(file), clsactPrefix))
		if err == nil {
			err = removeClsact(n, device, file)
		}
		failed = append(failed, err)
	}
	return n.Wrap("remove clsact", errors.Join(failed...))
}

func removeClsact(n *netcfg.Namespace, device int, record string) error {
	clsactMu.Lock()
	defer clsactMu.Unlock()
	if _, err := os.Lstat(record); errors.Is(err, fs.ErrNotExist) {
		return nil // the other daemon has removed it: one that is there now is of somebody else
	}
	has, own, others := false, false, false
	err := n.Do(func() (err error) {
		if own, others, err = topology.HasFilters(device); err != nil {
			return err
		}
		if has, err = hasClsact(device); err != nil && isGone(err) {
			return nil
		}
		return err
	})
	if own || err != nil {
		return err
	}
	if has && !others { // where there is none, the request would remove an ingress qdisc
		err := n.Handle().QdiscDel(clsact(device))
		if err != nil && !isGone(err) && !errors.Is(err, unix.EBUSY) { // busy: somebody is adding a filter
			return err
		}
	}
	return removePin(record)
}
