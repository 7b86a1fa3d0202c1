package report

import (
	"slices"
	"testing"
)

// A row is left out of the band where it has nothing, and leaves its label to
// the next one.
func TestBandWithoutEmptyRows(t *testing.T) {
	b := block{labels: 2, columns: make([]column, 4), rows: [][]string{
		{"a", "sw", "1", "2"}, {"", "hw", "3", "4"},
		{"a/b", "sw", "5", ""}, {"", "hw", "6", "7"},
		{"c/b", "sw", "8", ""},
	}}
	want := [][]string{{"a", "sw", "2"}, {"", "hw", "4"}, {"a/b", "hw", "7"}}
	if got := b.band(3, 4).rows; !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("rows are %q, want %q", got, want)
	}
}
