package doctor

import (
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/host"
)

// The advice to double the budget begins with what the machine has.
func TestSqueezeDoublesBudget(t *testing.T) {
	for budget, want := range map[string]string{"300": ": venturi knob set net.budget 600", "1200": ": venturi knob set net.budget 2400", "": " step by step"} {
		r := healthy()
		r.Sysctls["net.core.netdev_budget"] = budget
		r.cpu(0, func(c *host.CPUCounters) { c.Squeezed += 100; c.NetRX += 900 })
		found := Judge(r.View, Options{}).Findings
		if len(found) != 1 || !strings.HasSuffix(found[0].Do, want) {
			t.Errorf("with a budget of %q: found %+v, want advice that ends with %q", budget, found, want)
		}
	}
}
