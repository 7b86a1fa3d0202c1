package tool

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/venturi-net/venturi/internal/sanitize"
)

// awaitListen returns when the process itself listens on a port. Asking
// by connecting would not do: it would count as a client.
func (p *process) awaitListen(ctx context.Context, port int) error {
	const patience = 5 * time.Second
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	poll := time.NewTicker(2 * time.Millisecond)
	defer poll.Stop()
	for {
		if p.listens(port) {
			return nil
		}
		select {
		case <-p.done:
			if err := p.failure(); err != nil {
				return err
			}
			return errors.New("it ended at once")
		case <-deadline.C:
			return fmt.Errorf("it does not listen on port %d after %v", port, patience)
		case <-ctx.Done():
			return ctx.Err()
		case <-poll.C:
		}
	}
}

// listens looks for a listening socket on port among the process's own. A
// process that is just ending reads as one that does not listen.
func (p *process) listens(port int) bool {
	proc := filepath.Join("/proc", strconv.Itoa(p.cmd.Process.Pid))
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
	const (
		local, state, inode = 1, 3, 9 // columns
		listen, unconnected = "0A", "07"
	)
	var found []string
	want := fmt.Sprintf(":%04X", port)
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		if len(f) > inode && strings.HasSuffix(f[local], want) && (f[state] == listen || f[state] == unconnected) {
			found = append(found, f[inode])
		}
	}
	return found
}
