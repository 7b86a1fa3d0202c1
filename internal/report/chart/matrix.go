package chart

import (
	"io"
	"math"
)

// Matrix is a heat map of things by each other: a square for each two, coloured by how far its
// value is from what is usual.
type Matrix struct {
	Texts
	Names  []string    // of rows and columns
	Values [][]float64 // logarithms of ratios to what is usual, by row and column; NaN: none
	Titles [][]string  // of the squares
	Steps  []float64   // as those of [Heat]
	Keys   [2]string   // likewise
}

// Sizes of a matrix, pixels.
const (
	mostSquare  = 24
	namedSquare = 11 // the least with a name beside it that can be read
)

// Draw is [Chart.Draw].
func (c Matrix) Draw(w io.Writer, sheet Sheet) error {
	d := matrixDrawing{heatDrawing: heatDrawing{canvas: newCanvas(c.Texts, sheet)}}
	whole, n := float64(sheet.Width), float64(max(1, len(c.Names)))
	colors := Heat{Steps: c.Steps, Keys: c.Keys}
	y := colors.legend(&d.heatDrawing, whole, margin)
	nameWidth := widest(whole*0.3, c.Names...)
	side := min(mostSquare, (whole-2*margin-nameWidth-6)/n)
	if side < namedSquare { // the squares have titles
		nameWidth, side = 0, min(namedSquare, (whole-2*margin)/n)
	}
	left := margin + nameWidth + 6
	if nameWidth == 0 {
		left = margin
	}
	for i, row := range c.Values {
		at := y + float64(i)*side
		if nameWidth > 0 {
			d.Names = append(d.Names, label{margin, px(at + side/2 + 4), shorten(c.Names[i], nameWidth+charWidth)})
		}
		for j, v := range row {
			if !math.IsNaN(v) {
				d.Cells = append(d.Cells, heatCell{px(left + float64(j)*side), px(at), 0, colors.class(v), c.Titles[i][j]})
			}
		}
	}
	d.Side = px(max(side-1, side*0.9))
	d.end(y+n*side+margin, sheet)
	return templates().ExecuteTemplate(w, "matrix.svg.tmpl", d)
}

type matrixDrawing struct {
	heatDrawing
	Side px // of a square
}
