// Package unit prints quantities for people: times, rates, sizes, ratios and shares, each
// with its unit and with the digits that it deserves.
package unit

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/result"
)

// NoFigure is printed where there is no figure.
const NoFigure = "-"

// Sig3 prints v with three significant digits and no exponent.
func Sig3(v float64) string {
	if v == 0 {
		return "0"
	}
	digits := 2 - int(math.Floor(math.Log10(math.Abs(v))))
	// 9.996 has three digits more than it shows: round first, then count.
	p := math.Pow(10, float64(digits))
	v = math.Round(v*p) / p
	digits = 2 - int(math.Floor(math.Log10(math.Abs(v))))
	return strconv.FormatFloat(v, 'f', max(0, min(digits, 12)), 64)
}

// Scaled prints v in the largest of units, each 1000 times the one before,
// that leaves it at 1 or more.
func Scaled(v float64, units ...string) string {
	i := 0
	for i < len(units)-1 && math.Abs(v) >= 999.5 {
		v /= 1000
		i++
	}
	return Sig3(v) + " " + units[i]
}

// Duration prints nanoseconds.
func Duration(ns float64) string { return Scaled(ns, "ns", "us", "ms", "s") }

// Bits prints a rate given in bit/s; base 10, as networks count.
func Bits(v float64) string { return Scaled(v, "b/s", "kb/s", "Mb/s", "Gb/s", "Tb/s") }

// Rate prints something per second: "1.23 M msg/s".
func Rate(v float64, what string) string {
	return Scaled(v, what+"/s", "k "+what+"/s", "M "+what+"/s", "G "+what+"/s")
}

// Count prints a number of things.
func Count(n int64) string {
	if n < 10_000 {
		return strconv.FormatInt(n, 10)
	}
	return Scaled(float64(n), "", "k", "M", "G", "T")
}

// Value prints a figure of a metric.
func Value(m result.Metric, v float64) string {
	switch {
	case v == 0:
		return NoFigure
	case m == result.OneWay || m == result.RoundTrip:
		return Duration(v)
	case m == result.Bandwidth:
		return Bits(v)
	case m == result.CPUPerGB:
		return Sig3(v/1e9) + " s"
	case m.IsCPU():
		return Duration(v)
	case m == result.Messages:
		return Rate(v, "msg")
	case m == result.Connections:
		return Rate(v, "conn")
	}
	return Rate(v, "req")
}

// Work is what the CPU time of a metric is for.
func Work(m result.Metric) string {
	switch m {
	case result.CPUPerPacket:
		return analysis.PerPacket
	case result.CPUPerGB:
		return analysis.PerGB
	}
	return analysis.PerMessage
}

// Cost prints CPU time per unit of work.
func Cost(c *analysis.CPU) string {
	switch {
	case c == nil:
		return NoFigure
	case c.Unit == analysis.PerGB:
		return Sig3(c.Cost/1e9) + " s"
	}
	return Duration(c.Cost)
}

// Ratio prints a quotient near 1 so that a thousandth shows.
func Ratio(v float64) string {
	switch {
	case v >= 99.95:
		return Sig3(v)
	case v >= 9.9995:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case v < 0.0995:
		return Sig3(v)
	}
	return strconv.FormatFloat(v, 'f', 3, 64)
}

// Percent prints a share of 1 with two significant digits: "0.8 %".
func Percent(v float64) string {
	v *= 100
	a := math.Abs(v)
	switch {
	case a == 0:
		return "0 %"
	case a < 0.095:
		return sig2(v) + " %"
	case a < 9.95:
		return strconv.FormatFloat(v, 'f', 1, 64) + " %"
	}
	return strconv.FormatFloat(v, 'f', 0, 64) + " %"
}

func sig2(v float64) string {
	digits := 1 - int(math.Floor(math.Log10(math.Abs(v))))
	return strconv.FormatFloat(v, 'f', max(0, min(digits, 12)), 64)
}

// Change prints a ratio as a difference: "+37 %", "-52 %".
func Change(ratio float64) string {
	v := ratio - 1
	switch {
	case math.Abs(v) < 0.0005:
		return "0 %"
	case ratio >= 10:
		return "x " + Sig3(ratio)
	case v > 0:
		return "+" + Percent(v)
	}
	return Percent(v)
}

// ExactCount prints a rate that was asked for, with the digits that it has.
func ExactCount(v float64) string {
	units := []string{"", "k", "M", "G"}
	i := 0
	for i < len(units)-1 && v >= 1000 {
		v /= 1000
		i++
	}
	return strconv.FormatFloat(v, 'g', 6, 64) + units[i]
}

// MessageSize prints a message size the way qperf's size arguments read it.
func MessageSize(n int) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d B", n)
}

// ExactPercent prints a share that someone chose, with the digits that it has.
func ExactPercent(v float64) string { return strconv.FormatFloat(v*100, 'g', 4, 64) + " %" }

// Elapsed prints how long a run was.
func Elapsed(d time.Duration) string {
	if d < 10*time.Second {
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// Plain prints any number as programs read it, with seven digits.
func Plain(v float64) string { return strconv.FormatFloat(v, 'g', 7, 64) }

// ShortRatio prints a quotient for a sentence: two digits behind the point.
func ShortRatio(v float64) string {
	switch {
	case v >= 99.5:
		return Sig3(v)
	case v >= 9.995:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case v > 0 && v < 0.0995:
		return sig2(v)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}
