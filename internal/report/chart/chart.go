// Package chart draws figures as SVG. It knows marks, axes and labels, and
// nothing of what they stand for: one kind of figure a file.
//
// A mark has a class instead of a colour; [Style] gives the classes their
// colours, for light and dark screens and for paper. Every mark has a title,
// which browsers show beside the pointer and screen readers read.
package chart

import (
	"embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"strings"
	"sync"

	"github.com/mattn/go-runewidth"
)

// Chart is a figure.
type Chart interface {
	// Draw writes one SVG element, as high as it must be.
	Draw(w io.Writer, s Sheet) error
}

// Sheet is what a figure is drawn on.
type Sheet struct {
	Width int // pixels
	// Standalone makes the element a file of its own, with its style sheet and
	// these notes below.
	Standalone bool
	Notes      []string
}

// Texts say what a figure shows; people who cannot see it have these.
type Texts struct {
	Title string
	Desc  string // what a reader should look for
}

//go:embed style.css
var style string

// Style is the style sheet of the figures.
func Style() template.CSS { return template.CSS(style) }

//go:embed *.svg.tmpl
var sources embed.FS

// templates are parsed when the first figure is drawn: most commands draw none.
var templates = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").ParseFS(sources, "*.svg.tmpl"))
})

// Sizes in pixels.
const (
	charWidth  = 6.6 // of a digit at the size of the style sheet
	boldWidth  = 7.4 // of one in the titles of groups
	lineHeight = 16
	rowHeight  = 24
	margin     = 8
	minPlot    = 80 // width of the part with the marks
)

// px is a coordinate, printed short.
type px float64

func (p px) String() string {
	if math.IsNaN(float64(p)) || math.IsInf(float64(p), 0) {
		return "0"
	}
	text := strings.TrimSuffix(fmt.Sprintf("%.1f", float64(p)), ".0")
	if text == "-0" {
		return "0"
	}
	return text
}

// canvas is what all figures have: their size and texts.
type canvas struct {
	Texts
	Style         template.CSS
	Width, Height px
	Notes         []label
}

func newCanvas(t Texts, s Sheet) canvas {
	c := canvas{Texts: t, Width: px(s.Width)}
	if s.Standalone {
		c.Style = Style()
	}
	return c
}

// end sets the height, with room for the notes of a figure that is alone.
func (c *canvas) end(height float64, s Sheet) {
	if s.Standalone {
		for _, n := range s.Notes {
			for _, line := range wrap(n, float64(s.Width)-2*margin) {
				height += lineHeight
				c.Notes = append(c.Notes, label{margin, px(height - margin/2), line})
			}
		}
	}
	c.Height = px(height)
}

// wrap breaks a text at its spaces.
func wrap(text string, width float64) (lines []string) {
	for _, word := range strings.Fields(text) {
		if last := len(lines) - 1; last >= 0 && textWidth(lines[last]+" "+word) <= width {
			lines[last] += " " + word
		} else {
			lines = append(lines, shorten(word, width))
		}
	}
	return lines
}

// tick is a place on an axis, and what is written there.
type tick struct {
	Position px
	Text     string
}

// label is a text at a place.
type label struct {
	X, Y px
	Text string
}

// textWidth is how wide a text is drawn, about.
func textWidth(s string) float64 { return charWidth * float64(runewidth.StringWidth(s)) }

// shorten cuts a text so that it is drawn no wider than so many pixels.
func shorten(s string, width float64) string {
	return runewidth.Truncate(s, max(1, int(width/charWidth)), "…")
}

// titleLines are the lines of the title of a group, which is bold, and where the group begins.
func titleLines(s string, y, width float64) (lines []label, next float64) {
	for _, line := range wrap(s, width*charWidth/boldWidth) {
		y += lineHeight
		lines = append(lines, label{margin, px(y), line})
	}
	return lines, y + 8
}

// widest is the width of the widest text, at most so many pixels.
func widest(most float64, texts ...string) float64 {
	width := 0.0
	for _, t := range texts {
		width = max(width, textWidth(t))
	}
	return min(width, most)
}

// legend lays out entries in lines, from left to right. It returns the height.
func legend(names []string, left, top, right float64) (places []label, height float64) {
	const key, space = 24, 14
	x, y := left, top+lineHeight/2
	for _, n := range names {
		n = shorten(n, right-left-key)
		if x > left && x+key+textWidth(n) > right {
			x, y = left, y+lineHeight+2
		}
		places = append(places, label{px(x), px(y), n})
		x += key + textWidth(n) + space
	}
	return places, y - top + lineHeight/2
}
