package report

import (
	"io"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/internal/report/view"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/result"
)

// JSONFormat and JSONVersion identify the JSON report. The version grows when
// a field changes its meaning or goes; fields may be added without.
const (
	JSONFormat  = "venturi-report"
	JSONVersion = 1
)

// document is everything but the slices: those are in the record.
type document struct {
	Format   string            `json:"format"`
	Version  int               `json:"version"`
	Closing  []string          `json:"closing,omitempty"` // the answer, a sentence a path
	Header   result.Header     `json:"header"`
	Plan     result.Plan       `json:"plan"`
	Facts    []result.Facts    `json:"facts"`
	Warnings []result.Warning  `json:"warnings,omitempty"`
	Banners  []string          `json:"banners,omitempty"` // in words, as the table shows them
	Merged   *result.Merged    `json:"merged,omitempty"`  // of a long record: what was merged to read it
	Summary  *analysis.Summary `json:"summary"`
	End      *result.End       `json:"end,omitempty"` // missing: the record is incomplete
}

// writeJSON prints the whole summary in base units: ns, bytes, bit/s, ratios.
func writeJSON(w io.Writer, rec *result.Record, s *analysis.Summary, _ view.Options) error {
	var merged *result.Merged
	if rec.Merged.Rounds > 0 {
		merged = &rec.Merged
	}
	return sanitize.JSON(w, document{
		Format: JSONFormat, Version: JSONVersion, Closing: view.Answers(s),
		Header: rec.Header, Plan: rec.Plan, Facts: rec.Facts, Warnings: rec.Warnings,
		Banners: view.Banners(rec, s), Merged: merged, Summary: s, End: rec.End,
	})
}
