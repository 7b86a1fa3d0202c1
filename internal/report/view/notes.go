package view

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/internal/report/unit"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/internal/stats"
	"github.com/venturi-net/venturi/result"
)

// notes are footnotes: each text once, numbered in the order of first use.
type notes []string

// Marks gives the marks for texts, registering those that are new.
func (n *notes) Marks(texts []string) string {
	var out strings.Builder
	for _, t := range texts {
		i := slices.Index(*n, t)
		if i < 0 {
			i = len(*n)
			*n = append(*n, t)
		}
		sanitize.Fprintf(&out, " (%d)", i+1)
	}
	return out.String()
}

// rowNotes are what limits the figures of a row.
func rowNotes(r *analysis.Row, c *analysis.Cell, rec *result.Record, s *analysis.Summary) []string {
	out := judgedNotes(r, c, rec, s)
	if r.Fragments > 1 {
		out = append(out, fmt.Sprintf("a datagram of %s does not fit the path's MTU of %d: it travels as %d fragments, and one lost loses all",
			unit.MessageSize(c.Cell.Size), r.Arm.MTU, r.Fragments))
	}
	return append(out, trafficNotes(r, c, rec)...)
}

// sweepNotes are the same for a line of a sweep, where many sizes share a note.
func sweepNotes(r *analysis.Row, c *analysis.Cell, rec *result.Record, s *analysis.Summary) []string {
	out := judgedNotes(r, c, rec, s)
	if r.Fragments > 1 {
		out = append(out, fmt.Sprintf("a datagram of this size does not fit the path's MTU of %d: it travels in fragments, and one lost loses all", r.Arm.MTU))
	}
	return append(out, trafficNotes(r, c, rec)...)
}

// judgedNotes are about the figure and the verdict.
func judgedNotes(r *analysis.Row, c *analysis.Cell, rec *result.Record, s *analysis.Summary) []string {
	var out []string
	note := func(f string, args ...any) { out = append(out, fmt.Sprintf(f, args...)) }
	name := sanitize.Text(r.Arm.Name)
	switch {
	case NotHeld(r): // is among its limits
	case r.Value == 0 && r.Failed != "":
		note("%s failed: %s", name, sanitize.Text(r.Failed))
	case r.Value == 0:
		note("%s has no figure: too little arrived in every slice", name)
	case r.NoFigure > 0:
		note("%s, %s: %d of %d slices have no figure; the figure is of the others", CellName(c.Cell), name, r.NoFigure, r.Slices)
	}
	if j := r.Judged; j != nil {
		switch j.Reason {
		case stats.TooWide:
			note("cannot tell < x %%: the interval holds 1, and a difference below x %% could not have been seen here. A longer run (--budget) narrows it")
		case stats.TooFew:
			if rec.Plan.UntilDecided {
				note("%s: too few series for a verdict; a longer run (--budget) has more", CellName(c.Cell))
				break
			}
			if r.Ratio != nil && !r.Ratio.Open {
				note("an interval within %s does not hold what differs between sets of sockets; a verdict takes %d whole series or more (--series)",
					Plural(r.Ratio.Series, "series", "series"), stats.MinSeries)
				break
			}
			note("too few rounds for an interval")
		case stats.BelowHolm:
			how := "Holm's"
			if rec.Plan.UntilDecided {
				how = "the e-BH"
			}
			note("on its own this would be a difference, but one this large is expected by chance among %d comparisons (%s correction)", s.Tests, how)
		case stats.BelowNoise:
			note("%s: the difference is smaller than the noise floor, what two identical paths may show here", CellName(c.Cell))
		case stats.Blank:
			who := name
			if base := &c.Rows[0]; base.Blank() {
				who = sanitize.Text(base.Arm.Name)
			}
			note("%s: too little arrived for a figure in more than %s of the slices of %s; the slices that do have one are biased towards good results, so no verdict is given",
				CellName(c.Cell), unit.ExactPercent(analysis.MostBlank), who)
		case stats.Emulated:
			note("%s: the CPU of its machine is emulated, while the baseline's is real: no verdict, and no conclusion", name)
		case stats.BadFloor:
			note("%s: two identical paths differ more than chance allows, so nothing is judged; run again when the machine is quiet", CellName(c.Cell))
		}
	}
	return out
}

// Idle tells of pairs of ends, such as tunnels, that have no flow; empty: none.
func Idle(a result.Arm, flows int) string {
	if flows >= a.Pairs {
		return ""
	}
	uses := "use"
	if flows == 1 {
		uses = "uses"
	}
	return fmt.Sprintf("%s: %s %s %d of its %d tunnels or ids", sanitize.Text(a.Name), Plural(flows, "flow", "flows"), uses, flows, a.Pairs)
}

