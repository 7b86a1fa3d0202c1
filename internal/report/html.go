package report

import (
	"bufio"
	"bytes"
	_ "embed"
	"html/template"
	"io"
	"strings"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/internal/report/chart"
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

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"spaces": plainSpaces,
}).Parse(pageSource))

// page is what the template prints.
type page struct {
	Title    string
	Style    template.CSS
	Answers  []string
	Banners  []string
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
	Below        bool // the table stands below the figure: it is too wide to be beside it
}

// mostBeside is how many columns a table beside a figure has.
const mostBeside = 8

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

// writeHTML prints one page that needs no other file, no script and no network.
func writeHTML(w io.Writer, rec *result.Record, s *analysis.Summary, opt Options) error {
	opt.Verbose = true
	v := newView(rec, s, opt)
	p := page{Title: v.title, Style: chart.Style() + template.CSS(pageStyle), Banners: v.banners, Facts: v.facts,
		Command: sanitize.Command(rec.Header.Command...), Notes: v.notes, Comments: v.remarks}
	for _, a := range v.answers {
		p.Answers = append(p.Answers, strings.TrimRight(a.path, " ")+" "+a.text)
	}
	for _, d := range drawings(rec, s, "") {
		f := pageFigure{Title: d.texts.Title, Desc: d.texts.Desc, Table: newPageTable(d.table), Below: len(d.table.columns) > mostBeside}
		var err error
		if f.Wide, err = svg(d.chart, wideFigure); err != nil {
			return err
		}
		if f.Narrow, err = svg(d.chart, narrowFigure); err != nil {
			return err
		}
		p.Figures = append(p.Figures, f)
	}
	for _, b := range v.blocks {
		p.Tables = append(p.Tables, newPageTable(b))
	}
	out := bufio.NewWriter(w)
	if err := pageTemplate.Execute(out, p); err != nil {
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

func newPageTable(b block) pageTable {
	t := pageTable{Name: b.name, Caption: b.caption, Floor: b.floor, Footer: b.footer}
	for _, c := range b.columns {
		t.Columns = append(t.Columns, pageColumn{c.head, c.leftAlign})
	}
	for _, row := range b.rows {
		var cells []pageCell
		for i, text := range row {
			c := pageCell{Value: text}
			switch {
			case b.columns[i].leftAlign && len(text) > lineLength:
				c.Class = "text wrap"
			case b.columns[i].leftAlign:
				c.Class = "text"
			}
			cells = append(cells, c)
		}
		t.Rows = append(t.Rows, cells)
	}
	return t
}
