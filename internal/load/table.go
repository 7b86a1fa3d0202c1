package load

import (
	"fmt"
	"strings"

	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/result"
)

// Table is every load that Venturi knows, in the order in which help lists them.
var Table = []Load{tcpLat, udpLat, tcpBW, udpBW, tcpRR, udpRR, tcpCRR}

// Default is what a comparison runs when the user names no load.
var Default = []string{"tcp_lat", "udp_lat", "tcp_bw", "udp_bw"}

// Find gives the load of that name. Error: a usage error that lists the known names.
func Find(name string) (Load, error) {
	known := make([]string, 0, len(Table))
	for _, l := range Table {
		if l.Name == name {
			return l, nil
		}
		known = append(known, l.Name)
	}
	return Load{}, verr.New(verr.Usage,
		fmt.Sprintf("unknown load %q", name),
		"no load has this name",
		"choose from "+strings.Join(known, ", "))
}

// MaxDatagram is the largest UDP payload over IPv4, bytes.
const MaxDatagram = 65507

// maxMessage bounds what a user can ask of a TCP load, bytes.
const maxMessage = 16 << 20

// CheckSize tells whether the load can carry messages of size bytes.
func (l Load) CheckSize(size int) error {
	largest, why := maxMessage, "messages are at most 16 MiB"
	if l.Transport == "udp" {
		largest, why = MaxDatagram, fmt.Sprintf("a UDP datagram over IPv4 carries at most %d bytes", MaxDatagram)
	}
	if size >= 1 && size <= largest {
		return nil
	}
	if size < 1 {
		why = "a message has at least 1 byte"
	}
	return verr.New(verr.Usage,
		fmt.Sprintf("%s cannot carry messages of %d bytes", l.Name, size), why,
		"leave this size out of --sizes, or name the loads that can: --load tcp_lat,tcp_bw")
}

// CheckBatch tells whether the load can move batch messages in one system call.
func (l Load) CheckBatch(batch int) error {
	switch {
	case batch <= 1:
		return nil
	case l.Transport != "udp" || l.Kind != Stream:
		return verr.New(verr.Usage, fmt.Sprintf("%s cannot run with --batch %d", l.Name, batch),
			"only one-way datagrams can be sent many at a time", "use --batch with udp_bw alone")
	case batch > maxBatch:
		return verr.New(verr.Usage, fmt.Sprintf("cannot send %d datagrams a system call", batch),
			fmt.Sprintf("the kernel takes at most %d", maxBatch), "choose a smaller --batch")
	}
	return nil
}

// CellName names a cell: what is measured, apart from the path.
func CellName(load string, size, flows, batch int) string {
	name := fmt.Sprintf("%s/%d", load, size)
	if flows > 1 {
		name += fmt.Sprintf("/flows=%d", flows)
	}
	if batch > 1 {
		name += fmt.Sprintf("/batch=%d", batch)
	}
	return name
}

// StreamMetric tells what the figure of a one-way load is: below 64 bytes a
// stream is a test of calls and packets, and bits per second would mislead.
func StreamMetric(size int) result.Metric {
	if size < 64 {
		return result.Messages
	}
	return result.Bandwidth
}
