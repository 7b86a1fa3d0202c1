// Package comparetest is what tests share that make comparisons from outside of compare.
package comparetest

import (
	"io"
	"testing"

	"github.com/venturi-net/venturi/internal/compare"
	"github.com/venturi-net/venturi/internal/progress"
	"github.com/venturi-net/venturi/internal/testenv"
)

// Host runs comparisons in a lab of the test's own, and shows no progress. The test needs
// root.
func Host(t *testing.T) compare.Host {
	t.Helper()
	testenv.Root(t)
	return compare.Host{Version: "test", LabName: testenv.LabName(), Program: testenv.Program(t), Watch: progress.Silent(io.Discard)}
}
