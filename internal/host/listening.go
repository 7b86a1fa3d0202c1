package host

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/venturi-net/venturi/internal/sanitize"
)

// ListensAt looks for a listening socket on port, of TCP or UDP, among a process's own. A
// process that is just ending reads as one that does not listen.
func ListensAt(pid, port int) bool {
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
		for _, inode := range listeners(string(text), port) {
			if own[inode] {
				return true
			}
		}
	}
	return false
}

// listeners gives the inodes of the sockets that listen on port, from the text
// of /proc/net/tcp, udp and the like. A datagram socket listens when it is not
// connected.
func listeners(table string, port int) []string {
	const inodeColumn, listen, unconnected = 9, "0A", "07"
	var found []string
	want := fmt.Sprintf(":%04X", port)
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		if len(f) > inodeColumn && strings.HasSuffix(f[localColumn], want) && (f[stateColumn] == listen || f[stateColumn] == unconnected) {
			found = append(found, f[inodeColumn])
		}
	}
	return found
}
