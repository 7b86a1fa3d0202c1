package report

import "slices"

// bands cuts a block that is wider than a line into several, of about the same
// number of columns, each behind the columns that say what a row is. A block
// without such columns stays whole.
func (b block) bands(width int) []block {
	if b.labels == 0 {
		return []block{b}
	}
	widths := columnWidths(b.columns, b.rows)
	rest := len(b.columns) - b.labels
	for n := 1; ; n++ {
		each := (rest + n - 1) / n
		if each > 1 && !b.fits(widths, each, width) {
			continue
		}
		var out []block
		for from := b.labels; from < len(b.columns); from += each {
			out = append(out, b.band(from, min(from+each, len(b.columns))))
		}
		for i := range out[1:] {
			out[i+1].name = "" // said once
		}
		return out
	}
}

// fits tells whether every band of so many columns fits.
func (b block) fits(widths []int, each, width int) bool {
	sum := func(of []int) (n int) {
		for _, w := range of {
			n += w + len(gap)
		}
		return n
	}
	room := width - len(indent) + len(gap) - sum(widths[:b.labels])
	for band := range slices.Chunk(widths[b.labels:], each) {
		if sum(band) > room {
			return false
		}
	}
	return true
}

// band keeps the labels and the columns from..to, of the rows that have
// something there.
func (b block) band(from, to int) block {
	out := b
	out.columns = append(slices.Clone(b.columns[:b.labels]), b.columns[from:to]...)
	out.rows = nil
	above := make([]string, b.labels) // labels that the next row leaves to a row that is left out
	for _, row := range b.rows {
		labels, figures := slices.Clone(row[:b.labels]), row[from:to]
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
		out.rows = append(out.rows, append(labels, figures...))
	}
	return out
}
