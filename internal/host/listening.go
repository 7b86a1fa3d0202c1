package host

import (
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/venturi-net/venturi/internal/sanitize"
)

// ListensAt looks for a listening socket, of TCP or UDP, among a process's own that takes what is sent to an address, or
// to one of all addresses if none is given. A process that is just ending reads as one that does not listen.
func ListensAt(pid int, at netip.AddrPort) bool {
	proc := filepath.Join("/proc", strconv.Itoa(pid))
	own := map[string]bool{}
	links, _ := sanitize.Files(proc, "fd/*")
	for _, link := range links {
		to, err := os.Readlink(link)
		if inode, ok := strings.CutPrefix(to, "socket:["); err == nil && ok {
			own[strings.TrimSuffix(inode, "]")] = true
		}
	}
	for _, table := range []string{"tcp6", "tcp", "udp6", "udp"} {
		text, err := os.ReadFile(filepath.Join(proc, "net", table))
		if err != nil {
			continue
		}
		for _, inode := range listeners(string(text), at) {
			if own[inode] {
				return true
			}
		}
	}
	return false
}

// listeners gives the inodes of the sockets that listen at an address, as [ListensAt] has it, from the text
// of /proc/net/tcp, udp and the like. A datagram socket listens when it is not
// connected.
func listeners(table string, at netip.AddrPort) []string {
	const inodeColumn, listen, unconnected = 9, "0A", "07"
	var found []string
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		if len(f) <= inodeColumn || f[stateColumn] != listen && f[stateColumn] != unconnected {
			continue
		}
		if local, ok := procAddress(f[localColumn]); ok && overlap(local, at) {
			found = append(found, f[inodeColumn])
		}
	}
	return found
}

// overlap tells whether two sockets at these addresses would be in each other's way.
func overlap(a, b netip.AddrPort) bool {
	all := func(a netip.Addr) bool { return !a.IsValid() || a.IsUnspecified() }
	return a.Port() == b.Port() && (all(a.Addr()) || all(b.Addr()) || a.Addr().Unmap() == b.Addr().Unmap().WithZone(""))
}
