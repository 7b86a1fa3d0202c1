package verify

import (
	"bytes"
	"testing"

	"github.com/venturi-net/venturi/internal/feature"
)

// TestLosslessShort is the check of the daemon's comings and goings with so little
// traffic that a busy machine carries it: nothing may be lost.
func TestLosslessShort(t *testing.T) {
	h := host(t)
	if answer, err := feature.TCX.Ask(); answer != feature.Yes {
		t.Skipf("this kernel has no fast path: %v", err)
	}
	c := DefaultLossless()
	c.Services, c.Cycles, c.Alone, c.Datagrams, c.Streams, c.Rate, c.Still = 10, 4, 1, 2000, 2, 1<<20, 0
	var out bytes.Buffer
	bars, err := c.check(t.Context(), &out, h)
	if err == nil {
		err = conclude(&out, "something is lost", bars)
	}
	t.Logf("\n%s", out.String())
	if err != nil {
		t.Fatal(err)
	}
}
