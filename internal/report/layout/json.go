package layout

import (
	"io"

	"github.com/venturi-net/venturi/internal/report/view"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/result"
)

// JSONFormat and JSONVersion identify the JSON of a layout, as
// report.JSONFormat and report.JSONVersion do that of a report.
const (
	JSONFormat  = "venturi-tables"
	JSONVersion = 1
)

type document struct {
	Format   string           `json:"format"`
	Version  int              `json:"version"`
	Study    string           `json:"study"`
	Title    string           `json:"title"`
	Question string           `json:"question,omitempty"`
	Header   result.Header    `json:"header"`
	Plan     result.Plan      `json:"plan"`
	Facts    []result.Facts   `json:"facts"`
	Emulated bool             `json:"emulated,omitempty"` // the machine's CPU is; of a path the plan says it
	Warnings []result.Warning `json:"warnings,omitempty"`
	Banners  []string         `json:"banners,omitempty"`
	Wires    []wireDocument   `json:"wires,omitempty"` // the records, of tables that go by wires; what is above is of the first
	Tables   []tableDocument  `json:"tables"`
	Legend   []string         `json:"legend"`
	// FastPaths is what became of the packets of the paths that have one, load by load.
	FastPaths []fastDocument `json:"fast_paths,omitempty"`
	End       *result.End    `json:"end,omitempty"` // missing: the record is incomplete
}

// wireDocument is what the record of one wire says beside figures.
type wireDocument struct {
	Wire     string           `json:"wire"`
	Header   result.Header    `json:"header"`
	Plan     result.Plan      `json:"plan"`
	Facts    []result.Facts   `json:"facts"`
	Emulated bool             `json:"emulated,omitempty"`
	Warnings []result.Warning `json:"warnings,omitempty"`
	Banners  []string         `json:"banners,omitempty"`
	End      *result.End      `json:"end,omitempty"`
}

type tableDocument struct {
	Title   string     `json:"title"`
	Rows    [][]string `json:"rows"`    // labels of each row
	Columns [][]string `json:"columns"` // labels of each column
	Cells   [][]entry  `json:"cells"`   // by row, then column
}

func writeLayoutJSON(w io.Writer, all sources, l Layout, grids []grid) error {
	s := all[0]
	sum := s.sums[s.host]
	d := document{
		Format: JSONFormat, Version: JSONVersion, Study: l.Name, Title: l.Title, Question: l.Question,
		Header: s.rec.Header, Plan: s.rec.Plan, Facts: s.rec.Facts, Emulated: sum.Emulated, Warnings: s.rec.Warnings,
		Banners: view.Banners(s.rec, sum), Legend: view.PlainText(legend(all, grids)), End: s.rec.End,
	}
	for _, s := range all {
		if s.wire == "" {
			continue
		}
		sum := s.sums[s.host]
		d.Wires = append(d.Wires, wireDocument{
			Wire: s.wire, Header: s.rec.Header, Plan: s.rec.Plan, Facts: s.rec.Facts, Emulated: sum.Emulated,
			Warnings: s.rec.Warnings, Banners: view.Banners(s.rec, sum), End: s.rec.End,
		})
	}
	d.FastPaths = all.fastDocuments()
	for _, g := range grids {
		d.Tables = append(d.Tables, tableDocument{Title: g.title, Rows: g.rows, Columns: g.columns, Cells: g.cells})
	}
	return sanitize.JSON(w, d)
}
