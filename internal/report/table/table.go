// Package table prints a report for a terminal.
//
// It is the product's face. It is written for someone who has read no manual: every figure
// has its unit, every verdict its words, and what limits a figure stands in a note below it.
package table

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/internal/report/view"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/result"
)

const (
	indent = "  "
	gap    = "  "
)

// Write prints for a terminal of opt.Width columns: first the answers, then in what the
// machines differ, then the figures, then on what and how they were measured.
func Write(w io.Writer, rec *result.Record, s *analysis.Summary, opt view.Options) error {
	v, out := view.New(rec, s, opt), bufio.NewWriter(w)
	if !opt.Verbose {
		for i := range v.Blocks {
			v.Blocks[i].Cpu, v.Blocks[i].Footer = nil, ""
		}
	}
	if opt.Bars {
		addBars(v)
	}
	sanitize.Fprintln(out, v.Title)
	writeBanners(out, v, opt.Width)
	if len(v.Answers) > 0 {
		sanitize.Fprintln(out)
	}
	for _, a := range v.Answers {
		writeHanging(out, opt.Width, a.Path, a.Text)
	}
	if len(v.Machines) > 0 {
		sanitize.Fprintln(out)
	}
	writeFacts(out, v.Machines, opt.Width)
	writeBlocks(out, v, opt.Width)
	sanitize.Fprintln(out)
	writeFacts(out, v.Facts, opt.Width)
	writeNotes(out, v, opt.Width)
	return out.Flush()
}

// WriteLayout prints tables that somebody chose.
func WriteLayout(w io.Writer, v *view.Content, width int) error {
	out := bufio.NewWriter(w)
	sanitize.Fprintln(out, v.Title)
	writeFacts(out, v.Facts, width)
	writeBanners(out, v, width)
	writeBlocks(out, v, width)
	writeNotes(out, v, width)
	return out.Flush()
}

func writeFacts(out io.Writer, facts [][2]string, width int) {
	for _, f := range facts {
		writeHanging(out, width, indent+view.Pad(f[0], 10, true), f[1])
	}
}

func writeBanners(out io.Writer, v *view.Content, width int) {
	for _, b := range v.Banners {
		sanitize.Fprintln(out)
		writeHanging(out, width, "! ", b)
	}
}

func writeBlocks(out io.Writer, v *view.Content, width int) {
	for _, b := range v.Blocks {
		sanitize.Fprintln(out)
		for i, band := range bands(b, width) {
			if i > 0 {
				sanitize.Fprintln(out)
			}
			writeBlock(out, band, width)
		}
	}
}

func writeNotes(out io.Writer, v *view.Content, width int) {
	if len(v.Notes)+len(v.Remarks) > 0 {
		sanitize.Fprintln(out)
	}
	for i, n := range v.Notes {
		writeHanging(out, width, view.Pad(fmt.Sprintf("(%d) ", i+1), 5, true), n)
	}
	for _, r := range v.Remarks {
		writeHanging(out, width, "  *  ", r)
	}
}

func writeBlock(out io.Writer, b view.Block, width int) {
	columns, rows := fit(b, width)
	widths := columnWidths(columns, rows)
	total := len(indent)
	for _, w := range widths {
		total += w + len(gap)
	}
	head := b.Name + "   " + b.Caption
	if b.Floor != "" {
		head += strings.Repeat(" ", max(3, min(total-len(gap), width)-view.Cells.StringWidth(head)-view.Cells.StringWidth(b.Floor))) + b.Floor
	}
	if head = strings.TrimRight(head, " "); head != "" {
		sanitize.Fprintln(out, head)
	}
	line := make([]string, len(columns))
	for i, c := range columns {
		line[i] = c.Head
	}
	for _, row := range append([][]string{line}, rows...) {
		text := indent
		for i, c := range columns {
			text += view.Pad(row[i], widths[i], c.LeftAlign) + gap
		}
		sanitize.Fprintln(out, strings.TrimRight(text, " "))
	}
	writeCPU(out, b.Cpu, width)
	if b.Footer != "" {
		writeHanging(out, width, indent, b.Footer)
	}
}

// writeCPU prints a line for each path, and another one for the cores where all of it is too wide.
func writeCPU(out io.Writer, lines []view.CPULine, width int) {
	const what = "CPU, "
	name, class := 0, 0
	for _, l := range lines {
		name, class = max(name, view.Cells.StringWidth(l.Path)), max(class, view.Cells.StringWidth(l.Classes))
	}
	for _, l := range lines {
		first := indent + what + view.Pad(l.Path+":", name+1, true) + gap
		text := view.Pad(l.Classes, class, true) + gap + "cores " + l.Cores
		if view.Cells.StringWidth(first+text) > width {
			writeHanging(out, width, first, l.Classes)
			writeHanging(out, width, indent+"cores, "+view.Pad(l.Path+":", name+1, true)+gap, l.Cores)
			continue
		}
		writeHanging(out, width, first, strings.ReplaceAll(text, gap, view.NoBreak+view.NoBreak))
	}
	for _, l := range lines {
		if l.Threads != "" {
			writeHanging(out, width, indent+"threads, "+view.Pad(l.Path+":", name+1, true)+gap, l.Threads)
		}
	}
}

// fit drops the columns that matter least until the block fits.
func fit(b view.Block, width int) ([]view.Column, [][]string) {
	columns, rows := slices.Clone(b.Columns), make([][]string, len(b.Rows))
	for i := range rows {
		rows[i] = slices.Clone(b.Rows[i])
	}
	for {
		total, worst := len(indent)-len(gap), 0
		for i, w := range columnWidths(columns, rows) {
			total += w + len(gap)
			if columns[i].Rank > columns[worst].Rank {
				worst = i
			}
		}
		if (total <= width && columns[worst].Rank < view.RankMarkdownOnly) || columns[worst].Rank == 0 {
			return columns, rows
		}
		columns = slices.Delete(columns, worst, worst+1)
		for i := range rows {
			rows[i] = slices.Delete(rows[i], worst, worst+1)
		}
	}
}

func columnWidths(columns []view.Column, rows [][]string) []int {
	widths := make([]int, len(columns))
	for i, c := range columns {
		widths[i] = view.Cells.StringWidth(c.Head)
		for _, row := range rows {
			widths[i] = max(widths[i], view.Cells.StringWidth(row[i]))
		}
	}
	return widths
}

// writeHanging prints text after first, wrapped to width, with further lines indented to
// where it began.
func writeHanging(out io.Writer, width int, first, text string) {
	at := view.Cells.StringWidth(first)
	room := max(20, width-at)
	line := ""
	flush := func() {
		sanitize.Fprintln(out, strings.TrimRight(view.PlainSpaces(first+line), " "))
		first, line = strings.Repeat(" ", at), ""
	}
	for _, word := range strings.Split(text, " ") {
		if line != "" && view.Cells.StringWidth(line)+1+view.Cells.StringWidth(word) > room {
			flush()
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	flush()
}

// WriteChange prints what changed from one record to another, below a blank line where apart.
func WriteChange(w io.Writer, v *view.Content, opt view.Options, apart bool) error {
	out, width := bufio.NewWriter(w), opt.Width
	if opt.Bars {
		addBars(v)
	}
	if apart {
		sanitize.Fprintln(out)
	}
	sanitize.Fprintln(out, v.Title)
	writeBanners(out, v, width)
	writeBlocks(out, v, width)
	sanitize.Fprintln(out)
	writeFacts(out, v.Facts, width)
	writeNotes(out, v, width)
	return out.Flush()
}
