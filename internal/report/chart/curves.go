package chart

import (
	"io"
	"math"
	"slices"
)

// Curves are lines over a common axis: figures by size, or a distribution.
type Curves struct {
	Texts
	X, Y   Axis
	Curves []Curve
	// Dots draws a dot at each point; without, points have no titles.
	Dots bool
}

// Curve is one line.
type Curve struct {
	Name   string
	Points []Point // in the order of X
}

// Point is one of its points.
type Point struct {
	X, Y float64
	// Low and High are the interval of Y; both 0: it has none.
	Low, High float64
	Title     string
}

// colours is how many curves have one of their own; then they come again, dashed
// otherwise. The first is that of the baseline.
const colours = 8

// Draw is [Chart.Draw].
func (c Curves) Draw(w io.Writer, sheet Sheet) error {
	c.Curves = c.drawable()
	d := curveDrawing{canvas: newCanvas(c.Texts, sheet)}
	whole := float64(sheet.Width)
	var names []string
	for _, curve := range c.Curves {
		names = append(names, curve.Name)
	}
	places, keys := legend(names, margin, margin, whole-margin)
	for i, p := range places {
		d.Keys = append(d.Keys, curveKey{p.X, p.X + 18, p.Y, curveClass(i), label{p.X + 22, p.Y + 4, p.Text}})
	}
	title := margin + keys + lineHeight // of the axis that stands upright
	top := title + 12
	bottom := top + min(max(whole*0.45, 160), 320)
	xs, ys := c.ranges()
	y := newScale(ys[0], ys[1], c.Y.Log, bottom, top).widen(0.04)
	for _, t := range y.ticks(c.Y, int((bottom-top)/(2*lineHeight))) {
		d.Side = append(d.Side, label{Y: t.Position, Text: t.Text})
	}
	var texts []string
	for _, l := range d.Side {
		texts = append(texts, l.Text)
	}
	left, right := margin+widest(whole*0.3, texts...)+8, whole-margin-12
	x := newScale(xs[0], xs[1], c.X.Log, left, right)
	if over := overhang(x.ticks(c.X, tickCount(left, right)), whole); over > 0 {
		right -= over
		x = newScale(xs[0], xs[1], c.X.Log, left, right)
	}
	for i := range d.Side {
		d.Side[i].X = px(left - 6)
	}
	d.Left, d.Right, d.Top, d.Bottom = px(left), px(right), px(top), px(bottom)
	d.Ticks = x.ticks(c.X, tickCount(left, right))
	d.YAxis = label{margin, px(title), shorten(c.Y.Label, whole-2*margin)}
	d.XAxis = label{px((left + right) / 2), px(bottom + 2*lineHeight + 6), shorten(c.X.Label, right-left)}
	d.TickY = px(bottom + lineHeight + 2)
	d.end(bottom+2*lineHeight+margin+8, sheet)
	for i, curve := range c.Curves {
		d.Curves = append(d.Curves, drawCurve(curve, i, x, y, c.Dots))
	}
	return templates().ExecuteTemplate(w, "curves.svg.tmpl", d)
}

// tickCount is how many labels an axis has room for.
func tickCount(left, right float64) int { return int((right - left) / 52) }

// overhang is how far the last label of an axis would be beyond the figure.
func overhang(ticks []tick, whole float64) float64 {
	if len(ticks) == 0 {
		return 0
	}
	last := ticks[len(ticks)-1]
	return float64(last.Position) + textWidth(last.Text)/2 - whole
}

// drawable leaves out the points that an axis cannot have.
func (c Curves) drawable() []Curve {
	out := slices.Clone(c.Curves)
	for i := range out {
		out[i].Points = slices.DeleteFunc(slices.Clone(out[i].Points), func(p Point) bool { return !c.X.fits(p.X) || !c.Y.fits(p.Y) })
	}
	return out
}

// ranges are the least and the greatest value of each axis.
func (c Curves) ranges() (x, y [2]float64) {
	x, y = [2]float64{math.Inf(1), math.Inf(-1)}, [2]float64{math.Inf(1), math.Inf(-1)}
	include := func(r *[2]float64, v float64) { r[0], r[1] = min(r[0], v), max(r[1], v) }
	for _, curve := range c.Curves {
		for _, p := range curve.Points {
			include(&x, p.X)
			include(&y, p.Y)
			if p.High > p.Low && p.Low > 0 {
				// An interval far wider than its value would hide all else.
				include(&y, max(p.Low, p.Y/2))
				include(&y, min(p.High, p.Y*2))
			}
		}
	}
	if x[0] > x[1] {
		return [2]float64{1, 2}, [2]float64{1, 2} // no point at all
	}
	return x, y
}

func drawCurve(c Curve, i int, x, y scale, dots bool) curveLine {
	out := curveLine{Class: curveClass(i), Colour: partClass(i), Name: c.Name}
	for n, p := range c.Points {
		command := "L"
		if n == 0 {
			command = "M"
		}
		at := curvePoint{X: x.position(p.X), Y: y.position(p.Y), Title: p.Title}
		out.Path += command + at.X.String() + "," + at.Y.String()
		if p.High > p.Low {
			at.Low, at.High = y.position(p.Low), y.position(p.High)
		}
		if dots {
			out.Points = append(out.Points, at)
		}
	}
	return out
}

// curveClass is the colour of the i-th curve, and its dashes.
func curveClass(i int) string {
	const colour, dash = "01234567", "0123"
	return "c" + string(colour[i%colours]) + " d" + string(dash[(i+i/colours)%len(dash)])
}

type curveDrawing struct {
	canvas
	Keys                     []curveKey
	Left, Right, Top, Bottom px // of the part with the curves
	Side                     []label
	Ticks                    []tick
	TickY                    px
	XAxis, YAxis             label
	Curves                   []curveLine
}

type curveKey struct {
	Left, Right, Y px
	Class          string
	Name           label
}

type curveLine struct {
	Class, Colour, Name, Path string
	Points                    []curvePoint
}

type curvePoint struct {
	X, Y      px
	Low, High px // both 0: it has no interval
	Title     string
}
