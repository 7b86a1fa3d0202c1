package report

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/result"
)

// noFigure is printed where there is no figure.
const noFigure = "-"

// sig3 prints v with three significant digits and no exponent.
func sig3(v float64) string {
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

// scaled prints v in the largest of units, each 1000 times the one before,
// that leaves it at 1 or more.
func scaled(v float64, units ...string) string {
	i := 0
	for i < len(units)-1 && math.Abs(v) >= 999.5 {
		v /= 1000
		i++
	}
	return sig3(v) + " " + units[i]
}

// duration prints nanoseconds.
func duration(ns float64) string { return scaled(ns, "ns", "us", "ms", "s") }

// bits prints a rate given in bit/s; base 10, as networks count.
func bits(v float64) string { return scaled(v, "b/s", "kb/s", "Mb/s", "Gb/s", "Tb/s") }

// rate prints something per second: "1.23 M msg/s".
func rate(v float64, what string) string {
	return scaled(v, what+"/s", "k "+what+"/s", "M "+what+"/s", "G "+what+"/s")
}

// count prints a number of things.
func count(n int64) string {
	if n < 10_000 {
		return strconv.FormatInt(n, 10)
	}
	return scaled(float64(n), "", "k", "M", "G", "T")
}

// value prints a figure of a metric.
func value(m result.Metric, v float64) string {
	switch {
	case v == 0:
		return noFigure
	case m == result.OneWay || m == result.RoundTrip:
		return duration(v)
	case m == result.Bandwidth:
		return bits(v)
	case m == result.CPUPerGB:
		return sig3(v/1e9) + " s"
	case m.IsCPU():
		return duration(v)
	case m == result.Messages:
		return rate(v, "msg")
	case m == result.Connections:
		return rate(v, "conn")
	}
	return rate(v, "req")
}

// perWhat is what the CPU time of a metric is for.
func perWhat(m result.Metric) string {
	switch m {
	case result.CPUPerPacket:
		return analysis.PerPacket
	case result.CPUPerGB:
		return analysis.PerGB
	}
	return analysis.PerMessage
}

// cost prints CPU time per unit of work.
func cost(c *analysis.CPU) string {
	switch {
	case c == nil:
		return noFigure
	case c.Unit == analysis.PerGB:
		return sig3(c.Cost/1e9) + " s"
	}
	return duration(c.Cost)
}

// ratio prints a quotient near 1 so that a thousandth shows.
func ratio(v float64) string {
	switch {
	case v >= 99.95:
		return sig3(v)
	case v >= 9.9995:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case v < 0.0995:
		return sig3(v)
	}
	return strconv.FormatFloat(v, 'f', 3, 64)
}

// percent prints a share of 1 with two significant digits: "0.8 %".
func percent(v float64) string {
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

// change prints a ratio as a difference: "+37 %", "-52 %".
func change(ratio float64) string {
	v := ratio - 1
	switch {
	case math.Abs(v) < 0.0005:
		return "0 %"
	case ratio >= 10:
		return "x " + sig3(ratio)
	case v > 0:
		return "+" + percent(v)
	}
	return percent(v)
}

// offered prints a rate that was asked for, with the digits that it has.
func offered(v float64) string {
	units := []string{"", "k", "M", "G"}
	i := 0
	for i < len(units)-1 && v >= 1000 {
		v /= 1000
		i++
	}
	return strconv.FormatFloat(v, 'g', 6, 64) + units[i]
}

// bytesSize prints a message size the way qperf's size arguments read it.
func bytesSize(n int) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d B", n)
}

// setting prints a share that someone chose, with the digits that it has.
func setting(v float64) string { return strconv.FormatFloat(v*100, 'g', 4, 64) + " %" }

// took prints how long a run was.
func took(d time.Duration) string {
	if d < 10*time.Second {
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}
