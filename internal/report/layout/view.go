package layout

import (
	"fmt"
	"slices"
	"strings"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/internal/report/unit"
	"github.com/venturi-net/venturi/internal/report/view"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/internal/stats"
)

// retransmitSeconds is the time of sending that retransmits are counted for:
// as long as an iperf3 that is told nothing runs.
const retransmitSeconds = 10

// verdictMarks stand behind a ratio for its verdict.
var verdictMarks = map[stats.Verdict]string{
	stats.Faster: "+", stats.Slower: "-", stats.Equivalent: "=", stats.CannotTell: "?", stats.NotJudged: "!",
}

// layoutView puts the grids into the form that the table and Markdown print.
func layoutView(all sources, l Layout, grids []grid, opt view.Options) *view.Content {
	v := &view.Content{Title: sanitize.Text(l.Title)}
	if l.Question != "" {
		v.Facts = append(v.Facts, [2]string{"question", sanitize.Text(l.Question)})
	}
	v.Banners = all.mergeTexts(func(s *source) []string { return view.Banners(s.rec, s.sums[s.host]) })
	for _, s := range all {
		sum := s.sums[s.host]
		for _, f := range view.Facts(s.rec, sum) {
			if f[0] == "wire" || f[0] == "run" {
				f[1] = s.labelWire(f[1])
			}
			// What is the same on all wires is said once; reading is about columns
			// that are not here.
			if f[0] != "reading" && !slices.Contains(v.Facts, f) {
				v.Facts = append(v.Facts, f)
			}
		}
	}
	for _, g := range grids {
		v.Blocks = append(v.Blocks, g.block(opt.Format == formats[0]))
	}
	v.Remarks = legend(all, grids)
	if opt.FastPathStats {
		all.fastBlocks(v)
	}
	return v
}

// labelWire prefixes a text about a record with its wire.
func (s *source) labelWire(text string) string {
	if s.wire == "" {
		return text
	}
	return sanitize.Text(s.wire) + ": " + text
}

// mergeTexts merges texts about all records: once what holds for each, and of what
// wire the rest is.
func (all sources) mergeTexts(of func(*source) []string) (out []string) {
	said := map[string]int{}
	for _, s := range all {
		for _, text := range of(s) {
			said[text]++
		}
	}
	for _, s := range all {
		for _, text := range of(s) {
			if said[text] < len(all) {
				text = s.labelWire(text)
			}
			out = view.Union(out, []string{text})
		}
	}
	return out
}

// block makes rows of text. For a terminal plain figures keep the place of a
// mark free, so that digits stand below digits, and a label that is the same
// as in the row above is left out.
func (g grid) block(terminal bool) view.Block {
	b := view.Block{Name: sanitize.Text(g.title)}
	for i := range g.rows {
		b.Labels = len(g.rows[i])
	}
	for range b.Labels {
		b.Columns = append(b.Columns, view.Column{LeftAlign: true})
	}
	for j, labels := range g.columns {
		b.Columns = append(b.Columns, view.Column{Head: strings.Join(labels, ", ") + g.room(j, terminal)})
	}
	for i, labels := range g.rows {
		row := slices.Clone(labels)
		for k := 0; terminal && i > 0 && k < len(row)-1 && labels[k] == g.rows[i-1][k]; k++ {
			row[k] = ""
		}
		for j, e := range g.cells[i] {
			text := e.text()
			switch {
			case e.foreignFigure():
				text += " " + foreignMark
			case e.Baseline == "":
				text += g.room(j, terminal)
			}
			row = append(row, text)
		}
		b.Rows = append(b.Rows, row)
	}
	return b
}

// room is what a figure leaves free for the marks in its column.
func (g grid) room(column int, terminal bool) string {
	if terminal && slices.ContainsFunc(g.cells, func(row []entry) bool { return row[column].Baseline != "" || row[column].foreignFigure() }) {
		return "  "
	}
	return ""
}

func (e entry) text() string {
	switch {
	case !e.inTable:
		return ""
	case e.NotHeld:
		return "not held"
	case !e.measured:
		return unit.NoFigure
	case e.Runs != nil:
		return e.Runs.text()
	case e.Full != nil:
		return e.Full.text()
	case e.Baseline == "":
		return unit.Sig3(*e.Value)
	}
	mark := verdictMarks[e.Verdict]
	if e.foreign() {
		mark = foreignMark
	}
	return unit.Sig3(e.Ratio.Value) + " " + mark
}

