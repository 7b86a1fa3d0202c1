package load

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/result"
)

// Table is every load that Venturi knows, in the order in which help lists them.
var Table = []Load{tcpLat, udpLat, tcpBW, udpBW, tcpRR, udpRR, tcpCRR, probe, ping}

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
	case size < least:
		why = fmt.Sprintf("a request holds its number, so it has at least %d bytes", least)
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

// Bounds of the rate of a load on a schedule, requests per second.
const (
	leastRate = 1
	mostRate  = 10_000
)

// CheckRate tells whether the load can be offered at a rate; 0 is the load's own.
func (l Load) CheckRate(rate float64) error {
	what := fmt.Sprintf("%s cannot run with --rate %g", l.Name, rate)
	switch {
	case rate == 0:
		return nil
	case l.Kind != Scheduled:
		return verr.New(verr.Usage, what, "only requests on a schedule have a rate", "use --rate with probe or ping alone")
	case !(rate >= leastRate && rate <= mostRate):
		return verr.New(verr.Usage, what, fmt.Sprintf("a schedule has %d to %d requests a second", leastRate, mostRate),
			"choose a rate in that range, such as 1000")
	}
	return nil
}

// CheckFlows tells whether the load can run with so many flows.
func (l Load) CheckFlows(flows int) error {
	if l.Kind != Scheduled || flows == 1 {
		return nil
	}
	return verr.New(verr.Usage, fmt.Sprintf("%s cannot run with %d flows", l.Name, flows),
		"its thread waits for the next request to be due, and several would be in each other's way",
		"leave --flows out, or run it in a comparison of its own")
}

// CellName names a cell: what is measured, apart from the path.
func CellName(c result.Cell) string {
	name := fmt.Sprintf("%s/%d", c.Load, c.Size)
	if c.Flows > 1 {
		name += fmt.Sprintf("/flows=%d", c.Flows)
	}
	if c.Batch > 1 {
		name += fmt.Sprintf("/batch=%d", c.Batch)
	}
	if l, err := Find(c.Load); err == nil && c.Rate != l.Rate {
		name += fmt.Sprintf("/rate=%s", FormatRate(c.Rate))
	}
	return name
}

// rateUnits are the suffixes of a rate; base 10, as networks count.
var rateUnits = []struct {
	suffix string
	value  float64
}{{"G", 1e9}, {"M", 1e6}, {"k", 1e3}}

// FormatRate writes a rate as [ParseRate] reads it.
func FormatRate(rate float64) string {
	for _, u := range rateUnits {
		if rate >= u.value && math.Mod(rate, u.value/1000) == 0 {
			return strconv.FormatFloat(rate/u.value, 'f', -1, 64) + u.suffix
		}
	}
	return strconv.FormatFloat(rate, 'f', -1, 64)
}

// ParseRate reads something per second: 500, 100k, 2.5M, 20G. K is as good as k. Error: a
// usage error.
func ParseRate(text string) (float64, error) {
	digits, unit := text, 1.0
	for _, u := range rateUnits {
		if rest, ok := strings.CutSuffix(strings.Replace(text, "K", "k", 1), u.suffix); ok {
			digits, unit = rest, u.value
		}
	}
	rate, err := strconv.ParseFloat(digits, 64)
	if err != nil || !(rate > 0) || rate*unit > mostParsedRate || strings.ContainsAny(digits, "+_xXpPeE") {
		return 0, verr.New(verr.Usage, fmt.Sprintf("cannot read the rate %q", text), "it is not a number above 0 per second",
			"write it as 500, 100k, 2.5M or 20G")
	}
	return rate * unit, nil
}

// mostParsedRate is beyond any link, and leaves room for sums.
const mostParsedRate = 1e14

// StreamMetric tells what the figure of a one-way load is: below 64 bytes a
// stream is a test of calls and packets, and bits per second would mislead.
func StreamMetric(size int) result.Metric {
	if size < 64 {
		return result.Messages
	}
	return result.Bandwidth
}
