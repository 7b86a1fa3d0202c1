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

// What a CPU counted before it came online between the readings is not of the time between them.
func TestCPUComesOnline(t *testing.T) {
	r := healthy()
	r.cpu(4, func(c *host.CPUCounters) {
		*c = host.CPUCounters{Total: 1000, Softirq: 900, Steal: 900, Packets: 1e6, Dropped: 5, Squeezed: 700, NetRX: 900}
	})
	if found := Judge(r.View, Options{}).Findings; len(found) > 0 {
		t.Errorf("found %+v", found)
	}
	// Nor does it hide what the others do.
	r.cpu(0, func(c *host.CPUCounters) { c.Squeezed += 100; c.NetRX += 900 })
	r.cpu(4, func(c *host.CPUCounters) { c.NetRX = 1e9 })
	if found := Judge(r.View, Options{}).Findings; len(found) != 1 || found[0].Code != "time-squeeze" {
		t.Errorf("found %+v, want time-squeeze", found)
	}
}