// trafficNotes are about what happened on the way.
func trafficNotes(r *analysis.Row, c *analysis.Cell, rec *result.Record) []string {
	var out []string
	note := func(f string, args ...any) { out = append(out, fmt.Sprintf(f, args...)) }
	name := sanitize.Text(r.Arm.Name)
	if text := Idle(r.Arm, c.Cell.Flows); text != "" {
		note("%s", text)
	}
	out = append(out, limitNotes(r, c)...)
	if r.Ratio != nil && r.Ratio.Cross != nil && r.Ratio.Cross.Disagree {
		note("%s, %s: an exact rank test does not agree with this interval, so some series are odd; look at them before you rely on it",
			CellName(c.Cell), name)
	}
	if r.Unreadable > 0 {
		note("%s, %s: %d histograms cannot be read, percentiles are without them", CellName(c.Cell), name, r.Unreadable)
	}
	for _, w := range rec.Warnings {
		if w.Arm == r.Arm.Name && (w.Cell == "" || w.Cell == c.Cell.Name) {
			note("%s: %s", name, sanitize.Text(w.Text))
		}
	}
	return out
}

// Banners stand above everything.
func Banners(rec *result.Record, s *analysis.Summary) []string {
	var out []string
	banner := func(f string, args ...any) { out = append(out, fmt.Sprintf(f, args...)) }
	switch e := rec.End; {
	case e == nil:
		banner("INCOMPLETE: the record has no end; the run was killed, is still running, or the file is cut. What is there is reported.")
	case e.Reason == result.Interrupted:
		banner("INTERRUPTED after %s. What was measured until then is reported.", seriesDone(rec))
	case e.Reason == result.OutOfBudget && rec.Plan.UntilDecided:
		banner("OUT OF TIME: the budget was used up before every comparison had its verdict.")
	case e.Reason == result.OutOfBudget:
		banner("OUT OF TIME after %s: intervals are wider than planned.", seriesDone(rec))
	case e.Reason == result.Failed:
		banner("FAILED after %s: %s.", seriesDone(rec), sanitize.Text(e.Error))
	}
	out = append(out, emulation(rec, s)...)
	if len(s.Cells) == 0 {
		banner("NOTHING WAS MEASURED.")
		return out
	}
	if failed := failedArms(s); len(failed) > 0 {
		banner("PARTIAL: %s could not be measured in every load.", strings.Join(failed, ", "))
	}
	if s.Series < stats.MinSeries && s.Tests > 0 {
		banner("FEW SERIES: intervals are over the rounds of %s, so they do not hold what differs from one set of sockets to the next, and no verdict is given.", Plural(s.Series, "series", "series"))
	}
	return append(append(out, slowBanners(rec, s)...), noise(s)...)
}

// seriesDone tells how far a run came. One that ends when all is decided has more series in its plan than it can
// come to.
func seriesDone(rec *result.Record) string {
	if rec.Plan.UntilDecided {
		return Plural(rec.End.Series, "series", "series")
	}
	return fmt.Sprintf("%d of %d series", rec.End.Series, rec.Plan.Series)
}

// noise says when the machine cannot answer.
func noise(s *analysis.Summary) []string {
	var out, invalid []string
	judged, open := 0, 0
	for i := range s.Cells {
		c := &s.Cells[i]
		if c.Floor != nil && c.Floor.Invalid {
			invalid = append(invalid, CellName(c.Cell))
		}
		for _, r := range c.Rows {
			if r.Judged == nil || r.Judged.Reason == stats.TooFew || r.Judged.Reason == stats.Blank || r.Foreign() {
				continue // it was too short to tell, lost too much, or is not compared, and not too noisy
			}
			judged++
			if r.Judged.Verdict == stats.CannotTell {
				open++
			}
		}
	}
	if len(invalid) > 0 {
		out = append(out, "TOO NOISY: two identical paths differ in "+strings.Join(invalid, ", ")+
			"; no verdict is given there. Stop other work on this machine and run again.")
	}
	if judged >= 2 && 2*open > judged {
		out = append(out, fmt.Sprintf("TOO NOISY FOR THIS BUDGET: %d of %d comparisons are open. Stop other work on this machine, or give a larger --budget.", open, judged))
	}
	return out
}

func failedArms(s *analysis.Summary) []string {
	var out []string
	for _, c := range s.Cells {
		for _, r := range c.Rows {
			if name := sanitize.Text(r.Arm.Name); r.Value == 0 && !NotHeld(&r) && !slices.Contains(out, name) {
				out = append(out, name)
			}
		}
	}
	return out
}

