package report

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/mattn/go-runewidth"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/result"
)

// cells measures text as a terminal does. The locale must not matter: a report
// looks the same everywhere.
var cells = &runewidth.Condition{EastAsianWidth: false, StrictEmojiNeutral: true}

const (
	indent = "  "
	gap    = "  "
	// noBreak joins words that stay on one line; it is printed as a space.
	noBreak = "\u00a0"
)

// plainSpaces makes spaces of those that join words.
func plainSpaces(s string) string { return strings.ReplaceAll(s, noBreak, " ") }

// writeTable prints for a terminal of opt.Width columns: first the answers, then
// the figures, then on what and how they were measured.
func writeTable(w io.Writer, rec *result.Record, s *analysis.Summary, opt Options) error {
	v, out := newView(rec, s, opt), bufio.NewWriter(w)
	if !opt.Verbose {
		for i := range v.blocks {
			v.blocks[i].cpu, v.blocks[i].footer = nil, ""
		}
	}
	sanitize.Fprintln(out, v.title)
	writeBanners(out, v, opt.Width)
	if len(v.answers) > 0 {
		sanitize.Fprintln(out)
	}
	for _, a := range v.answers {
		writeHanging(out, opt.Width, a.path, a.text)
	}
	writeBlocks(out, v, opt.Width)
	sanitize.Fprintln(out)
	writeFacts(out, v, opt.Width)
	writeNotes(out, v, opt.Width)
	return out.Flush()
}

// writeLayoutTable prints tables that somebody chose.
func writeLayoutTable(w io.Writer, v *view, width int) error {
	out := bufio.NewWriter(w)
	sanitize.Fprintln(out, v.title)
	writeFacts(out, v, width)
	writeBanners(out, v, width)
	writeBlocks(out, v, width)
	writeNotes(out, v, width)
	return out.Flush()
}

func writeFacts(out io.Writer, v *view, width int) {
	for _, f := range v.facts {
		writeHanging(out, width, indent+pad(f[0], 10, true), f[1])
	}
}

func writeBanners(out io.Writer, v *view, width int) {
	for _, b := range v.banners {
		sanitize.Fprintln(out)
		writeHanging(out, width, "! ", b)
	}
}

func writeBlocks(out io.Writer, v *view, width int) {
	for _, b := range v.blocks {
		sanitize.Fprintln(out)
		for i, band := range b.bands(width) {
			if i > 0 {
				sanitize.Fprintln(out)
			}
			writeBlock(out, band, width)
		}
	}
}

func writeNotes(out io.Writer, v *view, width int) {
	if len(v.notes)+len(v.remarks) > 0 {
		sanitize.Fprintln(out)
	}
	for i, n := range v.notes {
		writeHanging(out, width, pad(fmt.Sprintf("(%d) ", i+1), 5, true), n)
	}
	for _, r := range v.remarks {
		writeHanging(out, width, "  *  ", r)
	}
}

func writeBlock(out io.Writer, b block, width int) {
	columns, rows := fit(b, width)
	widths := columnWidths(columns, rows)
	total := len(indent)
	for _, w := range widths {
		total += w + len(gap)
	}
	head := b.name + "   " + b.caption
	if b.floor != "" {
		head += strings.Repeat(" ", max(3, min(total-len(gap), width)-cells.StringWidth(head)-cells.StringWidth(b.floor))) + b.floor
	}
	if head = strings.TrimRight(head, " "); head != "" {
		sanitize.Fprintln(out, head)
	}
	line := make([]string, len(columns))
	for i, c := range columns {
		line[i] = c.head
	}
	for _, row := range append([][]string{line}, rows...) {
		text := indent
		for i, c := range columns {
			text += pad(row[i], widths[i], c.leftAlign) + gap
		}
		sanitize.Fprintln(out, strings.TrimRight(text, " "))
	}
	writeCPU(out, b.cpu, width)
	if b.footer != "" {
		writeHanging(out, width, indent, b.footer)
	}
}

// writeCPU prints a line for each path, without the cores where all of it is
// too wide.
func writeCPU(out io.Writer, lines []cpuLine, width int) {
	const what = "CPU, "
	name, class := 0, 0
	for _, l := range lines {
		name, class = max(name, cells.StringWidth(l.path)), max(class, cells.StringWidth(l.classes))
	}
	for _, l := range lines {
		first := indent + what + pad(l.path+":", name+1, true) + gap
		text := pad(l.classes, class, true) + gap + l.cores
		if cells.StringWidth(first+text) > width {
			text = l.classes
		}
		writeHanging(out, width, first, strings.ReplaceAll(text, gap, noBreak+noBreak))
	}
}

// fit drops the columns that matter least until the block fits.
func fit(b block, width int) ([]column, [][]string) {
	columns, rows := slices.Clone(b.columns), make([][]string, len(b.rows))
	for i := range rows {
		rows[i] = slices.Clone(b.rows[i])
	}
	for {
		total, worst := len(indent)-len(gap), 0
		for i, w := range columnWidths(columns, rows) {
			total += w + len(gap)
			if columns[i].rank > columns[worst].rank {
				worst = i
			}
		}
		if (total <= width && columns[worst].rank < rankMarkdownOnly) || columns[worst].rank == 0 {
			return columns, rows
		}
		columns = slices.Delete(columns, worst, worst+1)
		for i := range rows {
			rows[i] = slices.Delete(rows[i], worst, worst+1)
		}
	}
}

func columnWidths(columns []column, rows [][]string) []int {
	widths := make([]int, len(columns))
	for i, c := range columns {
		widths[i] = cells.StringWidth(c.head)
		for _, row := range rows {
			widths[i] = max(widths[i], cells.StringWidth(row[i]))
		}
	}
	return widths
}

func pad(s string, width int, left bool) string {
	space := strings.Repeat(" ", max(0, width-cells.StringWidth(s)))
	if left {
		return s + space
	}
	return space + s
}

// writeHanging prints text after first, wrapped to width, with further lines indented to
// where it began.
func writeHanging(out io.Writer, width int, first, text string) {
	at := cells.StringWidth(first)
	room := max(20, width-at)
	line := ""
	flush := func() {
		sanitize.Fprintln(out, strings.TrimRight(plainSpaces(first+line), " "))
		first, line = strings.Repeat(" ", at), ""
	}
	for _, word := range strings.Split(text, " ") {
		if line != "" && cells.StringWidth(line)+1+cells.StringWidth(word) > room {
			flush()
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	flush()
}
