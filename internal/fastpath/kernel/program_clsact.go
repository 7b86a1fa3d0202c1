package kernel

import (
	"bytes"
	"encoding/binary"
	"errors"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/fastpath/topology"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/sanitize"
)

// A device has one clsact for the filters of everybody. The kernel stops a device for a moment when
// clsact is added or removed, and drops what is sent meanwhile. So it is added with the first
// program, and removed when the last is detached for good. One that a fast path has added is marked in
// the kernel, so that whichever fast path of the device ends last removes it, whatever has become of the
// one that added it; and so that one which somebody else has made since is left to him. The mark is a
// size table: the kernel keeps it with a qdisc, drops it when somebody replaces the qdisc, and does not
// use it for clsact, which queues nothing.

// clsactMark is a struct tc_sizespec (linux/pkt_sched.h) whose field mpu says "vent".
var clsactMark = func() []byte {
	const size, mpu = 24, 12
	spec := make([]byte, size)
	binary.NativeEndian.PutUint32(spec[mpu:], 0x76656e74)
	return spec
}()

// stabBase is TCA_STAB_BASE, which holds it.
const stabBase = 1

// clsactMu is held from the look at a device's clsact until it has the filter for which it is needed,
// or is removed: the daemons for both versions of IP are in one process.
var clsactMu sync.Mutex

// addToClsact calls add, which adds a filter to a device of the calling thread's namespace, and adds
// clsact before that if there is none.
func addToClsact(device int, add func() error) error {
	clsactMu.Lock()
	defer clsactMu.Unlock()
	if err := ensureClsact(device); err != nil {
		return err
	}
	return add()
}

// ensureClsact adds clsact to a device, unless it has one.
func ensureClsact(device int) error {
	has, _, err := readClsact(device)
	if has || err != nil {
		return err
	}
	added := addClsact(device)
	if errors.Is(added, unix.EEXIST) { // somebody else has just added it, or another qdisc is in its place
		if has, _, err = readClsact(device); has || err != nil {
			return err
		}
	}
	return added
}

// addClsact adds one with the mark.
func addClsact(device int) error {
	return requestClsact(unix.RTM_NEWQDISC, unix.NLM_F_CREATE|unix.NLM_F_EXCL, device, markAttr())
}

// markAttr is the mark, which the library does not know.
func markAttr() *nl.RtAttr {
	mark := nl.NewRtAttr(nl.TCA_STAB, nil)
	mark.AddRtAttr(stabBase, clsactMark)
	return mark
}

// requestClsact requests something of a device's clsact. It says its kind also to remove it, as the library does
// not: the kernel refuses that if another qdisc is in its place.
func requestClsact(message, flags, device int, attrs ...*nl.RtAttr) error {
	req := nl.NewNetlinkRequest(message, flags|unix.NLM_F_ACK)
	req.AddData(&nl.TcMsg{Family: nl.FAMILY_ALL, Ifindex: int32(device), Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT})
	req.AddData(nl.NewRtAttr(nl.TCA_KIND, nl.ZeroTerminated("clsact")))
	for _, a := range attrs {
		req.AddData(a)
	}
	_, err := req.Execute(unix.NETLINK_ROUTE, 0)
	return err
}

// clsactRecord begins the names of the files by which earlier versions recorded, in the folder that the pins'
// folder is in, which devices they had added clsact to.
const clsactRecord = "clsact_"

// MarkClsacts marks each clsact that an earlier version has recorded in a folder, and removes the record. One
// whose device has no clsact any more is removed, too.
func MarkClsacts(n *netcfg.Namespace, folder string) error {
	records, _ := sanitize.Files(folder, clsactRecord+"*") // the pattern is sound
	var failed []error
	for _, record := range records {
		device, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(record), clsactRecord))
		if err != nil {
			continue // no version has written it
		}
		err = n.Do(func() error { return requestClsact(unix.RTM_NEWQDISC, 0, device, markAttr()) })
		if err == nil || isGone(err) {
			err = RemoveFiles(record)
		}
		failed = append(failed, err)
	}
	return n.Wrap("mark clsact", errors.Join(failed...))
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
	has, _, failed := readClsact(device)
	return !has && (failed == nil || isGone(failed))
}

// readClsact tells whether a device of the calling thread's namespace has clsact, and whether a fast
// path has added it. It asks for that alone: the library would list the qdiscs of all devices. The kernel
// answers if it is to echo, and only acknowledges where a clsact was removed before.
func readClsact(device int) (has, ours bool, err error) {
	req := nl.NewNetlinkRequest(unix.RTM_GETQDISC, unix.NLM_F_ECHO|unix.NLM_F_ACK)
	req.AddData(&nl.TcMsg{Family: nl.FAMILY_ALL, Ifindex: int32(device), Parent: netlink.HANDLE_CLSACT})
	found, err := req.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWQDISC)
	if errors.Is(err, unix.ENOENT) {
		return false, false, nil
	}
	if err != nil || len(found) != 1 || len(found[0]) < nl.SizeofTcMsg {
		return false, false, err
	}
	attrs, err := nl.ParseRouteAttrAsMap(found[0][nl.SizeofTcMsg:])
	if err != nil || unix.ByteSliceToString(attrs[nl.TCA_KIND].Value) != "clsact" {
		return false, false, err
	}
	sizes, err := nl.ParseRouteAttrAsMap(attrs[nl.TCA_STAB].Value)
	return true, bytes.Equal(sizes[stabBase].Value, clsactMark), err
}

// RemoveClsacts removes the clsact qdiscs that fast paths have added. One with filters of a fast path
// stays until that ends, and one that has only filters of others is theirs from now on.
func RemoveClsacts(n *netcfg.Namespace) error {
	var devices []int
	err := n.Do(func() (err error) {
		devices, err = topology.DevicesWithSizedClsact() // to ask for one announces it to everybody
		return err
	})
	if err != nil {
		return err
	}
	step, restore := netcfg.ExpediteRCUSteps()
	defer restore()
	var failed []error
	for _, device := range devices {
		failed = append(failed, n.Do(func() error { return removeClsact(device, step) }))
	}
	return n.Wrap("remove clsact", errors.Join(failed...))
}

// The kernel does not remove clsact while a request of anybody has hold of it, be it one that adds a filter or only
// looks for one. Such a request is over in a moment.
const busyAttempts, busyPause = 200, 5 * time.Millisecond

func removeClsact(device int, step func()) (err error) {
	clsactMu.Lock()
	defer clsactMu.Unlock()
	for range busyAttempts {
		if err = removeIfUnused(device, step); !errors.Is(err, unix.EBUSY) {
			break
		}
		time.Sleep(busyPause)
	}
	if isGone(err) {
		return nil
	}
	return err // if it is still busy, it keeps the mark
}

// removeIfUnused removes clsact from a device if it has the mark and no filters, and takes away the mark if all its
// filters are others'.
func removeIfUnused(device int, step func()) error {
	_, ours, err := readClsact(device)
	if err != nil || !ours {
		return err
	}
	own, others, err := topology.HasFilters(device)
	if own || err != nil {
		return err
	}
	if others {
		return requestClsact(unix.RTM_NEWQDISC, 0, device) // to be one without the mark
	}
	step()
	return requestClsact(unix.RTM_DELQDISC, 0, device)
}
