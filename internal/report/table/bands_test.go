package table

import (
	"slices"
	"testing"

	"github.com/venturi-net/venturi/internal/report/view"
)

// A row is left out of the band where it has nothing, and leaves its label to
// the next one.
func TestBandWithoutEmptyRows(t *testing.T) {
	b := view.Block{Labels: 2, Columns: make([]view.Column, 4), Rows: [][]string{
		{"a", "sw", "1", "2"}, {"", "hw", "3", "4"},
		{"a/b", "sw", "5", ""}, {"", "hw", "6", "7"},
		{"c/b", "sw", "8", ""},
	}}
	want := [][]string{{"a", "sw", "2"}, {"", "hw", "4"}, {"a/b", "hw", "7"}}
	if got := band(b, 3, 4).Rows; !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("rows are %q, want %q", got, want)
	}
}
