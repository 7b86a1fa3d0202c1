package topology

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/venturi-net/venturi/internal/nlmsg"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Neighbour is an IPv4 address on a device's link.
type Neighbour struct {
	Device int // index
	Addr   netip.Addr
}

// ndmState is the offset of the state in struct ndmsg.
const ndmState = 8

// StaleNeighbours returns the stale neighbours of the calling thread's namespace: the kernel still
// sends to them, and then verifies that they are reachable. If the table keeps changing during the
// dump, some may be missing.
func StaleNeighbours() (map[Neighbour]bool, error) {
	all, err := nlmsg.Dump(func() ([][]byte, error) {
		req := nl.NewNetlinkRequest(unix.RTM_GETNEIGH, unix.NLM_F_DUMP)
		req.AddData(&netlink.Ndmsg{Family: unix.AF_INET})
		return req.Execute(unix.NETLINK_ROUTE, 0)
	})
	if err != nil && !errors.Is(err, nlmsg.ErrInterrupted) {
		return nil, fmt.Errorf("list neighbours: %w", err)
	}
	stale := map[Neighbour]bool{}
	for _, m := range all {
		if len(m) < unix.SizeofNdMsg || binary.NativeEndian.Uint16(m[ndmState:])&unix.NUD_STALE == 0 {
			continue // continue // most neighbours are not stale; skip parsing them
		}
		if n, err := netlink.NeighDeserialize(m); err == nil {
			stale[Neighbour{n.LinkIndex, nlmsg.ToAddr(n.IP)}] = true
		}
	}
	return stale, nil
}

// neighbourEntry is a neighbour, or a forwarding entry of a bridge or a tunnel.
type neighbourEntry struct {
	netlink.Neigh
	unknownAttr string // an attribute that is not proven; "" means none
	stableRest  string // all other stable attributes, as a fingerprint
}

// volatileNeighbourAttrs change without effect on packets: cache times and probe counts. The key
// and the state of an entry are compared separately.
var volatileNeighbourAttrs = map[uint16]bool{unix.NDA_DST: true, unix.NDA_LLADDR: true, unix.NDA_CACHEINFO: true, unix.NDA_PROBES: true}

const (
	ndmSize          = 12   // struct ndmsg
	ndmFlags         = 10   // offset of the flags in it
	ndmVolatileFlags = 0x21 // NTF_USE, NTF_OFFLOADED: origin and offload state
)

func readNeighbour(message []byte) (e neighbourEntry, err error) {
	if len(message) < ndmSize {
		return e, fmt.Errorf("message of %d bytes is too short", len(message))
	}
	read, err := netlink.NeighDeserialize(message)
	if err != nil {
		return e, err
	}
	attrs, err := nl.ParseRouteAttr(message[ndmSize:])
	if err != nil {
		return e, err
	}
	e.Neigh = *read
	proven := &provenNeighbour
	switch {
	case e.Family == familyBridge && e.MasterIndex != 0:
		proven = &provenPort
	case e.Family == familyBridge:
		proven = &provenTunnel
	}
	// The kernel does not guarantee an order of attributes.
	slices.SortStableFunc(attrs, func(a, b nlmsg.Attr) int {
		return int(nlmsg.Number(a.Attr.Type)) - int(nlmsg.Number(b.Attr.Type))
	})
	e.unknownAttr = proven.FirstUnknown(attrs)
	e.stableRest = fmt.Sprint(message[ndmFlags]&^ndmVolatileFlags, stableAttrs(attrs, volatileNeighbourAttrs))
	return e, nil
}

// dumpNeighbours lists the neighbours of a family, or forwarding entries.
func dumpNeighbours(family int) (all []neighbourEntry, err error) {
	found, err := nlmsg.Dump(func() ([][]byte, error) {
		req := nl.NewNetlinkRequest(unix.RTM_GETNEIGH, unix.NLM_F_DUMP)
		req.AddData(&netlink.Ndmsg{Family: uint8(family)})
		return req.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWNEIGH)
	})
	for _, m := range found {
		e, failed := readNeighbour(m)
		if failed != nil {
			return nil, fmt.Errorf("parse a neighbour: %w", failed)
		}
		if e.Family == family {
			all = append(all, e)
		}
	}
	return all, err
}
