package topology

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"github.com/venturi-net/venturi/internal/nlmsg"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// rtnlQuerier queries single devices and routes repeatedly, over one socket and with its own
// buffers. The netlink library allocates 64 KB for each reply.
type rtnlQuerier struct {
	fd      int
	seq     uint32
	request []byte
	reply   [1 << 15]byte // the kernel gives no more of a list at a time
}

func openRtnlQuerier() (*rtnlQuerier, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open netlink: %w", err)
	}
	return &rtnlQuerier{fd: fd}, nil
}

func (p *rtnlQuerier) close() { unix.Close(p.fd) }

// podEnd reads a device in another namespace, by nsid.
func (p *rtnlQuerier) podEnd(space, index int) (end PodEnd, err error) {
	p.startRequest(unix.RTM_GETLINK, 0, nl.NewIfInfomsg(unix.AF_UNSPEC).Serialize())
	binary.NativeEndian.PutUint32(p.request[unix.SizeofNlMsghdr+4:], uint32(index))
	p.addUint32(unix.IFLA_TARGET_NETNSID, uint32(space))
	p.addUint32(unix.IFLA_EXT_MASK, withoutCounters)
	attrs, err := p.roundTrip(unix.SizeofIfInfomsg)
	if err != nil {
		return end, err
	}
	return newPodEnd(space, index, attrs), nil
}

// xdpProgram returns the ID of the XDP program of a device of the querier's namespace; 0 means none.
func (p *rtnlQuerier) xdpProgram(index int) (program uint32, err error) {
	p.startRequest(unix.RTM_GETLINK, 0, nl.NewIfInfomsg(unix.AF_UNSPEC).Serialize())
	binary.NativeEndian.PutUint32(p.request[unix.SizeofNlMsghdr+4:], uint32(index))
	p.addUint32(unix.IFLA_EXT_MASK, withoutCounters)
	attrs, err := p.roundTrip(unix.SizeofIfInfomsg)
	if err != nil {
		return 0, err
	}
	nlmsg.EachAttr(attrs, func(kind uint16, value []byte) {
		if kind != unix.IFLA_XDP {
			return
		}
		nlmsg.EachAttr(value, func(kind uint16, value []byte) {
			if kind == unix.IFLA_XDP_PROG_ID {
				program = nlmsg.NativeUint32(value)
			}
		})
	})
	return program, nil
}

// withoutCounters is RTEXT_FILTER_SKIP_STATS.
const withoutCounters = 1 << 3

// chosenRoute is the route that the kernel chooses for an address.
type chosenRoute struct {
	device  int        // ifindex
	gateway netip.Addr // invalid: none
	source  netip.Addr // the preferred one; invalid: as asked for
	mtu     int        // configured or learned, bytes; 0: none
}

// routeOf returns the route of a tunnel's outer packets.
func (p *rtnlQuerier) routeOf(e *Encap) (chosen chosenRoute, err error) {
	p.requestRoute(0, e)
	attrs, err := p.roundTrip(unix.SizeofRtMsg)
	if err != nil {
		return chosen, err
	}
	nlmsg.EachAttr(attrs, func(kind uint16, value []byte) {
		switch kind {
		case unix.RTA_OIF:
			chosen.device = int(int32(nlmsg.NativeUint32(value)))
		case unix.RTA_GATEWAY:
			chosen.gateway, _ = netip.AddrFromSlice(value)
		case unix.RTA_PREFSRC:
			chosen.source, _ = netip.AddrFromSlice(value)
		case unix.RTA_METRICS:
			nlmsg.EachAttr(value, func(kind uint16, value []byte) {
				if kind == unix.RTAX_MTU {
					chosen.mtu = int(nlmsg.NativeUint32(value))
				}
			})
		}
	})
	return chosen, nil
}

// hasOneHop tells whether the route of a tunnel's outer packets is one with a single next hop, so that it
// leads the same way whatever else they have in them.
func (p *rtnlQuerier) hasOneHop(e *Encap) (is bool, err error) {
	p.requestRoute(unix.RTM_F_FIB_MATCH, e)
	attrs, err := p.roundTrip(unix.SizeofRtMsg)
	if err != nil {
		return false, err
	}
	nlmsg.EachAttr(attrs, func(kind uint16, _ []byte) { is = is || kind == unix.RTA_OIF }) // else RTA_MULTIPATH
	return is, nil
}