// legend explains what stands in the tables, and what limits it.
func legend(all sources, grids []grid) []string {
	var ratios []entry
	again, cpu, average, full := false, false, false, false
	var partly []*partialData
	var entries []entry
	var unused []string
	for _, g := range grids {
		entries = append(entries, slices.Concat(g.cells...)...)
	}
	for _, e := range entries {
		full = full || e.Full != nil && e.measured
		again, cpu, average = again || e.Retransmits, cpu || e.CPU && e.measured, average || e.Runs != nil
		if s := all.find(e.Wire); s != nil {
			unused = view.Union(unused, s.unused(e))
		}
		switch {
		case e.Baseline != "" && e.measured && e.Runs == nil:
			ratios = append(ratios, e)
		case e.NoFigure > 0:
			partly = countPartial(partly, e)
		}
	}
	var out []string
	say := func(f string, args ...any) {
		out = append(out, strings.ReplaceAll(fmt.Sprintf(f, args...), " %", view.NoBreak+"%"))
	}
	if len(ratios) > 0 {
		say("%s", explainMarks(all[0], ratios))
		if text := families(all, ratios); text != "" {
			say("%s", text)
		}
		if judged := judgeable(ratios); len(judged) > 0 {
			say("%s", widths(judged))
		}
	}
	if slices.ContainsFunc(entries, entry.foreignFigure) {
		say("Figures marked %s are of paths through machines whose CPUs are emulated.", foreignMark)
	}
	if text := floors(all); text != "" {
		say("%s", text)
	}
	if again {
		say("Retransmits are the TCP segments that were sent again, for %d s of sending; how far they stray is not judged.", retransmitSeconds)
	}
	if cpu {
		say("CPU is the time that the machine's cores worked while it was measured, for 1 GB (10^9 bytes) that arrived; how far it strays is not judged.")
	}
	if full {
		say("Full are the threads that used %s of a core or more, and the cores that worked for %s of the time or more; an end of the load itself is named only where nothing else is full.",
			unit.ExactPercent(analysis.FullThread), unit.ExactPercent(analysis.FullCore))
	}
	if average {
		say("Of %d runs stand the figures and their average, as write-ups give them, and of two paths the quotient of averages. Each run is one series; what is proven, the ratio beside it says.", runs)
	}
	if text := missingText(entries); text != "" {
		say("%s: the record has no figure there (%s).", unit.NoFigure, text)
	}
	for _, text := range append(unused, all.limitTexts(entries)...) {
		say("%s.", text)
	}
	for _, p := range partly {
		say("%s", p)
	}
	if all[0].rec.Plan.SharedCores {
		say("Both machines of this lab share the same cores, and their wire is a veth pair: the ratios are the result, and the absolute figures say little about any other machine.")
	}
	for _, text := range all.mergeTexts(warningTexts) {
		say("%s", text)
	}
	return out
}

// warningTexts lists the warnings of a record, except those that hold for every lab.
func warningTexts(s *source) (out []string) {
	for _, w := range s.rec.Warnings {
		if w.Code != "shared-cores" {
			out = append(out, sanitize.Text(strings.TrimPrefix(w.Arm+": ", ": ")+w.Text))
		}
	}
	return out
}

// unused tells of tunnels of an entry's path that have no flow.
func (s *source) unused(e entry) []string {
	for _, a := range s.rec.Plan.Arms {
		if text := view.Idle(a, e.Flows); text != "" && a.Name == e.Path && e.measured {
			return []string{text}
		}
	}
	return nil
}

// partialData is a path with figures that lack some of their slices.
type partialData struct {
	path   string
	places int
	worst  float64 // share of a figure's slices that had none
}

func countPartial(list []*partialData, e entry) []*partialData {
	i := slices.IndexFunc(list, func(t *partialData) bool { return t.path == e.Path })
	if i < 0 {
		i, list = len(list), append(list, &partialData{path: e.Path})
	}
	list[i].places++
	list[i].worst = max(list[i].worst, float64(e.NoFigure)/float64(e.slices))
	return list
}

func (t *partialData) String() string {
	text := fmt.Sprintf("%s: too little arrived for a figure in up to %s of the slices (in %s); the figures there are of the others",
		sanitize.Text(t.path), unit.Percent(t.worst), view.Plural(t.places, "place", "places"))
	if t.worst > analysis.MostBlank {
		text += fmt.Sprintf(". Above %s nothing is concluded from them", unit.ExactPercent(analysis.MostBlank))
	}
	return text + "."
}

