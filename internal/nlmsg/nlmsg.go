package nlmsg

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"net"
	"net/netip"
	"strings"
	"syscall"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

type (
	Attr  = syscall.NetlinkRouteAttr
	Attrs = []Attr
)

// Map are attributes by their numbers, such as those of one expression of a rule.
type Map map[uint16][]byte

func (d Map) Has(number uint16) bool { return d[number] != nil }

func (d Map) Bytes(number uint16) []byte { return d[number] }

func (d Map) Text(number uint16) string { return strings.TrimRight(string(d[number]), "\x00") }

// Octet reads one byte; 0: it is not there.
func (d Map) Octet(number uint16) byte {
	if len(d[number]) == 0 {
		return 0
	}
	return d[number][0]
}

// BigEndian32 reads a 32-bit number in network order, as nftables has them; -1: it is not there.
func (d Map) BigEndian32(number uint16) int {
	if len(d[number]) < 4 {
		return -1
	}
	return int(binary.BigEndian.Uint32(d[number]))
}

// DataValue gives the value of a nested attribute of data (NFTA_DATA_VALUE).
func (d Map) DataValue(number uint16) []byte {
	parts, err := nl.ParseRouteAttr(d[number])
	if err != nil {
		return nil
	}
	for _, p := range parts {
		if Number(p.Attr.Type) == unix.NFTA_DATA_VALUE {
			return p.Value
		}
	}
	return nil
}

func ByNumber(attrs Attrs) Map {
	data := Map{}
	for _, a := range attrs {
		data[Number(a.Attr.Type)] = a.Value
	}
	return data
}

// AppendAttrs appends the attributes in b to a list. With a list that has room ([Room]), it does not
// allocate.
func AppendAttrs(list Attrs, b []byte) (Attrs, error) {
	for len(b) >= unix.SizeofRtAttr {
		n := int(binary.NativeEndian.Uint16(b))
		if n < unix.SizeofRtAttr || n > len(b) {
			return nil, fmt.Errorf("attribute of %d bytes, of which %d are there: %w", n, len(b), unix.EINVAL)
		}
		list = append(list, Attr{Attr: syscall.RtAttr{Len: uint16(n), Type: binary.NativeEndian.Uint16(b[2:])}, Value: b[unix.SizeofRtAttr:n]})
		b = b[min((n+3)&^3, len(b)):]
	}
	return list, nil
}

// Find gives the value of an attribute, the last one if there are several; nil: it is not there.
func Find(list Attrs, number uint16) []byte {
	for i := len(list) - 1; i >= 0; i-- {
		if Number(list[i].Attr.Type) == number {
			return list[i].Value
		}
	}
	return nil
}

// Room is room for the attributes of most messages.
type Room [72]Attr

// Number strips the two flag bits that share the field with an attribute's number.
func Number(t uint16) uint16 { return t &^ (unix.NLA_F_NESTED | unix.NLA_F_NET_BYTEORDER) }

// EachAttr goes through attributes, as far as they are whole.
func EachAttr(b []byte) iter.Seq2[uint16, []byte] {
	return func(yield func(kind uint16, value []byte) bool) {
		for len(b) >= unix.SizeofRtAttr {
			n := int(binary.NativeEndian.Uint16(b))
			if n < unix.SizeofRtAttr || n > len(b) || !yield(Number(binary.NativeEndian.Uint16(b[2:])), b[unix.SizeofRtAttr:n]) {
				return
			}
			b = b[min((n+3)&^3, len(b)):]
		}
	}
}

// FindIn gives the value of an attribute in b, or of one nested in others: path are their numbers, the outermost
// first. nil: it is not there.
func FindIn(b []byte, path ...uint16) []byte {
	for kind, value := range EachAttr(b) {
		if kind != path[0] {
			continue
		}
		if len(path) == 1 {
			return value
		}
		return FindIn(value, path[1:]...)
	}
	return nil
}

// NativeUint32 reads a number of the kernel's; 0: it is not there.
func NativeUint32(value []byte) uint32 {
	if len(value) < 4 {
		return 0
	}
	return binary.NativeEndian.Uint32(value)
}

// ErrInterrupted is wrapped by errors of those who list the kernel's tables when one
// of these changed while it was listed, however often that was tried.
var ErrInterrupted error = netlink.ErrDumpInterrupted

// dumpTries is how often an interrupted dump is tried.
const dumpTries = 3

// Dump lists a table of the kernel's, and asks again when that changed while it was listed. Any other
// error is final.
func Dump[T any](list func() ([]T, error)) (found []T, err error) {
	for range dumpTries {
		if found, err = list(); !errors.Is(err, ErrInterrupted) {
			break
		}
	}
	return found, err
}

// ToPrefix reads a destination; none is that of a default route.
func ToPrefix(n *net.IPNet) netip.Prefix {
	if n == nil {
		return netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	}
	bits, _ := n.Mask.Size()
	return netip.PrefixFrom(ToAddr(n.IP), bits)
}

func ToAddr(ip net.IP) netip.Addr {
	addr, _ := netip.AddrFromSlice(ip)
	return addr.Unmap()
}
