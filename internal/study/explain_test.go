package study

import (
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/compare"
	"github.com/venturi-net/venturi/result"
)

// What stands beside a load is told with its rate, or with its share of what the path carries.
func TestVariant(t *testing.T) {
	for want, b := range map[string]result.BackgroundLoad{
		"beside udp_bw@50%,":  {Load: "udp_bw", Share: 0.5, Cores: "same"},
		"beside udp_bw@100k,": {Load: "udp_bw", Rate: 100_000, Cores: "same"},
		"beside udp_bw,":      {Load: "udp_bw", Cores: "same"},
	} {
		if got := variant(compare.CellSpec{Load: "ping", Background: &b}); !strings.Contains(got, want) {
			t.Errorf("%q, want %q in it", got, want)
		}
	}
}
