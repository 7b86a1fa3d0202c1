package nft

import (
	"os"
	"path/filepath"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

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
	// LegacyTablesFile is where the calling thread's namespace lists tables of legacy iptables.
	LegacyTablesFile = "/proc/thread-self/net/ip_tables_names"
	// LegacyTables6File is the same for IPv6.
	LegacyTables6File = "/proc/thread-self/net/ip6_tables_names"
)

// LegacyTables lists the tables of legacy iptables for IPv4 that the calling
// thread's namespace has. To ask for one that it has not would make it, so only
// those are asked for that the kernel says are there. It takes privileges over
// the namespace.
func LegacyTables() ([]LegacyTable, error) {
	names, err := os.ReadFile(LegacyTablesFile)
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

// LegacyBridgeTables lists the tables of the ebtables that do not use nftables which
// the kernel has loaded, by its files in a folder such as /sys. Whether a namespace
// has such a table cannot be found out without making it.
func LegacyBridgeTables(sys string) (names []string) {
	for _, name := range []string{"broute", "nat", "filter"} {
		if _, err := os.Stat(filepath.Join(sys, "module", "ebtable_"+name)); err == nil {
			names = append(names, name)
		}
	}
	return names
}
