package report

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/venturi-net/venturi/internal/report/view"
	"github.com/venturi-net/venturi/result"
)

// figuresFolder holds the figures of the docs, and below it the records that
// `make figures` draws them from.
const figuresFolder = "../../docs/figures"

// The figures of the docs are what their records give.
func TestDocFigures(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(figuresFolder, "*", "*.svg"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no figures: %v", err)
	}
	for _, file := range files {
		rec, err := result.Open(filepath.Dir(file))
		if err != nil {
			t.Fatal(err)
		}
		var got bytes.Buffer
		name := filepath.Base(file[:len(file)-len(".svg")])
		if err := Write(&got, rec, view.Options{Format: "svg", Figure: name}); err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got.String()); diff != "" {
			t.Errorf("%s is not what its record gives; draw it anew with: make figures\n%s", file, diff)
		}
	}
}
