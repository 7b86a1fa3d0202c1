package host

import (
	"encoding/binary"
	"os"
	"strings"
	"syscall"
	"unsafe"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

type (
	nlAttr  = syscall.NetlinkRouteAttr
	nlAttrs = []nlAttr
)

// exprData are the attributes of one expression of a rule, by their numbers.
type exprData map[uint16][]byte

// expressionData splits an element of a rule's list.
func expressionData(elem []byte) (name string, data exprData, err error) {
	attrs, err := nl.ParseRouteAttr(elem)
	if err != nil {
		return "", nil, err
	}
	data = exprData{}
	for _, a := range attrs {
		switch attrType(a.Attr.Type) {
		case unix.NFTA_EXPR_NAME:
			name = nl.BytesToString(a.Value)
		case unix.NFTA_EXPR_DATA:
			parts, err := nl.ParseRouteAttr(a.Value)
			if err != nil {
				return name, nil, err
			}
			for _, p := range parts {
				data[attrType(p.Attr.Type)] = p.Value
			}
		}
	}
	return name, data, nil
}

func (d exprData) has(number uint16) bool { return d[number] != nil }

func (d exprData) bytes(number uint16) []byte { return d[number] }

func (d exprData) text(number uint16) string { return strings.TrimRight(string(d[number]), "\x00") }

// number reads a 32-bit number, which these messages have in network order; -1:
// it is not there.
func (d exprData) number(number uint16) int {
	if len(d[number]) < 4 {
		return -1
	}
	return int(binary.BigEndian.Uint32(d[number]))
}

// nested gives the value of a nested attribute of data (NFTA_DATA_VALUE).
func (d exprData) nested(number uint16) []byte {
	parts, err := nl.ParseRouteAttr(d[number])
	if err != nil {
		return nil
	}
	for _, p := range parts {
		if attrType(p.Attr.Type) == unix.NFTA_DATA_VALUE {
			return p.Value
		}
	}
	return nil
}

// LegacyTable is a table of the iptables that do not use nftables.
type LegacyTable struct {
	Name    string // "filter", "nat", "mangle", "raw"
	Entries int    // rules, with the ends of chains
}

// legacyInfo is struct ipt_getinfo.
type legacyInfo struct {
	name             [32]byte
	hooks            uint32
	entry, underflow [5]uint32
	entries, size    uint32
}

const (
	legacyGetInfo = 64 // IPT_SO_GET_INFO
	// legacyNames is where the calling thread's namespace lists tables of legacy iptables.
	legacyNames = "/proc/thread-self/net/ip_tables_names"
)

// LegacyTables lists the tables of legacy iptables for IPv4 that the calling
// thread's namespace has. To ask for one that it has not would make it, so only
// those are asked for that the kernel says are there. It takes privileges over
// the namespace.
func LegacyTables() ([]LegacyTable, error) {
	names, err := os.ReadFile(legacyNames)
	if os.IsNotExist(err) || err == nil && len(names) == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	var tables []LegacyTable
	for _, name := range strings.Fields(string(names)) {
		var info legacyInfo
		copy(info.name[:len(info.name)-1], name)
		size := uint32(unsafe.Sizeof(info))
		_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.IPPROTO_IP, legacyGetInfo,
			uintptr(unsafe.Pointer(&info)), uintptr(unsafe.Pointer(&size)), 0)
		if errno != 0 {
			return tables, errno
		}
		tables = append(tables, LegacyTable{Name: name, Entries: int(info.entries)})
	}
	return tables, nil
}
