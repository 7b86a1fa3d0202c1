// Package meshreport prints what was found between all pairs of some nodes: a format is a line of
// [formats].
package meshreport

import (
	"fmt"
	"io"
	"strings"

	"github.com/venturi-net/venturi/internal/mesh"
	"github.com/venturi-net/venturi/internal/report/html"
	"github.com/venturi-net/venturi/internal/report/markdown"
	"github.com/venturi-net/venturi/internal/report/table"
	"github.com/venturi-net/venturi/internal/report/view"
	"github.com/venturi-net/venturi/internal/sanitize"
)

// format is one way to print.
type format struct {
	name  string
	write func(w io.Writer, r *mesh.Survey, width int) error
}

// formats are all of them, the default first.
var formats = []format{
	{"table", func(w io.Writer, r *mesh.Survey, width int) error { return table.WriteLayout(w, content(r), width) }},
	{"md", func(w io.Writer, r *mesh.Survey, _ int) error { return markdown.WriteView(w, content(r)) }},
	{"html", func(w io.Writer, r *mesh.Survey, _ int) error {
		return html.WriteView(w, content(r), nil, drawings(r), r.Command)
	}},
	{"json", func(w io.Writer, r *mesh.Survey, _ int) error { return sanitize.JSON(w, r) }},
}

// Formats names the formats, the default first.
func Formats() (names []string) {
	for _, f := range formats {
		names = append(names, f.name)
	}
	return names
}

// Write prints a report in a format, for a terminal of so many columns; 0: it is none.
func Write(w io.Writer, r *mesh.Survey, name string, width int) error {
	if width <= 0 {
		width = view.DefaultWidth
	}
	for _, f := range formats {
		if f.name == name {
			return f.write(w, r, width)
		}
	}
	return fmt.Errorf("no format %q, there are: %s", name, strings.Join(Formats(), ", "))
}
