package load

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/result"
)

// Bounds of the rate of a load on a schedule, requests per second.
const (
	leastRate = 1
	mostRate  = 10_000
)

// Bounds of the rate of a stream. No path comes near the upper ones; the sender must not
// count beyond them.
const (
	mostBits      = 1e13 // per second
	mostDatagrams = 1e9  // per second
	longestSlice  = time.Minute
)

// CheckRate tells whether the load can be offered at a rate, in messages of a size over
// some flows; 0 is the load's own.
func (l Load) CheckRate(rate float64, size, flows int) error {
	if rate == 0 {
		return nil
	}
	refuse := func(why, do string) error {
		return verr.New(verr.Usage, fmt.Sprintf("%s cannot run with --rate %s", l.Name, FormatRate(rate)), why, do)
	}
	switch {
	case l.Kind == Scheduled && !(rate >= leastRate && rate <= mostRate):
		return refuse(fmt.Sprintf("a schedule has %d to %d requests a second", leastRate, mostRate), "choose a rate in that range, such as 1000")
	case l.Kind == Scheduled:
		return nil
	case l.Kind != Stream:
		return refuse("it sends a request when the last was answered", "use --rate with tcp_bw, udp_bw, probe or ping")
	case l.Transport == "tcp" && !(rate > 0 && rate <= mostBits):
		return refuse("a stream carries at most 10 Tb/s", "give bits per second, such as 20G")
	case l.Transport == "udp" && !(rate > 0 && rate <= mostDatagrams):
		return refuse("datagrams have a rate of at most 1 G per second", "give datagrams per second, such as 100k")
	case !(l.messageRate(rate, size, flows)*longestSlice.Seconds() >= leastSlots):
		return refuse(fmt.Sprintf("a flow would send fewer than %d messages in a slice of %s", leastSlots, longestSlice),
			"choose a higher rate, smaller messages (--sizes) or fewer flows")
	}
	return nil
}

// messageRate is how many messages or requests each of some flows offers per second.
func (l Load) messageRate(rate float64, size, flows int) float64 {
	if l.Kind == Stream && l.Transport == "tcp" {
		rate /= float64(8 * size)
	}
	if l.Kind == Stream {
		rate /= float64(max(1, flows))
	}
	return rate
}

// LeastSlice is the shortest slice in which each flow sends something at a rate; 0: any.
func (l Load) LeastSlice(rate float64, size, flows int) time.Duration {
	if rate == 0 {
		return 0
	}
	return time.Duration(1e9 / l.messageRate(rate, size, flows))
}

// SliceAt is the default length of the load's slices at a rate.
func (l Load) SliceAt(rate float64, size, flows int) time.Duration {
	return max(l.Slice, leastSlots*l.LeastSlice(rate, size, flows))
}

// MetricAt tells what the figure of the load is with messages of a size at a rate. Where
// the rate of a stream is given, the figure is what it costs.
func (l Load) MetricAt(rate float64, size int) result.Metric {
	switch {
	case l.Kind != Stream:
		return l.Metric
	case rate == 0:
		return streamMetric(size)
	case l.Transport == "udp":
		return result.CPUPerPacket
	case size < result.LeastBytesSize:
		return result.CPUPerMessage
	}
	return result.CPUPerGB
}

// RateUnit is what the load's rate counts.
func (l Load) RateUnit() string {
	switch {
	case l.Kind == Scheduled:
		return "requests"
	case l.Transport == "tcp":
		return "bits"
	}
	return "datagrams"
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
