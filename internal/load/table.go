package load

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/result"
)

// Table is every load that Venturi knows, in the order in which help lists them.
var Table = []Load{tcpLat, udpLat, tcpBW, udpBW, tcpRR, udpRR, tcpCRR, probe, ping, quic}

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
	if l.Transport != "tcp" {
		largest, why = MaxDatagram, fmt.Sprintf("a UDP datagram over IPv4 carries at most %d bytes", MaxDatagram)
	}
	least := max(1, l.Least)
	if size >= least && size <= largest {
		return nil
	}
	switch {
	case size < 1:
		why = "a message has at least 1 byte"
	case size < least && l.Segments:
		why = fmt.Sprintf("the control frames of a slice have %d bytes, and must not be cut", least)
	case size < least:
		why = fmt.Sprintf("a request holds its number, so it has at least %d bytes", least)
	}
	return verr.New(verr.Usage,
		fmt.Sprintf("%s cannot carry messages of %d bytes", l.Name, size), why,
		"leave this size out of --sizes, or name the loads that can: --load tcp_lat,tcp_bw")
}

// CheckBatch tells whether the load can move batch messages in one system call at a rate.
func (l Load) CheckBatch(batch int, rate float64) error {
	switch {
	case batch <= 1:
		return nil
	case l.Segments:
		return verr.New(verr.Usage, fmt.Sprintf("%s cannot run with --batch %d", l.Name, batch),
			fmt.Sprintf("it sends up to %d datagrams in a call by itself", MaxSegments), "use --batch with udp_bw alone")
	case l.Transport != "udp" || l.Kind != Stream:
		return verr.New(verr.Usage, fmt.Sprintf("%s cannot run with --batch %d", l.Name, batch),
			"only one-way datagrams can be sent many at a time", "use --batch with udp_bw alone")
	case rate > 0 && batch > MaxBurst:
		return verr.New(verr.Usage, fmt.Sprintf("cannot send %d datagrams a system call at a rate", batch),
			fmt.Sprintf("a sender with a rate sends at most %d at once", MaxBurst), "choose a smaller --batch")
	case batch > maxBatch:
		return verr.New(verr.Usage, fmt.Sprintf("cannot send %d datagrams a system call", batch),
			fmt.Sprintf("the kernel takes at most %d", maxBatch), "choose a smaller --batch")
	}
	return nil
}

// CheckResponse tells whether the load can have answers of so many bytes; 0: as many as its
// requests.
func (l Load) CheckResponse(size int) error {
	if size == 0 {
		return nil
	}
	if l.Kind != PingPong && l.Kind != Connect {
		return verr.New(verr.Usage, fmt.Sprintf("%s cannot run with --response %d", l.Name, size),
			"only a request that is waited for has a response of another size", "use --response with tcp_lat, udp_lat, tcp_rr, udp_rr or tcp_crr")
	}
	return l.CheckSize(size)
}

// CheckThreads tells whether so many flows of the load, whose messages and answers have at most
// so many bytes, can be dealt out to so many threads; 0: as the load does by itself.
func (l Load) CheckThreads(threads, flows, size int) error {
	what := fmt.Sprintf("cannot run %s with %d flows on %d threads", l.Name, flows, threads)
	switch {
	case threads == 0 || threads == flows:
		return nil
	case threads < 0 || threads > flows:
		return verr.New(verr.Usage, what, "a thread has one flow or more", fmt.Sprintf("choose 1 to %d for --threads, or more --flows", flows))
	case l.Kind == Connect:
		return verr.New(verr.Usage, what, "each of its flows waits for its own connections", "leave --threads out")
	case l.Kind == PingPong && size > SharedThreadSize:
		return verr.New(verr.Usage, what,
			fmt.Sprintf("a thread that waits until a message of more than %d bytes is sent cannot serve another flow meanwhile", SharedThreadSize),
			"choose smaller messages, or leave --threads out")
	}
	return nil
}

// CheckFlows tells whether the load can run with so many flows.
func (l Load) CheckFlows(flows int) error {
	if l.Kind != Scheduled || flows == 1 {
		return nil
	}
	return verr.New(verr.Usage, fmt.Sprintf("%s cannot run with %d flows", l.Name, flows),
		"a schedule needs a thread of its own, and several would disturb each other",
		"leave --flows out, or run it in a separate comparison")
}

// FormatShare writes a part of a whole: 3%.
func FormatShare(v float64) string { return strconv.FormatFloat(100*v, 'g', 4, 64) + "%" }

// CellName names a cell: what is measured, apart from the path.
func CellName(c result.Cell) string {
	name := fmt.Sprintf("%s/%d", c.Load, c.Size)
	if c.Response > 0 {
		name += fmt.Sprintf("/response=%d", c.Response)
	}
	if c.Flows > 1 {
		name += fmt.Sprintf("/flows=%d", c.Flows)
	}
	if c.Threads > 0 {
		name += fmt.Sprintf("/threads=%d", c.Threads)
	}
	if c.Batch > 1 {
		name += fmt.Sprintf("/batch=%d", c.Batch)
	}
	if l, _ := Find(c.Load); c.Rate != l.Rate { // a tool has no rate of its own
		name += fmt.Sprintf("/rate=%s", FormatRate(c.Rate))
	}
	if b := c.Background; b != nil {
		name += fmt.Sprintf("/beside=%s/%d", b.Load, b.Size)
		if b.Flows > 1 {
			name += fmt.Sprintf("x%d", b.Flows)
		}
		switch {
		case b.Rate > 0:
			name += "@" + FormatRate(b.Rate)
		case b.Share > 0:
			name += "@" + FormatShare(b.Share)
		}
		name += "/cores=" + b.Cores
	}
	return name
}

// streamMetric tells what the figure of a one-way load is: below 64 bytes a
// stream is a test of calls and packets, and bits per second would mislead.
func streamMetric(size int) result.Metric {
	if size < 64 {
		return result.Messages
	}
	return result.Bandwidth
}
