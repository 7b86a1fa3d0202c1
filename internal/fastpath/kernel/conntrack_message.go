package kernel

import (
	"encoding/binary"
	"math"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/nlmsg"
)

// Conntrack's netlink messages, as far as they are used here: see the kernel's
// nfnetlink_conntrack.h. They are encoded by hand for speed: thousands are sent in a second
// when flows come and go.

const (
	ctNew, ctDelete = 0, 2 // IPCTNL_MSG_CT_

	ctaTupleOrig, ctaTupleReply, ctaStatus, ctaProtoInfo, ctaTimeout = 1, 2, 3, 4, 7
	ctaTupleIP, ctaTupleProto                                        = 1, 2
	ctaIPv4Src, ctaIPv4Dst, ctaIPv6Src, ctaIPv6Dst                   = 1, 2, 3, 4
	ctaProtoNum, ctaProtoSrcPort, ctaProtoDstPort                    = 1, 2, 3
	ctaTCP                                                           = 1
	ctaTCPState, ctaTCPFlagsOrig, ctaTCPFlagsReply                   = 1, 4, 5

	// liberalFlags is flags and mask of struct nf_ct_tcp_flags. It sets
	// IP_CT_TCP_FLAG_BE_LIBERAL, and clears IP_CT_TCP_FLAG_DATA_UNACKNOWLEDGED.
	liberalFlags = 0x0818
	// closeFlags set IP_CT_TCP_FLAG_CLOSE_INIT, and openFlags clear it. With it, a SYN from either end
	// makes a new connection out of a closed one; otherwise only one from the end that was the last to
	// send a reset does.
	closeFlags = 0x0404
	openFlags  = 0x0004
	// assuredStatus is that of a flow with traffic both ways: seen reply, assured,
	// confirmed.
	assuredStatus = 1<<1 | 1<<2 | 1<<3

	nfgenmsgLen = 4 // struct nfgenmsg
)

// ctMessageType is the type of a conntrack message.
func ctMessageType(what uint16) uint16 { return unix.NFNL_SUBSYS_CTNETLINK<<8 | what }

// request appends a request about a connection.
func request(b []byte, what, flags uint16, sequence uint32, of Connection, more func([]byte) []byte) []byte {
	start := len(b)
	b = append(b, make([]byte, unix.NLMSG_HDRLEN)...)
	b = append(b, familyOf(of.A.Addr()), 0, 0, 0)
	b = more(putTuple(b, ctaTupleOrig, of.Protocol, of.A, of.B))
	h := b[start:]
	binary.NativeEndian.PutUint32(h, uint32(len(h)))
	binary.NativeEndian.PutUint16(h[4:], ctMessageType(what))
	binary.NativeEndian.PutUint16(h[6:], unix.NLM_F_REQUEST|unix.NLM_F_ACK|flags)
	binary.NativeEndian.PutUint32(h[8:], sequence)
	return b
}

// familyOf is the family of an address.
func familyOf(addr netip.Addr) byte {
	if addr.Is6() {
		return unix.AF_INET6
	}
	return unix.AF_INET
}

func putTuple(b []byte, kind uint16, protocol uint8, from, to netip.AddrPort) []byte {
	return putNested(b, kind, func(b []byte) []byte {
		b = putNested(b, ctaTupleIP, func(b []byte) []byte {
			source, destination := uint16(ctaIPv4Src), uint16(ctaIPv4Dst)
			if from.Addr().Is6() {
				source, destination = ctaIPv6Src, ctaIPv6Dst
			}
			b = putAttr(b, source, from.Addr().AsSlice())
			return putAttr(b, destination, to.Addr().AsSlice())
		})
		return putNested(b, ctaTupleProto, func(b []byte) []byte {
			b = putAttr(b, ctaProtoNum, []byte{protocol})
			b = putAttr(b, ctaProtoSrcPort, binary.BigEndian.AppendUint16(nil, from.Port()))
			return putAttr(b, ctaProtoDstPort, binary.BigEndian.AppendUint16(nil, to.Port()))
		})
	})
}

// putTimeout appends the timeout of a connection.
func putTimeout(b []byte, alive time.Duration) []byte {
	return putAttr(b, ctaTimeout, binary.BigEndian.AppendUint32(nil, uint32(alive/time.Second)))
}

// putAssured appends the assured status.
func putAssured(b []byte) []byte {
	return putAttr(b, ctaStatus, binary.BigEndian.AppendUint32(nil, assuredStatus))
}

// putTCP appends what is TCP's own of a connection.
func putTCP(b []byte, inside func([]byte) []byte) []byte {
	return putNested(b, ctaProtoInfo, func(b []byte) []byte { return putNested(b, ctaTCP, inside) })
}

