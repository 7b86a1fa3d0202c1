package topology

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/fastpath/audit"
	"github.com/venturi-net/venturi/internal/fastpath/readers"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/nlmsg"
)

// TCState is what traffic control does to a device's packets.
type TCState struct {
	Name           string
	Qdisc          string          // kind of the qdisc, if it does more than queue packets: "htb"
	ForeignFilters audit.Direction // directions with ingress or clsact filters of others
	OwnFilters     []string        // pins of the fast path's own filters
	IngressQdisc   bool            // has an ingress qdisc, so clsact cannot be added
	Netkit         bool            // is a device of a netkit pair, which runs programs of its own
	// Of the wire and its lower devices: what may read the marks of sent packets, and what may read
	// anything else that packets of the fast path lack. Empty means nothing.
	MarkReader, UnknownReader string
	Lower                     []int // of the wire: ifindexes of its lower devices, which have states of their own
}

// plainQdiscs do nothing to packets as long as the device accepts them, and a virtual device always
// does.
var plainQdiscs = map[string]bool{"noqueue": true, "pfifo_fast": true, "pfifo": true, "bfifo": true, "mq": true}

// tcStates reads the traffic control state of devices, and of those below the wires among them.
func (r *reader) tcStates(queues []qdisc, devices, wires map[int]bool) (_ map[int]TCState, err error) {
	states, lower := map[int]TCState{}, map[int][]int{}
	for wire := range wires {
		lower[wire] = r.lowerDevices(wire)
		for _, device := range lower[wire] {
			devices[device] = true
		}
	}
	for device := range devices {
		if l, ok := r.byIndex[device]; ok {
			states[device] = TCState{Name: l.Attrs().Name, Netkit: l.Type() == kindNetkit}
		}
	}
	for _, q := range queues {
		state, ok := states[q.device]
		switch {
		case !ok || plainQdiscs[q.kind]:
			continue
		case q.parent == netlink.HANDLE_CLSACT: // the ingress qdisc has this parent, too
			state.IngressQdisc = q.kind == "ingress"
			if err = state.readFilters(q.device, r.owns); err != nil {
				return nil, err
			}
		default:
			state.Qdisc = q.kind
		}
		states[q.device] = state
	}
	for wire := range wires {
		state, ok := states[wire]
		if !ok {
			continue
		}
		state.Lower = lower[wire]
		if state.MarkReader, state.UnknownReader, err = r.packetReaders(wire, state.Lower, queues); err != nil {
			return nil, err
		}
		states[wire] = state
	}
	return states, nil
}

// lowerDevices are the devices of the namespace that a device stands on.
func (r *reader) lowerDevices(device int) (lower []int) {
	l, ok := r.byIndex[device]
	if !ok {
		return nil
	}
	for _, other := range host.LowerDevices(slices.Collect(maps.Values(r.byIndex)), l.Attrs().Name) {
		if index := other.Attrs().Index; index != device {
			lower = append(lower, index)
		}
	}
	slices.Sort(lower)
	return lower
}

// packetReaders finds what reads more of a sent packet than its contents, on a wire and its lower
// devices.
func (r *reader) packetReaders(wire int, lower []int, queues []qdisc) (byMarks, unproven string, err error) {
	for _, device := range append([]int{wire}, lower...) {
		for _, q := range queues {
			if q.device != device {
				continue
			}
			of := "a queueing discipline " + q.kind
			if device != wire {
				of += " at " + r.byIndex[device].Attrs().Name
			}
			marks, others, err := r.queueReaders(q, of)
			if err != nil {
				return "", "", err
			}
			byMarks, unproven = cmp.Or(marks, byMarks), cmp.Or(others, unproven)
		}
	}
	return byMarks, unproven, nil
}

// queueReaders does so for a queueing discipline, and calls it what of says. Any filter may read marks.
func (r *reader) queueReaders(q qdisc, of string) (byMarks, unproven string, err error) {
	if q.byMarks {
		byMarks = of + " with fwmark"
	}
	switch _, proven := provenQueues[q.kind]; {
	case !proven:
		unproven = of
	case q.option != "":
		unproven = of + " with " + q.option
	}
	parents, err := q.filterParents()
	if err != nil {
		return "", "", err
	}
	for _, parent := range parents {
		found, err := dumpFilters(q.device, parent)
		if err != nil {
			return "", "", err
		}
		for _, answer := range found {
			if _, foreign := ownFilter(answer, r.owns); !foreign {
				continue
			}
			byMarks = of + " with filters"
			if why := readers.UnprovenFilter(answer); why != "" {
				unproven = of + " with " + why
			}
		}
	}
	return byMarks, unproven, nil
}

