package view

import (
	"testing"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/result"
)

// A line says nothing but its size, so cells that differ in anything else are no sweep.
func TestIsSweep(t *testing.T) {
	for name, change := range map[string]func(*result.Cell){
		"": func(*result.Cell) {}, "flows": func(c *result.Cell) { c.Flows = 8 }, "threads": func(c *result.Cell) { c.Threads = 4 },
		"response": func(c *result.Cell) { c.Response = 16384 }, "rate": func(c *result.Cell) { c.Rate = 1e6 },
		"background": func(c *result.Cell) { c.Background = &result.BackgroundLoad{} },
	} {
		var cells []*analysis.Cell
		for size := 1; size <= SweepFrom; size++ {
			cells = append(cells, &analysis.Cell{Cell: result.Cell{Load: "tcp_rr", Size: size, Flows: 1}})
		}
		change(&cells[SweepFrom-1].Cell)
		if got := IsSweep(cells); got != (name == "") {
			t.Errorf("with another %q: %v", name, got)
		}
	}
}
