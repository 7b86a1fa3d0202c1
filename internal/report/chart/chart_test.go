package chart

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
)

// hostile is text that would end an element, and values that cannot be drawn.
const hostile = `</text><script>"'&`

var strange = []float64{0, -1, math.Inf(1), math.Inf(-1), math.NaN(), math.MaxFloat64, math.SmallestNonzeroFloat64}

// Whatever is in a figure, it is an SVG element with finite coordinates, and its
// texts are text.
func TestDraw(t *testing.T) {
	texts := Texts{hostile, hostile}
	rows, bars, heat := []Row{}, []Bar{}, []HeatCell{}
	var points []Point
	for _, v := range strange {
		rows = append(rows, Row{Name: hostile, Value: v, Low: v, High: v, Mark: Better, Text: hostile, Title: hostile})
		bars = append(bars, Bar{Name: hostile, Parts: []Part{{hostile, v, hostile}, {hostile, 1, hostile}}, Text: hostile})
		heat = append(heat, HeatCell{From: v, To: 1, Value: v, Title: hostile})
		points = append(points, Point{X: v, Y: v, Low: v, High: 2, Title: hostile})
	}
	for _, c := range []Chart{
		Intervals{Texts: texts}, Curves{Texts: texts}, Bars{Texts: texts}, Heat{Texts: texts},
		Intervals{Texts: texts, Axis: Axis{Label: hostile}, Groups: []Group{{Name: hostile, Low: 0.9, High: 1.1, Band: hostile, Rows: rows}}, Keys: []Key{{Worse, hostile}}},
		Curves{Texts: texts, X: Axis{Label: hostile, Log: true}, Y: Axis{Log: true}, Curves: []Curve{{hostile, points}}, Dots: true},
		Bars{Texts: texts, Groups: []BarGroup{{hostile, bars}}},
		Heat{Texts: texts, Rows: []HeatRow{{hostile, heat}}, Steps: []float64{0.1}, Keys: [2]string{hostile, hostile}},
	} {
		for _, width := range []int{300, 1000} {
			var out bytes.Buffer
			if err := c.Draw(&out, Sheet{Width: width, Standalone: true, Notes: []string{hostile, "a note of some words that go on and on until they need one more line"}}); err != nil {
				t.Fatalf("%T: %v", c, err)
			}
			check(t, c, out.String())
		}
	}
}

func check(t *testing.T, c Chart, text string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(text))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%T: %v in %s", c, err, text)
		}
		e, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		if e.Name.Local == "script" {
			t.Fatalf("%T: a text has become a script", c)
		}
		for _, a := range e.Attr {
			if strings.Contains(a.Value, "NaN") || strings.Contains(a.Value, "Inf") || a.Name.Local == "width" && strings.HasPrefix(a.Value, "-") {
				t.Errorf("%T: %s of %s is %q", c, a.Name.Local, e.Name.Local, a.Value)
			}
		}
	}
}

// Each colour comes with another dash, so that curves can be told apart without colours.
func TestCurveClasses(t *testing.T) {
	seen := map[string]bool{}
	for i := range 2 * colours {
		if class := curveClass(i); seen[class] {
			t.Errorf("curve %d looks like one before it: %s", i, class)
		} else {
			seen[class] = true
		}
	}
}
