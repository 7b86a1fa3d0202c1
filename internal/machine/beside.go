package machine

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Sides of a device, as the machine sees it.
type Sides uint8

// In is where packets come in by the device, Out where they are sent by it.
const (
	In Sides = 1 << iota
	Out
)

// DeviceWay is what traffic control does to the packets of a device.
type DeviceWay struct {
	Name    string
	Queue   string // kind of the queueing discipline, if it does more than let packets wait: "htb"
	Filters Sides  // where packets meet filters of ingress or clsact that are no fast path's
	Ingress bool   // its filters are those of ingress, which leaves no place for clsact
	Netkit  bool   // it is one of a netkit pair, which runs programs of its own
}

// idle are the queueing disciplines that do nothing to packets while the device
// takes them, and a device that is no hardware always does.
var idle = map[string]bool{"noqueue": true, "pfifo_fast": true, "pfifo": true, "bfifo": true, "mq": true}

// Parents of the filters of clsact and ingress: TC_H_CLSACT, and TC_H_MIN_INGRESS and
// TC_H_MIN_EGRESS below it.
const (
	parentClsact  = 0xfffffff1
	parentIngress = 0xfffffff2
	parentEgress  = 0xfffffff3
)

// beside reads what traffic control does at devices.
func (r *waysReader) beside(devices map[int]bool) (map[int]DeviceWay, error) {
	queues, err := dump(func() ([]netlink.Qdisc, error) { return r.h.QdiscList(nil) })
	if err != nil {
		return nil, fmt.Errorf("list queueing disciplines: %w", err)
	}
	ways := map[int]DeviceWay{}
	for device := range devices {
		if l, ok := r.byIndex[device]; ok {
			ways[device] = DeviceWay{Name: l.Attrs().Name, Netkit: l.Type() == kindNetkit}
		}
	}
	for _, q := range queues {
		a := q.Attrs()
		way, ok := ways[a.LinkIndex]
		switch {
		case !ok || idle[q.Type()]:
			continue
		case a.Parent == parentClsact: // "ingress" stands there, too
			way.Ingress = q.Type() == "ingress"
			if way.Filters, err = filters(a.LinkIndex); err != nil {
				return nil, err
			}
		default:
			way.Queue = q.Type()
		}
		ways[a.LinkIndex] = way
	}
	return ways, nil
}

// OwnFilter begins the names of tc filters that are the programs of a fast path.
const OwnFilter = "venturi "

// filters tells on which sides a device with clsact or ingress has filters of
// others.
func filters(device int) (sides Sides, err error) {
	for parent, side := range map[uint32]Sides{parentIngress: In, parentEgress: Out} {
		found, err := dump(func() ([][]byte, error) {
			req := nl.NewNetlinkRequest(unix.RTM_GETTFILTER, unix.NLM_F_DUMP)
			req.AddData(&nl.TcMsg{Family: nl.FAMILY_ALL, Ifindex: int32(device), Parent: parent})
			return req.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWTFILTER)
		})
		if errors.Is(err, unix.ENODEV) || errors.Is(err, unix.EINVAL) {
			continue // it has gone since, and of that there is news to come
		}
		if err != nil {
			return 0, fmt.Errorf("list filters of device %d: %w", device, err)
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
	return err != nil || !strings.HasPrefix(string(options[nl.TCA_BPF_NAME].Value), OwnFilter)
}