// mergedRemarks say what a long record's slices stand for.
func mergedRemarks(rec *result.Record) []string {
	m := rec.Merged
	if m.Rounds == 0 {
		return nil
	}
	text := fmt.Sprintf("The record has %s. To fit in memory, up to %d rounds are merged into one: counts, rates and ratios cover all of them, percentiles a sample.",
		Plural(m.Slices, "slice", "slices"), m.Rounds)
	if m.Failed > 0 {
		text += fmt.Sprintf(" %s without a figure merged with slices that have one.", Plural(m.Failed, "slice", "slices"))
	}
	return []string{text}
}

// remarks are about the whole report.
func remarks(rec *result.Record, s *analysis.Summary, verbose bool) []string {
	var out []string
	if rec.Plan.SharedCores {
		out = append(out, "Both machines of this lab share the same cores: a CPU figure holds both ends, and is good for comparing paths only.")
	}
	out = append(out, mergedRemarks(rec)...)
	out = append(out, cpuRemarks(rec, verbose)...)
	steal, blind := map[string]float64{}, []string(nil) // by machine
	for i := range s.Cells {
		c := &s.Cells[i]
		if c.Floor != nil && !c.Floor.Invalid && c.Floor.Size > rec.Plan.Margin {
			blind = append(blind, CellName(c.Cell))
		}
		for _, r := range c.Rows {
			if r.CPU == nil {
				continue
			}
			if len(r.CPU.MachineSteal) == 0 {
				steal[""] = max(steal[""], r.CPU.Steal)
			}
			for machine, share := range r.CPU.MachineSteal {
				steal[machine] = max(steal[machine], share)
			}
		}
	}
	if len(blind) > 0 {
		out = append(out, "The noise floor is above the margin of "+unit.ExactPercent(rec.Plan.Margin)+" in "+strings.Join(blind, ", ")+": small differences cannot be seen there.")
	}
	for _, machine := range slices.Sorted(maps.Keys(steal)) {
		if steal[machine] <= stealShown {
			continue
		}
		text := "The hypervisor took up to " + unit.Percent(steal[machine]) + " of a core's time"
		if machine != "" {
			text += " on " + sanitize.Text(machine)
		}
		out = append(out, text+" (steal); it is in no CPU figure, but it is in the noise.")
	}
	for _, w := range rec.Warnings {
		if w.Arm != "" || w.Code == "shared-cores" {
			continue
		}
		text := sanitize.Text(w.Text)
		if w.Cell != "" {
			text = sanitize.Text(w.Cell) + ": " + text
		}
		out = append(out, text)
	}
	return out
}

// troubles are the counters that tell why a path lost or repaired something,
// in words. What a healthy path counts (packets, segments) is in the JSON.
var troubles = []struct{ key, text string }{
	{"softnet/dropped", "dropped in softirq"},
	{"softnet/squeezed", "softirq squeezes"},
	{"udp/receive_buffer_full", "receive buffer full"},
	{"udp/send_buffer_full", "send buffer full"},
	{"udp/reassembly_fails", "reassembly failures"},
	{"udp/checksum_errors", "UDP checksum errors"},
	{"udp/no_port", "no port"},
	{"tcp/retransmits", "TCP retransmits"},
	{"tcp/timeouts", "TCP timeouts"},
	{"tcp/receive_queue_drops", "TCP receive queue drops"},
	{"tcp/backlog_drops", "TCP backlog drops"},
	{"tcp/checksum_errors", "TCP checksum errors"},
	{"links/rx_dropped", "device receive drops"},
	{"links/tx_dropped", "device send drops"},
	{"links/rx_errors", "device receive errors"},
	{"links/tx_errors", "device send errors"},
}

// appendTrouble adds what was counted, if it was.
func appendTrouble(parts []string, n int64, text string) []string {
	if n > 0 {
		parts = append(parts, strings.ReplaceAll(unit.Count(n)+" "+text, " ", NoBreak))
	}
	return parts
}

// trouble lists what the meters counted beside a cell, path by path; empty
// when all is well.
func trouble(c *analysis.Cell) string {
	var paths []string
	for _, r := range c.Rows {
		var parts []string
		for _, t := range troubles {
			if t.key == "tcp/retransmits" && r.Stream != nil {
				continue // it has a column
			}
			if len(r.MachineCounters) == 0 {
				parts = appendTrouble(parts, r.Counters[t.key], t.text)
			}
			for _, machine := range slices.Sorted(maps.Keys(r.MachineCounters)) {
				parts = appendTrouble(parts, r.MachineCounters[machine][t.key], t.text+" on "+sanitize.Text(machine))
			}
		}
		if len(parts) > 0 {
			paths = append(paths, sanitize.Text(r.Arm.Name)+" "+strings.Join(parts, ", "))
		}
	}
	if len(paths) == 0 {
		return ""
	}
	return "counted: " + strings.Join(paths, "; ")
}