// filterParents are where filters of a queueing discipline are, for packets that are sent.
func (q qdisc) filterParents() ([]uint32, error) {
	switch {
	case q.kind == "clsact":
		return []uint32{netlink.HANDLE_MIN_EGRESS}, nil
	case !provenQueues[q.kind]:
		return nil, nil
	case !classFilters[q.kind]:
		return []uint32{q.handle}, nil
	}
	classes, err := dumpClasses(q.device, q.handle)
	return append(classes, q.handle), err
}

// qdisc is a queueing discipline.
type qdisc struct {
	device         int // ifindex
	handle, parent uint32
	kind           string
	sized          bool   // has a size table
	byMarks        bool   // goes by marks, whatever filters it has
	option         string // an option that is not proven; "": there is none
}

// dumpQdiscs lists the queueing disciplines of all devices.
func dumpQdiscs() (all []qdisc, err error) {
	found, err := nlmsg.Dump(func() ([][]byte, error) {
		req := nl.NewNetlinkRequest(unix.RTM_GETQDISC, unix.NLM_F_DUMP)
		req.AddData(&nl.TcMsg{Family: nl.FAMILY_ALL})
		return req.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWQDISC)
	})
	if err != nil {
		return nil, fmt.Errorf("list queueing disciplines: %w", err)
	}
	for _, message := range found {
		q, err := readQdisc(message)
		if err != nil {
			return nil, fmt.Errorf("parse queueing discipline: %w", err)
		}
		all = append(all, q)
	}
	return all, nil
}

func readQdisc(message []byte) (q qdisc, err error) {
	if len(message) < nl.SizeofTcMsg {
		return q, fmt.Errorf("message of %d bytes is too short", len(message))
	}
	m := nl.DeserializeTcMsg(message)
	q = qdisc{device: int(m.Ifindex), handle: m.Handle, parent: m.Parent}
	var options []byte
	for number, value := range nlmsg.EachAttr(message[nl.SizeofTcMsg:]) {
		switch number {
		case nl.TCA_KIND:
			q.kind = unix.ByteSliceToString(value)
		case nl.TCA_OPTIONS:
			options = value
		case nl.TCA_STAB:
			q.sized = true
		}
	}
	q.byMarks, q.option = readers.QueueOptions(q.kind, options)
	return q, nil
}

// DevicesWithClsact lists the devices that have a clsact, by ifindex.
func DevicesWithClsact() ([]int, error) {
	queues, err := dumpQdiscs()
	return devicesWithClsact(queues), err
}

// DevicesWithSizedClsact lists those whose clsact has a size table.
func DevicesWithSizedClsact() ([]int, error) {
	queues, err := dumpQdiscs()
	return devicesWithClsact(slices.DeleteFunc(queues, func(q qdisc) bool { return !q.sized })), err
}

func devicesWithClsact(queues []qdisc) (devices []int) {
	for _, q := range queues {
		if q.kind == "clsact" {
			devices = append(devices, q.device)
		}
	}
	return devices
}

// dumpClasses lists the classes of a queueing discipline. A device that is gone has none.
func dumpClasses(device int, of uint32) (classes []uint32, err error) {
	found, err := nlmsg.Dump(func() ([][]byte, error) {
		req := nl.NewNetlinkRequest(unix.RTM_GETTCLASS, unix.NLM_F_DUMP)
		req.AddData(&nl.TcMsg{Family: nl.FAMILY_ALL, Ifindex: int32(device), Parent: of})
		return req.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWTCLASS)
	})
	if errors.Is(err, unix.ENODEV) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list classes of device %d: %w", device, err)
	}
	for _, answer := range found {
		if len(answer) < nl.SizeofTcMsg {
			return nil, fmt.Errorf("list classes of device %d: message of %d bytes is too short", device, len(answer))
		}
		classes = append(classes, nl.DeserializeTcMsg(answer).Handle)
	}
	return classes, nil
}

