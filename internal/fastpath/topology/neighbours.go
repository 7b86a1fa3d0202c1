package topology

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/venturi-net/venturi/internal/nlmsg"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Neighbour is an IP address on a device's link.
type Neighbour struct {
	Device int // index
	Addr   netip.Addr
}

// StaleNeighbours returns which of some neighbours of the poller's namespace are stale: the kernel still sends to them,
// and then verifies that they are reachable. If the table keeps changing during the dump, some may be missing.
func (p *Poller) StaleNeighbours(of map[Neighbour]bool) (stale []Neighbour, err error) {
	if len(of) == 0 { // the table may be long
		return nil, nil
	}
	request := append([]byte{p.family.Number()}, make([]byte, unix.SizeofNdMsg-1)...)
	err = p.querier.Dump(unix.RTM_GETNEIGH, request, func(m []byte) (more bool) {
		if len(m) < unix.SizeofNdMsg || binary.NativeEndian.Uint16(m[ndmState:])&unix.NUD_STALE == 0 {
			return true
		}
		addr, _ := netip.AddrFromSlice(nlmsg.FindIn(m[unix.SizeofNdMsg:], unix.NDA_DST))
		if n := (Neighbour{int(int32(nlmsg.NativeUint32(m[ndmIndex:]))), addr}); of[n] {
			stale = append(stale, n)
		}
		return true
	})
	if err != nil && !errors.Is(err, nlmsg.ErrInterrupted) {
		return nil, fmt.Errorf("list neighbours: %w", err)
	}
	return stale, nil
}

// neighbourEntry is a neighbour, or a forwarding entry of a bridge or a tunnel.
type neighbourEntry struct {
	netlink.Neigh
	unknownAttr string // an attribute that is not proven; "" means none
	stableRest  string // all other stable attributes, as a fingerprint
	owner       int    // see [fdbOwner]
}

// volatileNeighbourAttrs change without effect on packets: cache times and probe counts. The key
// and the state of an entry are compared separately.
var volatileNeighbourAttrs = map[uint16]bool{unix.NDA_DST: true, unix.NDA_LLADDR: true, unix.NDA_CACHEINFO: true, unix.NDA_PROBES: true}

// neighbourAttrSizes are the sizes of attributes of a fixed size, bytes.
var neighbourAttrSizes = map[uint16]int{netlink.NDA_FLAGS_EXT: 4, unix.NDA_VLAN: 2, unix.NDA_VNI: 4, unix.NDA_MASTER: 4, unix.NDA_CACHEINFO: 16}

const (
	ndmIndex         = 4                                 // offset of the ifindex in struct ndmsg
	ndmState         = 8                                 // of the state
	ndmFlags         = 10                                // of the flags
	ndmVolatileFlags = unix.NTF_USE | unix.NTF_OFFLOADED // origin and offload state
)

func readNeighbour(message []byte) (e neighbourEntry, err error) {
	if len(message) < unix.SizeofNdMsg {
		return e, fmt.Errorf("message of %d bytes is too short", len(message))
	}
	var room nlmsg.Room
	attrs, err := nlmsg.AppendAttrs(room[:0], message[unix.SizeofNdMsg:])
	if err != nil {
		return e, err
	}
	for _, a := range attrs { // the library would read beyond their ends
		if least := neighbourAttrSizes[a.Attr.Type]; len(a.Value) < least {
			return e, fmt.Errorf("attribute %d of %d bytes is too short", a.Attr.Type, len(a.Value))
		}
	}
	read, err := netlink.NeighDeserialize(message)
	if err != nil {
		return e, err
	}
	e.Neigh, e.owner = *read, fdbOwner(message)
	proven := &provenNeighbour
	switch {
	case e.Family == familyBridge && e.MasterIndex != 0:
		proven = &provenPort
	case e.Family == familyBridge:
		proven = &provenTunnel
	}
	// The kernel does not guarantee an order of attributes.
	slices.SortStableFunc(attrs, func(a, b nlmsg.Attr) int {
		return cmp.Compare(nlmsg.Number(a.Attr.Type), nlmsg.Number(b.Attr.Type))
	})
	e.unknownAttr = proven.FirstUnknown(attrs)
	e.stableRest = string(appendStable([]byte{message[ndmFlags] &^ ndmVolatileFlags}, attrs, volatileNeighbourAttrs))
	return e, nil
}

// neighbourKey identifies a neighbour or forwarding entry. A MAC is behind one bridge port or one
// tunnel destination at a time, and no notification names the previous one. The all-zeros MAC is
// the exception: it has many destinations.
type neighbourKey struct {
	family, vlan   int
	bridge, device int // ifindex: one of them
	mac            string
	addr           netip.Addr
}

func keyOfNeighbour(e *neighbourEntry) neighbourKey {
	k := neighbourKey{family: e.Family, vlan: e.Vlan, mac: string(e.HardwareAddr)}
	switch {
	case e.Family == familyBridge && e.MasterIndex != 0:
		k.bridge = e.MasterIndex
	case e.Family == familyBridge:
		k.device = e.LinkIndex
		if isFlood(e.HardwareAddr) {
			k.addr = nlmsg.ToAddr(e.IP)
		}
	default:
		return neighbourKey{family: e.Family, device: e.LinkIndex, addr: nlmsg.ToAddr(e.IP)}
	}
	return k
}

// neighbourFingerprint returns the fingerprint of an entry. It is empty for a neighbour that the
// kernel does not send to.
func neighbourFingerprint(e *neighbourEntry) string {
	var b []byte
	switch {
	case e.Family == familyBridge:
		b = binary.NativeEndian.AppendUint32(b, uint32(e.LinkIndex))
		b = append(b, byte(e.State&netlink.NUD_PERMANENT), byte(len(e.IP)))
		b = append(b, e.IP...)
	case isUsableState(e.State):
		b = append(append(b, byte(len(e.HardwareAddr))), e.HardwareAddr...)
	default:
		return ""
	}
	return string(b) + e.stableRest
}
