package chart

import (
	"io"
	"slices"
)

// Bars are stacked bars that lie: one a row, all on one axis from 0.
type Bars struct {
	Texts
	Groups []BarGroup
}

// BarGroup is bars that share an axis and are compared with each other.
type BarGroup struct {
	Name string
	Bars []Bar
}

// Bar is one row.
type Bar struct {
	Name  string
	Parts []Part
	Text  string // behind the bar
}

// Part is a piece of a bar.
type Part struct {
	Name  string // the same in all bars
	Value float64
	Title string
}

// Draw is [Chart.Draw].
func (c Bars) Draw(w io.Writer, sheet Sheet) error {
	d := barDrawing{canvas: newCanvas(c.Texts, sheet)}
	whole := float64(sheet.Width)
	var names, texts, parts []string
	for _, g := range c.Groups {
		for _, b := range g.Bars {
			names, texts = append(names, b.Name), append(texts, b.Text)
			for _, p := range b.Parts {
				if !slices.Contains(parts, p.Name) {
					parts = append(parts, p.Name)
				}
			}
		}
	}
	places, y := legend(parts, margin, margin, whole-margin)
	d.Keys = barKeys(places, partClass)
	y += margin + 6
	nameWidth, textWidth := widest(whole*0.3, names...), widest(whole*0.3, texts...)
	left := margin + nameWidth + 10
	room := max(minPlot, whole-margin-textWidth-10-left)
	for _, g := range c.Groups {
		lines, next := titleLines(g.Name, y, whole-2*margin)
		d.Names, y = append(d.Names, lines...), next
		longest := 0.0
		for _, b := range g.Bars {
			longest = max(longest, b.length())
		}
		for _, b := range g.Bars {
			row := barRow{Name: label{margin, px(y + 15), shorten(b.Name, nameWidth+charWidth)}, Y: px(y + 3)}
			x := left
			for _, p := range b.Parts {
				if p.length() == 0 {
					continue
				}
				wide := p.length() / longest * room
				row.Parts = append(row.Parts, barPart{px(x), px(wide), partClass(slices.Index(parts, p.Name)), p.Title})
				x += wide
			}
			row.Text = label{px(x + 8), px(y + 15), shorten(b.Text, textWidth+charWidth)}
			d.Rows = append(d.Rows, row)
			y += rowHeight
		}
		y += 6
	}
	d.end(y+margin, sheet)
	return templates().ExecuteTemplate(w, "bars.svg.tmpl", d)
}

func (b Bar) length() (sum float64) {
	for _, p := range b.Parts {
		sum += p.length()
	}
	return sum
}

// length is the value as far as it can be drawn.
func (p Part) length() float64 {
	if !(p.Value > 0) {
		return 0
	}
	return min(p.Value, farthest)
}

func partClass(i int) string { return curveClass(i)[:len("c0")] }

type barDrawing struct {
	canvas
	Keys  []barKey
	Names []label
	Rows  []barRow
}

type barKey struct {
	X, Y  px
	Class string
	Name  label
}

// barKeys are the squares of a legend with their names.
func barKeys(places []label, class func(i int) string) []barKey {
	var out []barKey
	for i, p := range places {
		out = append(out, barKey{p.X, p.Y - 6, class(i), label{p.X + 16, p.Y + 4, p.Text}})
	}
	return out
}

type barRow struct {
	Y          px
	Parts      []barPart
	Name, Text label
}

type barPart struct {
	X, Width     px
	Class, Title string
}