// requestRoute begins a request for the route of a tunnel's outer packets, which the kernel looks up by all
// that it is given here. Their source port is left out, which is not the same for all.
func (p *rtnlQuerier) requestRoute(flags uint32, e *Encap) {
	m := nl.RtMsg{}
	m.Family, m.Dst_len, m.Flags = unix.AF_INET, uint8(e.Remote.BitLen()), flags
	if e.Remote.Is6() {
		m.Family = unix.AF_INET6
	}
	from := nlmsg.ToAddr(e.BoundAddr)
	hasSource := from.IsValid() && !from.IsUnspecified() && from.BitLen() == e.Remote.BitLen()
	if hasSource {
		m.Src_len = uint8(from.BitLen())
	}
	p.startRequest(unix.RTM_GETROUTE, 0, m.Serialize())
	p.add(unix.RTA_DST, e.Remote.AsSlice())
	if hasSource {
		p.add(unix.RTA_SRC, from.AsSlice())
	}
	if e.RouteDevice != 0 {
		p.addUint32(unix.RTA_OIF, uint32(e.RouteDevice))
	}
	if !e.IPIP {
		p.add(unix.RTA_IP_PROTO, []byte{unix.IPPROTO_UDP})
		p.add(unix.RTA_DPORT, binary.BigEndian.AppendUint16(nil, uint16(e.Port)))
	}
}

// startRequest begins a request; add appends attributes.
func (p *rtnlQuerier) startRequest(kind, flags uint16, header []byte) {
	p.seq++
	q := binary.NativeEndian.AppendUint32(p.request[:0], 0) // the length is filled in later
	q = binary.NativeEndian.AppendUint16(q, kind)
	q = binary.NativeEndian.AppendUint16(q, unix.NLM_F_REQUEST|flags)
	q = binary.NativeEndian.AppendUint32(q, p.seq)
	q = binary.NativeEndian.AppendUint32(q, 0)
	p.request = append(q, header...)
}

func (p *rtnlQuerier) add(kind uint16, value []byte) {
	p.request = binary.NativeEndian.AppendUint16(p.request, unix.SizeofRtAttr+uint16(len(value)))
	p.request = binary.NativeEndian.AppendUint16(p.request, kind)
	p.request = append(p.request, value...)
	for len(p.request)%unix.RTA_ALIGNTO != 0 {
		p.request = append(p.request, 0)
	}
}

func (p *rtnlQuerier) addUint32(kind uint16, value uint32) {
	var room [4]byte
	binary.NativeEndian.PutUint32(room[:], value)
	p.add(kind, room[:])
}

// roundTrip sends the request and returns the attributes of the reply, without its headers. They
// are valid until the next request.
func (p *rtnlQuerier) roundTrip(header int) (attrs []byte, err error) {
	err = p.exchange(func(kind uint16, body []byte) (done bool, err error) {
		if len(body) < header {
			return true, fmt.Errorf("a reply of %d bytes", len(body))
		}
		attrs = body[header:]
		return true, nil
	})
	return attrs, err
}

// dump sends a request for all objects of a kind, and calls do with each of them, as long as that wants more: after a
// list that was broken off, the querier can only be closed. What changes meanwhile may be missing.
func (p *rtnlQuerier) dump(kind uint16, request []byte, do func(body []byte) (more bool)) error {
	p.startRequest(kind, unix.NLM_F_DUMP, request)
	return p.exchange(func(kind uint16, body []byte) (done bool, err error) {
		return kind == unix.NLMSG_DONE || !do(body), nil
	})
}

// exchange sends the request and hands over its replies until one is the last.
func (p *rtnlQuerier) exchange(reply func(kind uint16, body []byte) (done bool, err error)) error {
	binary.NativeEndian.PutUint32(p.request, uint32(len(p.request)))
	if err := unix.Sendto(p.fd, p.request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return fmt.Errorf("ask the kernel: %w", err)
	}
	for {
		n, _, err := unix.Recvfrom(p.fd, p.reply[:], 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("ask the kernel: %w", err)
		}
		done := false
		nlmsg.EachMessage(p.reply[:n], func(m nlmsg.Message) {
			switch {
			case done || err != nil || m.Sequence != p.seq: // or a reply to an earlier request
			case m.Kind != unix.NLMSG_ERROR:
				done, err = reply(m.Kind, m.Body)
			case len(m.Body) < 4:
				err = fmt.Errorf("a reply of %d bytes", len(m.Body))
			default:
				err = unix.Errno(-int32(binary.NativeEndian.Uint32(m.Body)))
			}
		})
		if err != nil {
			return fmt.Errorf("ask the kernel: %w", err)
		}
		if done {
			return nil
		}
	}
}
