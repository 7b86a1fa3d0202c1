package netcfg

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
)

// Encap is what a route tells a tunnel's device that takes its other end from
// what sends by it: `ip route ... encap ip`.
type Encap struct {
	ID       int        // virtual network identifier
	Src, Dst netip.Addr // outer
	TTL      int        // outer; without one it would be 0
	Csum     bool       // compute the checksum of the outer UDP header
}

// Attributes of linux/lwtunnel.h, which no library lists.
const (
	lwtIPID    = 1
	lwtIPDst   = 2
	lwtIPSrc   = 3
	lwtIPTTL   = 4
	lwtIPFlags = 6

	tunnelCsum = 1 // TUNNEL_CSUM of linux/if_tunnel.h
)

// Type is of [netlink.Encap], as are those that follow.
func (Encap) Type() int { return nl.LWTUNNEL_ENCAP_IP }

// Encode gives the attributes.
func (e Encap) Encode() ([]byte, error) {
	attrs := []*nl.RtAttr{
		nl.NewRtAttr(lwtIPID, binary.BigEndian.AppendUint64(nil, uint64(e.ID))),
		nl.NewRtAttr(lwtIPDst, e.Dst.AsSlice()),
		nl.NewRtAttr(lwtIPSrc, e.Src.AsSlice()),
		nl.NewRtAttr(lwtIPTTL, nl.Uint8Attr(uint8(e.TTL))),
	}
	if e.Csum {
		attrs = append(attrs, nl.NewRtAttr(lwtIPFlags, binary.BigEndian.AppendUint16(nil, tunnelCsum)))
	}
	var text []byte
	for _, a := range attrs {
		text = append(text, a.Serialize()...)
	}
	return text, nil
}

// Decode is for routes that are read, which nobody does.
func (Encap) Decode([]byte) error {
	return fmt.Errorf("read the encapsulation of a route: not supported")
}

// String writes it as iproute2 does.
func (e Encap) String() string {
	return fmt.Sprintf("ip id %d src %s dst %s ttl %d", e.ID, e.Src, e.Dst, e.TTL)
}

// Equal compares with another.
func (e Encap) Equal(other netlink.Encap) bool { return e == other }
