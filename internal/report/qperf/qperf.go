// Package qperf prints a record as `qperf -vu -ub` prints its results, for scripts that read
// those.
package qperf

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/internal/report/unit"
	"github.com/venturi-net/venturi/internal/report/view"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/result"
)

// Write prints the figures as `qperf -vu -ub` prints its own, so that a
// script which reads qperf reads them: latency is RTT/2, bandwidth is base 10,
// three significant digits. What qperf has no word for stands in lines that
// begin with #, which are no part of its format.
func Write(w io.Writer, rec *result.Record, s *analysis.Summary, _ view.Options) error {
	out := bufio.NewWriter(w)
	for _, b := range view.Banners(rec, s) {
		sanitize.Fprintf(out, "# %s\n", b)
	}
	for _, arm := range rec.Plan.Arms {
		if arm.Role == result.RoleCopy {
			continue
		}
		first := true
		for i := range s.Cells {
			c := &s.Cells[i]
			for j := range c.Rows {
				if r := &c.Rows[j]; r.Arm.Name == arm.Name {
					if first {
						sanitize.Fprintf(out, "# path %s\n", sanitize.Text(arm.Name))
						first = false
					}
					qperfTest(out, c.Cell, r)
				}
			}
		}
	}
	return out.Flush()
}

// qperfTest prints one test of one path.
func qperfTest(out io.Writer, c result.Cell, r *analysis.Row) {
	if c.Metric.IsCPU() {
		sanitize.Fprintf(out, "# %s: qperf has no rate; %s of CPU time for each %s\n", sanitize.Text(c.Load), unit.Value(c.Metric, r.Value), unit.Work(c.Metric))
		return
	}
	if r.Value == 0 {
		sanitize.Fprintf(out, "# %s: no figure\n", sanitize.Text(c.Load))
		return
	}
	var lines [][2]string
	switch {
	case c.Metric == result.OneWay && r.Latency != nil:
		// qperf's latency is the mean, where our ratios are of medians.
		lines = append(lines, [2]string{"latency", unit.Duration(r.Latency.MeanRTT / 2)})
	case c.Metric == result.Transactions || r.Stream == nil:
		sanitize.Fprintf(out, "# %s: qperf has no such test; %s\n", sanitize.Text(c.Load), unit.Value(c.Metric, r.Value))
		return
	case c.Transport == "udp":
		lines = append(lines, [2]string{"send_bw", bits(r.Stream.SentBits)}, [2]string{"recv_bw", bits(receivedBits(r.Stream))})
	default:
		lines = append(lines, [2]string{"bw", bits(r.Stream.RecvBits)})
	}
	lines = append(lines, [2]string{"msg_size", size(c.Size)})
	sanitize.Fprintf(out, "%s:\n", sanitize.Text(c.Load))
	widthName, widthNumber := 0, 0
	for _, l := range lines {
		number, _, _ := strings.Cut(l[1], " ")
		widthName, widthNumber = max(widthName, len(l[0])), max(widthNumber, len(number))
	}
	for _, l := range lines {
		number, unit, _ := strings.Cut(l[1], " ")
		sanitize.Fprintf(out, "    %-*s  =  %*s %s\n", widthName, l[0], widthNumber, number, unit)
	}
	if c.Metric == result.Messages {
		sanitize.Fprintf(out, "# received %s, %s\n", unit.Value(c.Metric, r.Value), unit.Rate(r.Stream.PacketRate, "pkt"))
	}
	if r.Latency != nil && r.Latency.Lost > 0 {
		sanitize.Fprintf(out, "# lost %d of %d requests\n", r.Latency.Lost, r.Latency.Requests)
	}
}

// receivedBits is the receiver's rate over its timed part. The sender's is over
// the whole slice, so a slow start can leave it behind; then what arrived is
// put over the sender's time too, since nothing arrives that was not sent.
func receivedBits(s *analysis.Stream) float64 {
	if s.RecvBits <= s.SentBits || s.SentBytes <= 0 {
		return s.RecvBits
	}
	return s.SentBits * min(1, float64(s.RecvBytes)/float64(s.SentBytes))
}

// bits names the units as qperf does.
func bits(v float64) string {
	return unit.Scaled(v, "bits/sec", "Kb/sec", "Mb/sec", "Gb/sec", "Tb/sec")
}

// size prints round binary sizes as KiB with the bytes in brackets, and
// round decimal ones as KB, as qperf does.
func size(n int) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB (%s)", n>>20, thousands(n))
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB (%s)", n>>10, thousands(n))
	case n >= 1_000_000 && n%1_000_000 == 0:
		return fmt.Sprintf("%d MB", n/1_000_000)
	case n >= 1000 && n%1000 == 0:
		return fmt.Sprintf("%d KB", n/1000)
	}
	return fmt.Sprintf("%s bytes", thousands(n))
}

func thousands(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
