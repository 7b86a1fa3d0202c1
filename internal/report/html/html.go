// Package html prints a page with figures and tables. It is one file, which needs no
// network and no script.
package html

import (
	"bufio"
	"bytes"
	_ "embed"
	"html/template"
	"io"
	"sync"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/internal/report/chart"
	"github.com/venturi-net/venturi/internal/report/figure"
	"github.com/venturi-net/venturi/internal/report/view"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/result"
)

// A page has each figure twice, and shows the one that fits the screen: text in
// a figure that is scaled cannot be read.
const (
	wideFigure   = 660
	narrowFigure = 340
)

//go:embed page.html.tmpl
var pageSource string

//go:embed page.css
var pageStyle string

// pageTemplate is parsed when the first page is printed: most commands print none.
var pageTemplate = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("page").Funcs(template.FuncMap{"spaces": view.PlainSpaces}).Parse(pageSource))
})

// page is what the template prints.
type page struct {
	Title    string
	Style    template.CSS
	Answers  []string
	Banners  []string
	Machines [][2]string
	Facts    [][2]string
	Command  string
	Figures  []pageFigure
	Tables   []pageTable
	Notes    []string
	Comments []string
}

type pageFigure struct {
	Title, Desc  string
	Wide, Narrow template.HTML
	Table        pageTable
	Stacked      bool // the table stands below the figure: it is too wide to be beside it
}

// besideWidth is the room for a table beside a figure, pixels, and what of it a character and
// the space between two columns take, about.
const besideWidth, tableChar, columnSpace = 588, 7, 10

type pageTable struct {
	Name, Caption, Floor, Footer string
	Columns                      []pageColumn
	Rows                         [][]pageCell
}

type pageColumn struct {
	Head string
	Text bool // aligned as text, not as figures
}

type pageCell struct {
	Value string
	Class string // text, or wrap for a text of more than one line
}

// lineLength is from how many characters on a text may be wrapped.
const lineLength = 28

// Write prints one page that needs no other file, no script and no network.
func Write(w io.Writer, rec *result.Record, s *analysis.Summary, opt view.Options) error {
	opt.Verbose = true
	return WriteView(w, view.New(rec, s, opt), view.Answers(s), figure.Drawings(rec, s, ""), rec.Header.Command)
}

// WriteView is Write for the text of any report: its answers, its figures, and the command that
// repeats it.
func WriteView(w io.Writer, v *view.Content, answers []string, drawings []figure.Drawing, command []string) error {
	p := page{Title: v.Title, Answers: answers, Style: chart.Style() + template.CSS(pageStyle), Banners: v.Banners, Machines: v.Machines, Facts: v.Facts,
		Command: sanitize.Command(command...), Notes: v.Notes, Comments: v.Remarks}
	for _, d := range drawings {
		f := pageFigure{Title: d.Texts.Title, Desc: d.Texts.Desc, Table: newPageTable(d.Table), Stacked: tableWidth(d.Table) > besideWidth}
		var err error
		if f.Wide, err = svg(d.Chart, wideFigure); err != nil {
			return err
		}
		if f.Narrow, err = svg(d.Chart, narrowFigure); err != nil {
			return err
		}
		p.Figures = append(p.Figures, f)
	}
	for _, b := range v.Blocks {
		p.Tables = append(p.Tables, newPageTable(b))
	}
	out := bufio.NewWriter(w)
	if err := pageTemplate().Execute(out, p); err != nil {
		return err
	}
	return out.Flush()
}

// svg draws a figure for a page. The template has escaped what is in it.
func svg(c chart.Chart, width int) (template.HTML, error) {
	var out bytes.Buffer
	err := c.Draw(&out, chart.Sheet{Width: width})
	return template.HTML(out.String()), err
}

// tableWidth is how wide a table is, about; a long text is wrapped.
func tableWidth(b view.Block) (width int) {
	for i, c := range b.Columns {
		widest := len(c.Head)
		for _, row := range b.Rows {
			widest = max(widest, min(lineLength, view.Cells.StringWidth(row[i])))
		}
		width += tableChar*widest + columnSpace
	}
	return width
}

// newPageTable leaves out what only Markdown has room for, where the tables beside the
// figures have it. They have no sweeps, whose blocks have a row a size.
func newPageTable(b view.Block) pageTable {
	t := pageTable{Name: b.Name, Caption: b.Caption, Floor: b.Floor, Footer: b.Footer}
	shown := func(c view.Column) bool { return c.Rank < view.RankMarkdownOnly || b.Columns[0].Head != "path" }
	for _, c := range b.Columns {
		if shown(c) {
			t.Columns = append(t.Columns, pageColumn{c.Head, c.LeftAlign})
		}
	}
	for _, row := range b.Rows {
		var cells []pageCell
		for i, text := range row {
			if !shown(b.Columns[i]) {
				continue
			}
			c := pageCell{Value: text}
			switch {
			case b.Columns[i].LeftAlign && len(text) > lineLength:
				c.Class = "text wrap"
			case b.Columns[i].LeftAlign:
				c.Class = "text"
			}
			cells = append(cells, c)
		}
		t.Rows = append(t.Rows, cells)
	}
	return t
}
