package view

import (
	"fmt"
	"strings"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/internal/report/unit"
	"github.com/venturi-net/venturi/internal/sanitize"
)

// Limitation is one thing that limits the figures of a row. Note says it of one row, and is empty where
// a report has a column for it; Effect is the same for all rows that it is true of, and Amount
// says how far it is of this one.
type Limitation struct {
	Note           string
	Effect, Amount string
}

// Limitations are what limits the figures of a row, whatever its verdict is.
func Limitations(r *analysis.Row, c *analysis.Cell) (out []Limitation) {
	if NotHeld(r) {
		out = append(out, Limitation{
			Note: fmt.Sprintf("the rate was not held: of %s/s requested, %s was sent and %s arrived. CPU time at a lower rate is not comparable, so there is no figure",
				unit.ExactCount(c.Cell.Rate), unit.Percent(r.Offered.Sent), unit.Percent(r.Offered.Received)),
			Effect: fmt.Sprintf("the rate of %s/s was not held, and CPU time at a lower rate is not comparable, so there is no figure", unit.ExactCount(c.Cell.Rate)),
			Amount: shares(*r.Offered),
		})
	}
	return append(append(append(out, latencyLimits(r)...), backgroundLimits(r, c)...), threadLimits(r, c)...)
}

// shares says what became of a rate.
func shares(o analysis.Offered) string {
	return fmt.Sprintf("%s was sent, %s arrived", unit.Percent(o.Sent), unit.Percent(o.Received))
}

// latencyLimits are lost requests, and a schedule that was not kept.
func latencyLimits(r *analysis.Row) (out []Limitation) {
	l := r.Latency
	if l == nil {
		return nil
	}
	if l.Lost > 0 {
		amount := fmt.Sprintf("%d of %s", l.Lost, unit.Count(l.Requests))
		if l.Late > 0 {
			amount += fmt.Sprintf(", of which %d came late", l.Late)
		}
		out = append(out, Limitation{
			Note:   fmt.Sprintf("%d of %s requests had no reply in time (%d came late); they are in no figure", l.Lost, unit.Count(l.Requests), l.Late),
			Effect: "requests had no reply in time, and are in no figure",
			Amount: amount,
		})
	}
	missed := fmt.Sprintf("%d of %s", l.Missed, unit.Count(l.Requests))
	switch late := unit.Duration(l.LatenessP99); {
	case l.ScheduleKept() && l.Missed > 0:
		out = append(out, Limitation{Effect: "requests missed their slot in the schedule and left only when the next was due", Amount: missed})
	case !l.ScheduleKept():
		out = append(out, Limitation{
			Note: fmt.Sprintf("the schedule was not kept within %s: at the 99th percentile a request left %s late, %s missed their slot. The client's machine was busy, and the round trips include the delay",
				unit.Duration(analysis.LatenessKept), late, missed),
			Effect: fmt.Sprintf("the schedule was not kept within %s at the 99th percentile, and the round trips include the delay", unit.Duration(analysis.LatenessKept)),
			Amount: late + " late, " + missed + " missed their slot",
		})
	}
	return out
}

// backgroundLimits say what of a stream beside a load limits the figures, and which cores were
// full.
func backgroundLimits(r *analysis.Row, c *analysis.Cell) (out []Limitation) {
	if c.Cell.Background == nil || r.Background == nil {
		return nil
	}
	if o := r.Background.Offered; o != nil && !o.Reached {
		out = append(out, Limitation{
			Note: fmt.Sprintf("the background stream did not hold its rate: %s was sent and %s arrived, so this latency is under a lighter load than requested",
				unit.Percent(o.Sent), unit.Percent(o.Received)),
			Effect: "the background stream did not hold its rate, so the latency is under a lighter load than requested",
			Amount: shares(*o),
		})
	}
	if full := fullCores(r); len(full) > 0 {
		noun, verb, them := "core", "was", "it"
		if len(full) > 1 {
			noun, verb, them = "cores", "were", "them"
		}
		names := noun + " " + strings.Join(full, ", ")
		out = append(out, Limitation{
			Note:   fmt.Sprintf("%s %s full: what waited for %s is in the latency", names, verb, them),
			Effect: "cores were full, and what waited for them is in the latency", Amount: names,
		})
	}
	return out
}

// threadLimits name the threads that had no time left. That an end of a load has none is told
// only beside a stream: without one it is what limits a load as fast as it goes.
func threadLimits(r *analysis.Row, c *analysis.Cell) []Limitation {
	var names, full []string
	for _, t := range r.Threads {
		if t.Full() && (!t.Load || c.Cell.Background != nil) {
			names = append(names, ThreadName(t))
			full = append(full, fmt.Sprintf("%s (%s of a core)", ThreadName(t), unit.Percent(t.Share)))
		}
	}
	if len(full) == 0 {
		return nil
	}
	subject, verb := "thread", "was"
	if len(full) > 1 {
		subject, verb = "threads", "were"
	}
	return []Limitation{{
		Note:   fmt.Sprintf("%s %s %s full, and may limit this path", subject, strings.Join(full, ", "), verb),
		Effect: "threads were full, and may limit the path", Amount: strings.Join(names, ", "),
	}}
}

// limitNotes are the limits of a row as footnotes: each says of which row it is.
func limitNotes(r *analysis.Row, c *analysis.Cell) (out []string) {
	for _, l := range Limitations(r, c) {
		if l.Note != "" {
			out = append(out, fmt.Sprintf("%s, %s: %s", CellName(c.Cell), sanitize.Text(r.Arm.Name), l.Note))
		}
	}
	return out
}

// WhyMissing says why a row has no figure; empty: it has one.
func WhyMissing(r *analysis.Row) string {
	switch {
	case r.Value != 0:
		return ""
	case NotHeld(r):
		return rateNotHeld
	case r.Failed != "":
		return "failed: " + sanitize.Text(r.Failed)
	}
	return "too little arrived in every slice"
}