func explainMarks(s *source, ratios []entry) string {
	first := pathPair{ratios[0].Path, ratios[0].Baseline}
	text := fmt.Sprintf("%s is the ratio of %s to %s in the same rounds. + proven faster, - proven slower, = the same (the whole %s interval is within ±%s of 1), ? cannot tell",
		first, sanitize.Text(first.arm), sanitize.Text(first.baseline), unit.ExactPercent(s.sums[s.host].Level), unit.ExactPercent(s.rec.Plan.Margin))
	if slices.ContainsFunc(ratios, func(e entry) bool { return e.Verdict == stats.NotJudged && !e.foreign() }) {
		text += ", ! not judged: two identical paths differ there"
	}
	if slices.ContainsFunc(ratios, entry.foreign) {
		text += ", " + foreignMark + " not judged: one of the two is emulated"
	}
	return text + "."
}

// families says among how many comparisons a verdict holds.
func families(all sources, ratios []entry) string {
	var holm, eBH []string
	for _, e := range ratios {
		s := all.find(e.Wire)
		if s.sums[s.host].Series < stats.MinSeries {
			continue // there are no verdicts
		}
		tests := s.sums[e.Baseline].Tests
		if tests <= 1 {
			continue
		}
		text := fmt.Sprintf("%d comparisons with %s", tests, sanitize.Text(e.Baseline))
		wire := ""
		if e.Wire != "" {
			wire = " on wire " + sanitize.Text(e.Wire)
		}
		if s.rec.Plan.UntilDecided {
			eBH = view.Union(eBH, []string{fmt.Sprintf("Of all faster and slower of these %s%s, %s at most are false in the mean (e-BH).", text, wire, unit.ExactPercent(1-s.rec.Plan.Confidence))})
		} else {
			holm = view.Union(holm, []string{"for all " + text + " together" + wire})
		}
	}
	if len(holm) > 0 {
		eBH = slices.Insert(eBH, 0, "Faster and slower hold "+strings.Join(holm, ", and ")+" (Holm's correction).")
	}
	return strings.Join(eBH, " ")
}

// widths says how precise the ratios are, for each pair of paths: a noisy path
// must not hide that the others are told apart well.
func widths(ratios []entry) string {
	var pairs []pathPair
	halves, widest := map[pathPair][]float64{}, 0.0
	for _, e := range ratios {
		half, ok := e.Ratio.HalfWidth()
		if !ok {
			continue
		}
		pair := pathPair{e.Path, e.Baseline}
		if halves[pair] == nil {
			pairs = append(pairs, pair)
		}
		halves[pair], widest = append(halves[pair], half), max(widest, half)
	}
	var parts []string
	for _, p := range pairs {
		parts = append(parts, fmt.Sprintf("±%s for %s", unit.Percent(stats.Median(halves[p])), p))
	}
	switch {
	case len(parts) == 0:
		return "No ratio has an interval: there are too few rounds."
	case len(ratios) == 1:
		return fmt.Sprintf("Its interval is ±%s.", unit.Percent(widest))
	}
	return fmt.Sprintf("The median interval is %s; the widest of all is ±%s.", strings.Join(parts, ", "), unit.Percent(widest))
}

// floors says what the machine itself does to a ratio.
func floors(all sources) string {
	var sizes []float64
	for _, s := range all {
		for _, c := range s.sums[s.host].Cells {
			if c.Floor != nil && !c.Floor.Ratio.Open && !c.Floor.Invalid {
				sizes = append(sizes, c.Floor.Size)
			}
		}
	}
	const floor = "Two identical paths seem to differ by ±%s: no smaller difference is claimed where that is so."
	switch len(sizes) {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf(floor, unit.Percent(sizes[0]))
	}
	return fmt.Sprintf(floor, unit.Percent(stats.Median(sizes))+" (median over loads and sizes), by ±"+unit.Percent(slices.Max(sizes))+" at most")
}

// foreignMark stands behind what is of a path through an emulated machine: a figure, or a ratio,
// for want of a verdict.
const foreignMark = "#"

func (e entry) foreign() bool { return e.Reason == stats.Emulated }

// foreignFigure tells such a figure.
func (e entry) foreignFigure() bool {
	return e.Baseline == "" && e.measured && e.Emulated == analysis.EmulatedPath
}

// judgeable leaves out the ratios that are not judged because of emulation.
func judgeable(ratios []entry) []entry {
	return slices.DeleteFunc(slices.Clone(ratios), entry.foreign)
}
