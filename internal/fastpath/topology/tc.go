package topology

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/fastpath/audit"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/nlmsg"
)

// TCState is what traffic control does to the packets of a device.
type TCState struct {
	Name           string
	Qdisc          string          // kind of the queueing discipline, if it does more than let packets wait: "htb"
	ForeignFilters audit.Direction // where packets meet filters of ingress or clsact that are no fast path's
	IngressQdisc   bool            // its filters are those of ingress, which leaves no place for clsact
	Netkit         bool            // it is one of a netkit pair, which runs programs of its own
	// Of the wire, and of what it stands on: what may go by the marks of packets that
	// are sent, and what is not proven to go by nothing that those which are carried
	// lack; empty: nothing.
	MarkReader, UnknownReader string
}

// plainQdiscs are the queueing disciplines that do nothing to packets while the device
// takes them, and a device that is no hardware always does.
var plainQdiscs = map[string]bool{"noqueue": true, "pfifo_fast": true, "pfifo": true, "bfifo": true, "mq": true}

// Parents of the filters of clsact and ingress: TC_H_CLSACT, and TC_H_MIN_INGRESS and
// TC_H_MIN_EGRESS below it.
const (
	parentClsact  = 0xfffffff1
	parentIngress = 0xfffffff2
	parentEgress  = 0xfffffff3
)

// tcStates reads what traffic control does at devices.
func (r *reader) tcStates(devices, wires map[int]bool) (map[int]TCState, error) {
	queues, err := nlmsg.Dump(func() ([]netlink.Qdisc, error) { return r.h.QdiscList(nil) })
	if err != nil {
		return nil, fmt.Errorf("list queueing disciplines: %w", err)
	}
	ways := map[int]TCState{}
	for device := range devices {
		if l, ok := r.byIndex[device]; ok {
			ways[device] = TCState{Name: l.Attrs().Name, Netkit: l.Type() == kindNetkit}
		}
	}
	for _, q := range queues {
		a := q.Attrs()
		way, ok := ways[a.LinkIndex]
		switch {
		case !ok || plainQdiscs[q.Type()]:
			continue
		case a.Parent == parentClsact: // "ingress" stands there, too
			way.IngressQdisc = q.Type() == "ingress"
			if way.ForeignFilters, err = foreignDirections(a.LinkIndex); err != nil {
				return nil, err
			}
		default:
			way.Qdisc = q.Type()
		}
		ways[a.LinkIndex] = way
	}
	for wire := range wires {
		way, ok := ways[wire]
		if !ok {
			continue
		}
		if way.MarkReader, way.UnknownReader, err = r.packetReaders(way.Name, queues); err != nil {
			return nil, err
		}
		ways[wire] = way
	}
	return ways, nil
}

// packetReaders finds what of a wire, and of the devices that it stands on, looks at more of a
// packet that is sent than what is in it.
func (r *reader) packetReaders(wire string, queues []netlink.Qdisc) (byMarks, unproven string, err error) {
	var links []netlink.Link
	for _, l := range r.byIndex {
		links = append(links, l)
	}
	for _, l := range host.LowerDevices(links, wire) {
		for _, q := range queues {
			a := q.Attrs()
			if a.LinkIndex != l.Attrs().Index {
				continue
			}
			of := "a queueing discipline " + q.Type()
			if l.Attrs().Name != wire {
				of += " at " + l.Attrs().Name
			}
			filtered, proven := provenQueues[q.Type()]
			if !proven {
				unproven = of
			}
			parent := a.Handle
			switch {
			case q.Type() == "clsact":
				parent = parentEgress
			case !filtered:
				continue
			}
			kinds, err := filterKinds(a.LinkIndex, parent)
			if err != nil {
				return "", "", err
			}
			for _, f := range kinds {
				byMarks = of + " with filters"
				if !provenFilters[f.kind] {
					unproven = of + " with filters of kind " + f.kind
				} else if f.action != "" {
					unproven = of + " with filters of action " + f.action
				}
			}
		}
	}
	return byMarks, unproven, nil
}

