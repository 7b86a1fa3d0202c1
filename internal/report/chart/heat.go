package chart

import (
	"io"
	"math"
	"strconv"
)

// Heat is a heat map: rows over time, coloured by how far a value is from what
// is usual in its row.
type Heat struct {
	Texts
	X    Axis // of the columns' begins
	Rows []HeatRow
	// Steps are the shares from which a colour is stronger, ascending: 0.02 is
	// 2 % from usual. At most four.
	Steps []float64
	Keys  [2]string // what below and above usual mean
}

// HeatRow is a row of equally wide cells.
type HeatRow struct {
	Name  string
	Cells []HeatCell
}

// HeatCell is one stretch of time.
type HeatCell struct {
	From, To float64 // on the axis
	// Value is the logarithm of its ratio to what is usual.
	Value float64
	Title string
}

// Draw is [Chart.Draw].
func (c Heat) Draw(w io.Writer, sheet Sheet) error {
	d := heatDrawing{canvas: newCanvas(c.Texts, sheet)}
	whole := float64(sheet.Width)
	y := float64(margin)
	y = c.legend(&d, whole, y)
	var names []string
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, r := range c.Rows {
		names = append(names, r.Name)
		for _, cell := range r.Cells {
			if !c.X.fits(cell.From) || !c.X.fits(cell.To) {
				continue
			}
			lo, hi = min(lo, cell.From), max(hi, cell.To)
		}
	}
	if lo > hi {
		lo, hi = 0, 1
	}
	nameWidth := widest(whole*0.3, names...)
	left, right := margin+nameWidth+10, whole-margin-12
	x := newScale(lo, hi, false, left, right)
	for _, r := range c.Rows {
		d.Names = append(d.Names, label{margin, px(y + 15), shorten(r.Name, nameWidth+charWidth)})
		for _, cell := range r.Cells {
			at := x.position(cell.From)
			d.Cells = append(d.Cells, heatCell{at, px(y + 1), max(0, x.position(cell.To)-at), c.class(cell.Value), cell.Title})
		}
		y += rowHeight
	}
	d.Ticks, d.TickY = x.ticks(c.X, int((right-left)/52)), px(y+lineHeight)
	d.Axis = label{px((left + right) / 2), px(y + 2*lineHeight + 2), shorten(c.X.Label, right-left)}
	d.end(y+2*lineHeight+margin+4, sheet)
	return templates().ExecuteTemplate(w, "heat.svg.tmpl", d)
}

// legend explains the colours. It returns where the rows begin.
func (c Heat) legend(d *heatDrawing, whole, y float64) float64 {
	text := func(share float64) string { return strconv.FormatFloat(100*share, 'g', 3, 64) + " %" }
	var names, classes []string
	for side, sign := range []float64{-1, 1} {
		for i, s := range c.Steps {
			names = append(names, "from "+text(s)+" "+c.Keys[side])
			classes = append(classes, c.class(sign*math.Log1p(c.Steps[i]*1.0001)))
		}
	}
	if len(c.Steps) > 0 {
		names, classes = append(names, "within "+text(c.Steps[0])), append(classes, c.class(0))
	}
	places, height := legend(names, margin, y, whole-margin)
	d.Keys = barKeys(places, func(i int) string { return classes[i] })
	return y + height + margin
}

// class is the colour of a value.
func (c Heat) class(v float64) string {
	if math.IsNaN(v) {
		return "none"
	}
	n := 0
	for _, s := range c.Steps {
		if math.Abs(v) >= math.Log1p(s) {
			n++
		}
	}
	n = min(n, 4)
	if v < 0 {
		n = -n
	}
	return "h" + strconv.Itoa(n)
}

type heatDrawing struct {
	canvas
	Keys  []barKey
	Names []label
	Cells []heatCell
	Ticks []tick
	TickY px
	Axis  label
}

type heatCell struct {
	X, Y, Width  px
	Class, Title string
}