// dumpFilters lists filters and chain heads at a parent of a device. A device that is gone has
// none; a notification of that follows.
func dumpFilters(device int, parent uint32) ([][]byte, error) {
	found, err := nlmsg.Dump(func() ([][]byte, error) {
		req := nl.NewNetlinkRequest(unix.RTM_GETTFILTER, unix.NLM_F_DUMP)
		req.AddData(&nl.TcMsg{Family: nl.FAMILY_ALL, Ifindex: int32(device), Parent: parent})
		return req.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWTFILTER)
	})
	if errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINVAL) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list filters of device %d: %w", device, err)
	}
	return found, nil
}

// readFilters reads the clsact or ingress filters of a device.
func (s *TCState) readFilters(device int, owns ProgramOwner) error {
	sides := map[uint32]audit.Direction{netlink.HANDLE_MIN_INGRESS: audit.Ingress, netlink.HANDLE_MIN_EGRESS: audit.Egress}
	for parent, side := range sides {
		found, err := dumpFilters(device, parent)
		if err != nil {
			return err
		}
		for _, answer := range found {
			pin, foreign := ownFilter(answer, owns)
			switch {
			case foreign:
				s.ForeignFilters |= side
			case pin != "":
				s.OwnFilters = append(s.OwnFilters, pin)
			}
		}
	}
	return nil
}

// ProgramOwner tells whether the program with an ID is one of a fast path. Several goroutines may call it.
type ProgramOwner func(program uint32) bool

// ownFilter returns the pin of a filter of a fast path, from a message about it; foreign means
// that it is of others. The head of a chain of BPF filters is neither: it does nothing by itself.
func ownFilter(answer []byte, owns ProgramOwner) (pin string, foreign bool) {
	f, ok := readBPFFilter(answer)
	switch {
	case !ok:
		return "", true
	case f.Handle == 0:
		return "", false
	}
	pin, named := strings.CutPrefix(f.Name, OwnFilterPrefix)
	if !named || !owns(f.Program) { // anybody can use the name
		return "", true
	}
	return pin, false
}

// BPFFilter is a tc filter that is a BPF program, or the head of their chain, which has no handle.
type BPFFilter struct {
	Handle   uint32
	Priority uint16
	Name     string
	Program  uint32 // ID
}

// BPFFilters lists those at a parent of a device. A device that is gone has none.
func BPFFilters(device int, parent uint32) (all []BPFFilter, err error) {
	found, err := dumpFilters(device, parent)
	for _, answer := range found {
		if f, ok := readBPFFilter(answer); ok && f.Handle != 0 {
			all = append(all, f)
		}
	}
	return all, err
}

// HasFilters tells whether a device has filters at its clsact with the names of a fast path's, and
// whether it has others, of whatever kind.
func HasFilters(device int) (own, others bool, err error) {
	for _, parent := range []uint32{netlink.HANDLE_MIN_INGRESS, netlink.HANDLE_MIN_EGRESS} {
		found, failed := dumpFilters(device, parent)
		err = errors.Join(err, failed)
		for _, answer := range found {
			f, ok := readBPFFilter(answer)
			switch {
			case !ok:
				others = true
			case strings.HasPrefix(f.Name, OwnFilterPrefix):
				own = true
			case f.Handle != 0: // the head of a chain is none
				others = true
			}
		}
	}
	return own, others, err
}

func readBPFFilter(answer []byte) (f BPFFilter, ok bool) {
	if len(answer) < nl.SizeofTcMsg {
		return f, false
	}
	attrs, err := nl.ParseRouteAttrAsMap(answer[nl.SizeofTcMsg:])
	if err != nil || unix.ByteSliceToString(attrs[nl.TCA_KIND].Value) != "bpf" {
		return f, false
	}
	options, err := nl.ParseRouteAttrAsMap(attrs[nl.TCA_OPTIONS].Value)
	if err != nil {
		return f, false
	}
	m := nl.DeserializeTcMsg(answer)
	return BPFFilter{m.Handle, uint16(m.Info >> 16), unix.ByteSliceToString(options[nl.TCA_BPF_NAME].Value),
		nlmsg.NativeUint32(options[nl.TCA_BPF_ID].Value)}, true
}

// OwnFilterPrefix is the name prefix of tc filters that the fast path attaches.
const OwnFilterPrefix = "venturi "
