package kernel

import (
	"encoding/binary"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// The messages of conntrack, as far as they are written and read here: see the
// kernel's nfnetlink_conntrack.h. They are written by hand because there are many
// of them: thousands a second, when flows come and go.

const (
	trackNew, trackDelete = 0, 2 // IPCTNL_MSG_CT_

	ctaTupleOrig, ctaTupleReply, ctaStatus, ctaProtoInfo, ctaTimeout = 1, 2, 3, 4, 7
	ctaTupleIP, ctaTupleProto                                        = 1, 2
	ctaIPv4Src, ctaIPv4Dst                                           = 1, 2
	ctaProtoNum, ctaProtoSrcPort, ctaProtoDstPort                    = 1, 2, 3
	ctaTCP                                                           = 1
	ctaTCPState, ctaTCPFlagsOrig, ctaTCPFlagsReply                   = 1, 4, 5

	// liberal is flags and mask of struct nf_ct_tcp_flags: IP_CT_TCP_FLAG_BE_LIBERAL is
	// set, IP_CT_TCP_FLAG_DATA_UNACKNOWLEDGED taken away.
	liberal = 0x0818
	// assured is what a flow gets that has gone on for a while: seen reply,
	// assured, confirmed.
	assured = 1<<1 | 1<<2 | 1<<3

	tcpEstablished = 3 // enum tcp_conntrack

	netfilterHeader = 4 // struct nfgenmsg
)

// trackMessage is the type of a message of conntrack.
func trackMessage(what uint16) uint16 { return unix.NFNL_SUBSYS_CTNETLINK<<8 | what }

// request appends one about a connection.
func request(b []byte, what, flags uint16, sequence uint32, of Connection, more func([]byte) []byte) []byte {
	start := len(b)
	b = append(b, make([]byte, unix.NLMSG_HDRLEN)...)
	b = append(b, unix.AF_INET, 0, 0, 0)
	b = more(tuple(b, ctaTupleOrig, of.Protocol, of.A, of.B))
	h := b[start:]
	binary.NativeEndian.PutUint32(h, uint32(len(h)))
	binary.NativeEndian.PutUint16(h[4:], trackMessage(what))
	binary.NativeEndian.PutUint16(h[6:], unix.NLM_F_REQUEST|unix.NLM_F_ACK|flags)
	binary.NativeEndian.PutUint32(h[8:], sequence)
	return b
}

func tuple(b []byte, kind uint16, protocol uint8, from, to netip.AddrPort) []byte {
	return nest(b, kind, func(b []byte) []byte {
		b = nest(b, ctaTupleIP, func(b []byte) []byte {
			b = attribute(b, ctaIPv4Src, from.Addr().AsSlice())
			return attribute(b, ctaIPv4Dst, to.Addr().AsSlice())
		})
		return nest(b, ctaTupleProto, func(b []byte) []byte {
			b = attribute(b, ctaProtoNum, []byte{protocol})
			b = attribute(b, ctaProtoSrcPort, binary.BigEndian.AppendUint16(nil, from.Port()))
			return attribute(b, ctaProtoDstPort, binary.BigEndian.AppendUint16(nil, to.Port()))
		})
	})
}

// lives appends for how long a connection does.
func lives(b []byte, alive time.Duration) []byte {
	return attribute(b, ctaTimeout, binary.BigEndian.AppendUint32(nil, uint32(alive/time.Second)))
}

// surely appends that it is assured.
func surely(b []byte) []byte {
	return attribute(b, ctaStatus, binary.BigEndian.AppendUint32(nil, assured))
}

// append appends the request for an update.
func (u Update) append(b []byte, sequence uint32) []byte {
	return request(b, trackNew, unix.NLM_F_ECHO, sequence, u.Of, func(b []byte) []byte {
		if u.Liberal {
			b = nest(b, ctaProtoInfo, func(b []byte) []byte {
				return nest(b, ctaTCP, func(b []byte) []byte {
					// Not the state: that may have changed since anybody looked.
					flags := binary.BigEndian.AppendUint16(nil, liberal)
					return attribute(attribute(b, ctaTCPFlagsOrig, flags), ctaTCPFlagsReply, flags)
				})
			})
		}
		if u.Alive > 0 {
			b = lives(b, u.Alive)
			if u.Of.Protocol == unix.IPPROTO_UDP && !u.Unreplied {
				b = surely(b)
			}
		}
		return b
	})
}

func attribute(b []byte, kind uint16, value []byte) []byte {
	b = binary.NativeEndian.AppendUint16(b, uint16(unix.SizeofNlAttr+len(value)))
	b = binary.NativeEndian.AppendUint16(b, kind)
	b = append(b, value...)
	return append(b, make([]byte, align(len(value))-len(value))...)
}

func nest(b []byte, kind uint16, inside func([]byte) []byte) []byte {
	start := len(b)
	b = inside(attribute(b, kind|unix.NLA_F_NESTED, nil))
	binary.NativeEndian.PutUint16(b[start:], uint16(len(b)-start))
	return b
}

func align(n int) int { return (n + unix.NLMSG_ALIGNTO - 1) &^ (unix.NLMSG_ALIGNTO - 1) }

// message is one of netlink.
type message struct {
	kind     uint16
	sequence uint32
	body     []byte
}

// eachMessage goes through the messages of a datagram.
func eachMessage(b []byte, do func(message)) {
	for len(b) >= unix.NLMSG_HDRLEN {
		n := int(binary.NativeEndian.Uint32(b))
		if n < unix.NLMSG_HDRLEN || n > len(b) {
			return
		}
		do(message{binary.NativeEndian.Uint16(b[4:]), binary.NativeEndian.Uint32(b[8:]), b[unix.NLMSG_HDRLEN:n]})
		b = b[min(align(n), len(b)):]
	}
}

// value finds an attribute among some; nil: there is none.
func value(b []byte, kind uint16) []byte {
	for len(b) >= unix.SizeofNlAttr {
		n := int(binary.NativeEndian.Uint16(b))
		if n < unix.SizeofNlAttr || n > len(b) {
			return nil
		}
		if binary.NativeEndian.Uint16(b[2:])&^(unix.NLA_F_NESTED|unix.NLA_F_NET_BYTEORDER) == kind {
			return b[unix.SizeofNlAttr:n]
		}
		b = b[min(align(n), len(b)):]
	}
	return nil
}

// attributes are those of a message of conntrack.
func (m message) attributes() []byte { return m.body[min(netfilterHeader, len(m.body)):] }

// tracked is how the connection of a message is.
func (m message) tracked() Tracked {
	state := value(value(value(m.attributes(), ctaProtoInfo), ctaTCP), ctaTCPState)
	if len(state) == 1 && state[0] != tcpEstablished {
		return TrackedClosing
	}
	return TrackedOpen
}

// connection is that of a message; false: it is not one of TCP or UDP over IPv4.
func (m message) connection() (Connection, bool) {
	orig := value(m.attributes(), ctaTupleOrig)
	ip, proto := value(orig, ctaTupleIP), value(orig, ctaTupleProto)
	number, from, to := value(proto, ctaProtoNum), value(proto, ctaProtoSrcPort), value(proto, ctaProtoDstPort)
	src, okSrc := netip.AddrFromSlice(value(ip, ctaIPv4Src))
	dst, okDst := netip.AddrFromSlice(value(ip, ctaIPv4Dst))
	if !okSrc || !okDst || !src.Is4() || !dst.Is4() || len(number) != 1 || len(from) != 2 || len(to) != 2 ||
		number[0] != unix.IPPROTO_TCP && number[0] != unix.IPPROTO_UDP {
		return Connection{}, false
	}
	return Connection{
		Protocol: number[0],
		A:        netip.AddrPortFrom(src, binary.BigEndian.Uint16(from)),
		B:        netip.AddrPortFrom(dst, binary.BigEndian.Uint16(to)),
	}, true
}