// filterKinds gives the kinds of filters at a place of a device that are no fast path's.
func filterKinds(device int, parent uint32) (kinds []filterKind, err error) {
	found, err := dumpFilters(device, parent)
	for _, answer := range found {
		if !foreignFilter(answer) {
			continue
		}
		kinds = append(kinds, readFilter(answer))
	}
	return kinds, err
}

// filterKind is the kind of a filter, and an action of it that is not proven; "": none.
type filterKind struct{ kind, action string }

// actionAttrs are the attributes that hold the actions of the kinds of filters.
var actionAttrs = map[string]uint16{"u32": 7, "flower": 3, "matchall": 2, "fw": 4, "bpf": 1}

// readFilter reads a filter, or the head of some.
func readFilter(answer []byte) filterKind {
	const unreadable = "that cannot be read"
	attrs, err := nl.ParseRouteAttrAsMap(answer[nl.SizeofTcMsg:])
	if err != nil {
		return filterKind{kind: unreadable}
	}
	f := filterKind{kind: nl.BytesToString(attrs[nl.TCA_KIND].Value)}
	options, err := nl.ParseRouteAttr(attrs[nl.TCA_OPTIONS].Value)
	if err != nil {
		return filterKind{f.kind, unreadable}
	}
	actions, err := nl.ParseRouteAttr(nlmsg.ByNumber(options)[actionAttrs[f.kind]])
	if err != nil {
		return filterKind{f.kind, unreadable}
	}
	for _, a := range actions {
		if kind := actionKind(a.Value); !provenActions[kind] {
			f.action = cmp.Or(kind, unreadable)
		}
	}
	return f
}

// actionKind reads the kind of an action.
func actionKind(action []byte) (kind string) {
	const actKind = 1 // TCA_ACT_KIND
	nlmsg.EachAttr(action, func(number uint16, value []byte) {
		if number == actKind {
			kind = nl.BytesToString(value)
		}
	})
	return kind
}

// dumpFilters lists filters at a place of a device, and heads of such. If that has gone
// since, there are none, and of that there is news to come.
func dumpFilters(device int, parent uint32) ([][]byte, error) {
	found, err := nlmsg.Dump(func() ([][]byte, error) {
		req := nl.NewNetlinkRequest(unix.RTM_GETTFILTER, unix.NLM_F_DUMP)
		req.AddData(&nl.TcMsg{Family: nl.FAMILY_ALL, Ifindex: int32(device), Parent: parent})
		return req.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWTFILTER)
	})
	if errors.Is(err, unix.ENODEV) || errors.Is(err, unix.EINVAL) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list filters of device %d: %w", device, err)
	}
	return found, nil
}

// OwnFilterPrefix begins the names of tc filters that are the programs of a fast path.
const OwnFilterPrefix = "venturi "

// foreignDirections tells on which sides a device with clsact or ingress has filters of
// others.
func foreignDirections(device int) (sides audit.Direction, err error) {
	for parent, side := range map[uint32]audit.Direction{parentIngress: audit.Ingress, parentEgress: audit.Egress} {
		found, err := dumpFilters(device, parent)
		if err != nil {
			return 0, err
		}
		if slices.ContainsFunc(found, foreignFilter) {
			sides |= side
		}
	}
	return sides, nil
}

// foreignFilter tells of an answer of the kernel, a filter or the head of some, whether
// it is one of others. A head of programs judges nothing by itself.
func foreignFilter(answer []byte) bool {
	attrs, err := nl.ParseRouteAttrAsMap(answer[nl.SizeofTcMsg:])
	if err != nil || nl.BytesToString(attrs[nl.TCA_KIND].Value) != "bpf" {
		return true
	}
	if nl.DeserializeTcMsg(answer).Handle == 0 {
		return false
	}
	options, err := nl.ParseRouteAttrAsMap(attrs[nl.TCA_OPTIONS].Value)
	return err != nil || !strings.HasPrefix(string(options[nl.TCA_BPF_NAME].Value), OwnFilterPrefix)
}
