package bench

import (
	"strings"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/testenv/comparetest"

	"github.com/venturi-net/venturi/internal/feature"
)

// The check runs to its end; whether this machine is quiet enough for its limits is not
// asked here.
func TestFastChurnShort(t *testing.T) {
	h := comparetest.Host(t)
	if answer, err := feature.Programs.Ask(); answer != feature.Yes {
		t.Skipf("this kernel has no fast path: %v", err)
	}
	c := defaultChurn()
	c.phase = 200 * time.Millisecond
	var out strings.Builder
	limits, err := c.check(t.Context(), &out, h)
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(out.String(), "median"); lines != 5 || len(limits) != 3 {
		t.Errorf("%d limits, and\n%s", len(limits), &out)
	}
}