// append appends the request of an update.
func (u Update) append(b []byte, sequence uint32) []byte {
	return request(b, ctNew, unix.NLM_F_ECHO, sequence, u.Conn, func(b []byte) []byte {
		if u.Liberal {
			b = putTCP(b, func(b []byte) []byte {
				// Not the state, which may have changed since it was read.
				flags := binary.BigEndian.AppendUint16(nil, liberalFlags)
				return putAttr(putAttr(b, ctaTCPFlagsOrig, flags), ctaTCPFlagsReply, flags)
			})
		}
		if u.state != 0 {
			b = putTCP(b, func(b []byte) []byte {
				flags := binary.BigEndian.AppendUint16(nil, openFlags)
				if u.state == TCPClose {
					flags = binary.BigEndian.AppendUint16(nil, closeFlags)
				}
				b = putAttr(b, ctaTCPState, []byte{byte(u.state)})
				return putAttr(putAttr(b, ctaTCPFlagsOrig, flags), ctaTCPFlagsReply, flags)
			})
		}
		if u.Timeout > 0 {
			b = putTimeout(b, u.Timeout)
			if u.Conn.Protocol == unix.IPPROTO_UDP && !u.Unreplied {
				b = putAssured(b)
			}
		}
		return b
	})
}

func putAttr(b []byte, kind uint16, value []byte) []byte {
	b = binary.NativeEndian.AppendUint16(b, uint16(unix.SizeofNlAttr+len(value)))
	b = binary.NativeEndian.AppendUint16(b, kind)
	b = append(b, value...)
	return append(b, make([]byte, align(len(value))-len(value))...)
}

func putNested(b []byte, kind uint16, inside func([]byte) []byte) []byte {
	start := len(b)
	b = inside(putAttr(b, kind|unix.NLA_F_NESTED, nil))
	binary.NativeEndian.PutUint16(b[start:], uint16(len(b)-start))
	return b
}

func align(n int) int { return (n + unix.NLMSG_ALIGNTO - 1) &^ (unix.NLMSG_ALIGNTO - 1) }

// message is a netlink message of connection tracking.
type message struct{ nlmsg.Message }

// attributes are those of a conntrack message.
func (m message) attributes() []byte { return m.Body[min(nfgenmsgLen, len(m.Body)):] }

// state is that of the connection of a message.
func (m message) state() ConnState {
	if state := m.tcpState(); state != 0 && state != TCPEstablished {
		return ConnClosing
	}
	return ConnEstablished
}

// tcpState is the state of the TCP connection of a message; 0: it has none.
func (m message) tcpState() TCPState {
	if state := nlmsg.FindIn(m.attributes(), ctaProtoInfo, ctaTCP, ctaTCPState); len(state) == 1 {
		return TCPState(state[0])
	}
	return 0
}

// timeout is the time until the connection of a message expires.
func (m message) timeout() time.Duration {
	if seconds := nlmsg.FindIn(m.attributes(), ctaTimeout); len(seconds) == 4 {
		return time.Duration(binary.BigEndian.Uint32(seconds)) * time.Second
	}
	return math.MaxInt64
}

// ended is the connection of a message; false: it is not TCP or UDP.
func (m message) ended() (e Ended, ok bool) {
	attributes := m.attributes()
	if e.Connection, ok = parseTuple(nlmsg.FindIn(attributes, ctaTupleOrig)); ok {
		e.Replies, ok = parseTuple(nlmsg.FindIn(attributes, ctaTupleReply))
	}
	return e, ok
}

// parseTuple parses a tuple; false: it is not of TCP or UDP.
func parseTuple(orig []byte) (Connection, bool) {
	ip, proto := nlmsg.FindIn(orig, ctaTupleIP), nlmsg.FindIn(orig, ctaTupleProto)
	number, from, to := nlmsg.FindIn(proto, ctaProtoNum), nlmsg.FindIn(proto, ctaProtoSrcPort), nlmsg.FindIn(proto, ctaProtoDstPort)
	source, destination := nlmsg.FindIn(ip, ctaIPv4Src), nlmsg.FindIn(ip, ctaIPv4Dst)
	if source == nil {
		source, destination = nlmsg.FindIn(ip, ctaIPv6Src), nlmsg.FindIn(ip, ctaIPv6Dst)
	}
	src, okSrc := netip.AddrFromSlice(source)
	dst, okDst := netip.AddrFromSlice(destination)
	if !okSrc || !okDst || src.Is4() != dst.Is4() || len(number) != 1 || len(from) != 2 || len(to) != 2 ||
		number[0] != unix.IPPROTO_TCP && number[0] != unix.IPPROTO_UDP {
		return Connection{}, false
	}
	return Connection{
		Protocol: number[0],
		A:        netip.AddrPortFrom(src, binary.BigEndian.Uint16(from)),
		B:        netip.AddrPortFrom(dst, binary.BigEndian.Uint16(to)),
	}, true
}
