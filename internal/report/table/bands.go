package table

import (
	"slices"

	"github.com/venturi-net/venturi/internal/report/view"
)

// bands cuts a block that is wider than a line into several, of about the same
// number of columns, each behind the columns that say what a row is. A block
// without such columns stays whole.
func bands(b view.Block, width int) []view.Block {
	if b.Labels == 0 {
		return []view.Block{b}
	}
	widths := columnWidths(b.Columns, b.Rows)
	rest := len(b.Columns) - b.Labels
	for n := 1; ; n++ {
		each := (rest + n - 1) / n
		if each > 1 && !fits(b, widths, each, width) {
			continue
		}
		var out []view.Block
		for from := b.Labels; from < len(b.Columns); from += each {
			out = append(out, band(b, from, min(from+each, len(b.Columns))))
		}
		for i := range out[1:] {
			out[i+1].Name = "" // said once
		}
		return out
	}
}

// fits tells whether every band of so many columns fits.
func fits(b view.Block, widths []int, each, width int) bool {
	sum := func(of []int) (n int) {
		for _, w := range of {
			n += w + len(gap)
		}
		return n
	}
	room := width - len(indent) + len(gap) - sum(widths[:b.Labels])
	for columns := range slices.Chunk(widths[b.Labels:], each) {
		if sum(columns) > room {
			return false
		}
	}
	return true
}

// band keeps the labels and the columns from..to, of the rows that have
// something there.
func band(b view.Block, from, to int) view.Block {
	out := b
	out.Columns = append(slices.Clone(b.Columns[:b.Labels]), b.Columns[from:to]...)
	out.Rows = nil
	above := make([]string, b.Labels) // labels that the next row leaves to a row that is left out
	for _, row := range b.Rows {
		labels, figures := slices.Clone(row[:b.Labels]), row[from:to]
		for k, label := range labels {
			if label != "" {
				clear(above[k:])
				break
			}
			labels[k] = above[k]
		}
		if !slices.ContainsFunc(figures, func(text string) bool { return text != "" }) {
			copy(above, labels)
			continue
		}
		clear(above)
		out.Rows = append(out.Rows, append(labels, figures...))
	}
	return out
}
