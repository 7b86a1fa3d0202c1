package topology

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/mdlayher/netlink"
	"github.com/venturi-net/venturi/internal/fastpath/readers"
	"github.com/venturi-net/venturi/internal/nlmsg"
	vnl "github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Parsers are all that read a message of the kernel.
var Parsers = map[string]func(message []byte){
	"qdisc":       func(m []byte) { _, _ = readQdisc(m) },
	"filter":      func(m []byte) { readers.UnprovenFilter(m) },
	"own filter":  func(m []byte) { ownFilter(m, func(uint32) bool { return true }) },
	"clsact":      func(m []byte) { isEmptyClsact(m) },
	"neighbour":   func(m []byte) { _, _ = readNeighbour(m) },
	"entry":       func(m []byte) { fdbOwner(m) },
	"device":      func(m []byte) { readDevice(m) },
	"address":     func(m []byte) { readAddress(m) },
	"link":        func(m []byte) { _, _, _ = auditLink(m) },
	"vxlan":       func(m []byte) { _, _, _ = parseVXLANHeader(m) },
	"geneve":      func(m []byte) { _, _ = parseGeneveHeader(m) },
	"ipip":        func(m []byte) { _, _ = parseIPIPHeader(m) },
	"route":       func(m []byte) { readRoute(m, IPv4) },
	"next hop":    func(m []byte) { _, _ = readNexthop(m, IPv4) },
	"policy rule": func(m []byte) { _, _, _ = perPacketSelector(m) },
	"pod end": func(m []byte) {
		(&podEndReader{}).event(netlink.Message{Header: netlink.Header{Type: unix.RTM_NEWLINK}, Data: m})
	},
}

// FDBListed is how much of the list of a bridge's forwarding entries is read.
func FDBListed(bridge int) (messages int, err error) {
	list := newNeighbourList(familyBridge, bridge, 0)
	err = dumpFDB(bridge, true, func(m []byte) bool { messages++; return list.add(m) })
	return messages, errors.Join(err, list.err)
}

// Listed is how many devices, routes and neighbours of the calling thread's namespace are listed, of so many at most.
var Listed = map[string]func(most int) (int, error){
	"devices": func(most int) (int, error) { all, err := dumpLinks(most); return len(all), err },
	"routes": func(most int) (n int, err error) {
		err = eachRoute(IPv4, most, func() func(Route) error {
			n = 0
			return func(Route) error { n++; return nil }
		})
		return n, err
	},
	"neighbours": func(most int) (int, error) { all, _, err := dumpNeighbours(unix.AF_INET, most); return len(all), err },
}

// MaxListedFDB is how much that is at most.
const MaxListedFDB = keptFDB

// LateFilter judges a neighbour as the filter of [Watch] does that was opened in the calling thread's
// namespace before meanwhile: with resync, after announcements were lost.
func LateFilter(address string, meanwhile func(), resync bool) (twice [2]Changes, err error) {
	f := newLateFilter(func(uint32) bool { return false }, IPv4)
	f.read()
	meanwhile()
	if resync {
		f.resync()
	}
	found, err := nlmsg.Dump(func() ([][]byte, error) {
		req := nl.NewNetlinkRequest(unix.RTM_GETNEIGH, unix.NLM_F_DUMP)
		req.AddData(&vnl.Ndmsg{Family: unix.AF_INET})
		return req.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWNEIGH)
	})
	for _, m := range found {
		if e, err := readNeighbour(m); err != nil || e.IP.String() != address {
			continue
		}
		for i := range twice {
			twice[i] = f.event(netlink.Message{Header: netlink.Header{Type: unix.RTM_NEWNEIGH}, Data: m}).Changes
		}
	}
	return twice, err
}

// Parsers for tests with handmade messages, because not every kernel and tool supports all
// attributes.

var PerPacketSelector = perPacketSelector

// RouteOf, NexthopOf and NeighbourOf return the unproven attribute in a message.
func RouteOf(message []byte) (why string, devices []int) {
	m := readRoute(message, IPv4)
	return m.reason, m.devices
}

func NexthopOf(message []byte) (why string, err error) {
	m, err := readNexthop(message, IPv4)
	return m.reason, err
}

func NeighbourOf(message []byte) (why, name, value string, err error) {
	e, err := readNeighbour(message)
	return e.unknownAttr, fmt.Sprint(keyOfNeighbour(&e)), neighbourFingerprint(&e), err
}

// OuterOf returns why the outer headers of a tunnel differ between packets.
func OuterOf(attributes []byte) (why string, err error) {
	_, why, err = parseVXLANHeader(attributes)
	return why, err
}

// IPIPOf returns how an ipip device writes outer headers, and what of it is refused.
func IPIPOf(attributes []byte) (dscp, ttl int, dontFragment bool, why string, err error) {
	h, err := parseIPIPHeader(attributes)
	return h.dscp, h.ttl, h.dontFragment, h.refusal, err
}

// GeneveOf returns how a geneve device writes outer headers, and what of it is refused.
func GeneveOf(attributes []byte) (dscp, ttl int, dontFragment bool, why string, err error) {
	h, err := parseGeneveHeader(attributes)
	return h.dscp, h.ttl, h.dontFragment, h.refusal, err
}

// SameGeneve names a geneve device that may take the packets of another, among some.
func SameGeneve(of *vnl.Geneve, devices ...*vnl.Geneve) string {
	r := reader{geneves: map[int][]byte{}, geneveTo: map[geneveEnd][]string{}}
	for _, l := range devices {
		r.noteGeneve(l, nil)
	}
	return r.sameGeneve(of)
}

// SharedMACs says of next hops behind geneve devices, in turn, which one has the MAC of an earlier one.
func SharedMACs(hops ...NextHop) (reasons []string) {
	r := reader{byIndex: map[int]vnl.Link{}, findings: findings{geneveMACs: map[deviceMAC]int{}}}
	for _, hop := range hops {
		r.byIndex[hop.Device] = &vnl.Geneve{LinkAttrs: vnl.LinkAttrs{Name: fmt.Sprint("device", hop.Device)}}
		reasons = append(reasons, r.sharedMAC(hop))
	}
	return reasons
}

// OtherReceiver names a device that may take the packets of an ipip device with a local address, or
// without one; "": there is none.
func OtherReceiver(tunnel int, local netip.Addr, links ...vnl.Link) string {
	r := reader{byIndex: map[int]vnl.Link{}}
	for _, l := range links {
		r.byIndex[l.Attrs().Index] = l
	}
	return r.otherReceiver(tunnel, local)
}

// LinkOf returns the unproven attribute in a message about a device.
func LinkOf(message []byte) (reason string, err error) {
	_, reason, err = auditLink(message)
	return reason, err
}

// WireOf returns why a device of a node must not be the wire. Reasons are those of its devices, by index.
func WireOf(links []vnl.Link, reasons map[int]string, wire int) string {
	r := reader{node: true, byIndex: map[int]vnl.Link{}, linkReasons: reasons, wireReasons: map[int]string{}}
	for _, l := range links {
		r.byIndex[l.Attrs().Index] = l
	}
	return r.unprovenWire(r.byIndex[wire])
}

// InVRF reports whether one of some links belongs to a VRF.
func InVRF(links []vnl.Link, index int) bool {
	r := &reader{byIndex: map[int]vnl.Link{}}
	for _, l := range links {
		r.byIndex[l.Attrs().Index] = l
	}
	return r.inVRF(index)
}
