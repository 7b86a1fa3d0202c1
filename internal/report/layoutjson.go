package report

import (
	"encoding/json"
	"io"

	"github.com/venturi-net/venturi/result"
)

// LayoutJSONFormat and LayoutJSONVersion identify the JSON of a layout, as
// [JSONFormat] and [JSONVersion] do that of a report.
const (
	LayoutJSONFormat  = "venturi-tables"
	LayoutJSONVersion = 1
)

type layoutDocument struct {
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
	Tables   []tableDocument  `json:"tables"`
	Legend   []string         `json:"legend"`
	End      *result.End      `json:"end,omitempty"` // missing: the record is incomplete
}

type tableDocument struct {
	Title   string     `json:"title"`
	Rows    [][]string `json:"rows"`    // labels of each row
	Columns [][]string `json:"columns"` // labels of each column
	Cells   [][]entry  `json:"cells"`   // by row, then column
}

func writeLayoutJSON(w io.Writer, s *source, l Layout, grids []grid) error {
	sum := s.sums[s.host]
	d := layoutDocument{
		Format: LayoutJSONFormat, Version: LayoutJSONVersion, Study: l.Name, Title: l.Title, Question: l.Question,
		Header: s.rec.Header, Plan: s.rec.Plan, Facts: s.rec.Facts, Emulated: sum.Emulated, Warnings: s.rec.Warnings,
		Banners: banners(s.rec, sum), Legend: plainText(legend(s, grids)), End: s.rec.End,
	}
	for _, g := range grids {
		d.Tables = append(d.Tables, tableDocument{Title: g.title, Rows: g.rows, Columns: g.columns, Cells: g.cells})
	}
	out := json.NewEncoder(w)
	out.SetIndent("", "  ")
	out.SetEscapeHTML(false)
	return out.Encode(d)
}
