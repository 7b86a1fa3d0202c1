package bench

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/testenv/comparetest"

	"github.com/venturi-net/venturi/internal/feature"
)

// Every program of both paths is timed, with one flow and with many in turn, and no
// program takes less time than none.
func TestFastProgramsShort(t *testing.T) {
	h := comparetest.Host(t)
	if answer, err := feature.TCX.Ask(); answer != feature.Yes {
		t.Skipf("this kernel has no fast path: %v", err)
	}
	c := programBench{series: 3, rounds: 1, slice: 10 * time.Millisecond, seed: 1}
	if os.Getenv("VENTURI_BENCH_PROGRAMS") != "" {
		c = defaultPrograms(1)
	}
	var out bytes.Buffer
	limits, err := c.check(t.Context(), &out, h)
	t.Logf("\n%s", out.String())
	if err != nil {
		t.Fatal(err)
	}
	if want := 2 * 2 * len(programLimits); len(limits) != want { // each with one for its interval, of either path
		t.Errorf("%d limits, want %d", len(limits), want)
	}
	lines := 0
	for line := range strings.Lines(out.String()) {
		f := strings.Fields(line)
		if len(f) < 5 || !strings.HasPrefix(f[3], "from_") {
			continue
		}
		lines++
		if f[4] < "1.1" {
			t.Errorf("%s: no real program takes so little", line)
		}
	}
	if want := 2 * 2 * len(programLoads); lines != want {
		t.Errorf("%d programs were timed, want %d", lines, want)
	}
}
