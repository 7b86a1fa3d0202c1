package chart

import (
	"io"
	"math"
)

// Intervals is an interval plot of ratios: a line a row, from the low to the
// high end of its interval, on one logarithmic axis, with 1 marked.
type Intervals struct {
	Texts
	Axis   Axis
	Groups []Group
	// Keys explain the marks that occur, as [Row.Mark] has them.
	Keys []Key
}

// Group is rows of one kind.
type Group struct {
	Name string
	// Low and High are the band of values that mean nothing here; 0: there is none.
	Low, High float64
	Band      string // what the band is
	Rows      []Row
}

// Row is one interval.
type Row struct {
	Name  string
	Value float64 // 0: there is none
	// Low and High are the interval; both 0: it has none.
	Low, High float64
	Mark      Mark
	Text      string // at the right end
	Title     string // in whole
}

// Mark is the shape and colour of a value.
type Mark string

// The marks. Shapes differ as well as colours.
const (
	Better Mark = "better" // triangle up
	Worse  Mark = "worse"  // triangle down
	Equal  Mark = "same"   // dot
	Open   Mark = "open"   // ring
)

// Key names a mark.
type Key struct {
	Mark Mark
	Name string
}

// Draw is [Chart.Draw].
func (c Intervals) Draw(w io.Writer, sheet Sheet) error {
	d := intervalDrawing{canvas: newCanvas(c.Texts, sheet)}
	whole := float64(sheet.Width)
	var names, texts []string
	for _, g := range c.Groups {
		for _, r := range g.Rows {
			names, texts = append(names, r.Name), append(texts, r.Text)
		}
	}
	nameWidth, textWidth := widest(whole*0.28, names...), widest(whole*0.36, texts...)
	left, right := margin+nameWidth+10, whole-margin-textWidth-10
	if right-left < minPlot {
		right = left + minPlot
		textWidth = whole - margin - 10 - right
	}
	s := c.scale(left, right)
	var keys []string
	for _, k := range c.Keys {
		keys = append(keys, k.Name)
	}
	places, y := legend(keys, margin, margin, whole-margin)
	for i, p := range places {
		d.Keys = append(d.Keys, intervalKey{markPlace{p.X + 8, p.Y, c.Keys[i].Mark}, label{p.X + 20, p.Y + 4, p.Text}})
	}
	y += margin + 4
	for _, g := range c.Groups {
		band := intervalBand{}
		band.Names, y = titleLines(g.Name, y, whole-2*margin)
		band.Y, band.Height, band.Title = px(y), px(float64(len(g.Rows)*rowHeight)), g.Band
		if g.Low > 0 && g.High > g.Low {
			band.Left = s.position(g.Low)
			band.Width = s.position(g.High) - band.Left
		}
		for _, r := range g.Rows {
			d.Rows = append(d.Rows, c.row(r, s, y+rowHeight/2, right, nameWidth, textWidth))
			y += rowHeight
		}
		y += 6
		d.Bands = append(d.Bands, band)
	}
	d.TickY, d.Ticks = px(y+lineHeight), s.ticks(c.Axis, int((right-left)/36))
	for _, b := range d.Bands {
		for _, t := range d.Ticks {
			d.Lines = append(d.Lines, upright{"grid", t.Position, b.Y, b.Y + b.Height})
		}
		d.Lines = append(d.Lines, upright{"one", s.position(1), b.Y, b.Y + b.Height})
	}
	d.Axis = label{px((left + right) / 2), px(y + 2*lineHeight + 2), shorten(c.Axis.Label, whole-2*margin)}
	half := min(widest(whole, d.Axis.Text)/2, whole/2-margin)
	d.Axis.X = px(min(max(float64(d.Axis.X), margin+half), whole-margin-half))
	d.end(y+2*lineHeight+margin+4, sheet)
	return templates().ExecuteTemplate(w, "intervals.svg.tmpl", d)
}

// scale holds 1 and every value, and the intervals as far as they are not much
// wider than the values: those are cut, and drawn so.
func (c Intervals) scale(left, right float64) scale {
	lo, hi := 1.0, 1.0
	each := func(f func(Row)) {
		for _, g := range c.Groups {
			for _, r := range g.Rows {
				if r.Value > 0 && !math.IsInf(r.Value, 0) {
					f(r)
				}
			}
		}
	}
	each(func(r Row) { lo, hi = min(lo, max(r.Value, 1/farthest)), max(hi, min(r.Value, farthest)) })
	room := max(hi/lo, 1.1)
	least, most := lo/room, hi*room
	each(func(r Row) {
		if r.Low > 0 {
			lo, hi = min(lo, max(r.Low, least)), max(hi, min(r.High, most))
		}
	})
	for _, g := range c.Groups {
		if g.Low > 0 {
			lo, hi = min(lo, max(g.Low, least)), max(hi, min(g.High, most))
		}
	}
	return newScale(lo, hi, true, left, right).widen(0.05)
}

func (c Intervals) row(r Row, s scale, y, right, nameWidth, textWidth float64) intervalRow {
	out := intervalRow{
		markPlace: markPlace{Y: px(y), Mark: r.Mark}, Title: r.Title,
		Name: label{margin, px(y + 4), shorten(r.Name, nameWidth+charWidth)},
		Text: label{px(right + 10), px(y + 4), shorten(r.Text, textWidth+charWidth)},
	}
	if r.Value > 0 {
		out.HasValue, out.X = true, s.position(r.Value)
	}
	if r.Value > 0 && r.Low > 0 {
		out.Line, out.Left, out.Right = true, s.position(r.Low), s.position(r.High)
		out.CutLeft, out.CutRight = s.excludes(r.Low), s.excludes(r.High)
	}
	return out
}

type intervalDrawing struct {
	canvas
	Keys  []intervalKey
	Bands []intervalBand
	Lines []upright
	Rows  []intervalRow
	Ticks []tick
	TickY px
	Axis  label
}

// upright is a line that stands upright.
type upright struct {
	Class     string
	X, Y1, Y2 px
}

// markPlace is a mark at a place.
type markPlace struct {
	X, Y px
	Mark Mark
}

type intervalKey struct {
	markPlace
	Name label
}

type intervalBand struct {
	Names                  []label
	Left, Y, Width, Height px
	Title                  string
}

type intervalRow struct {
	markPlace
	HasValue, Line    bool // there is a value; there is an interval
	Left, Right       px
	CutLeft, CutRight bool // the interval goes on beyond the axis
	Title             string
	Name, Text        label
}
