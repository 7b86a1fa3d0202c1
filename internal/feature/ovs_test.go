package feature_test

import (
	"testing"

	"github.com/venturi-net/venturi/internal/feature"
	"github.com/venturi-net/venturi/internal/testenv"
)

// Kernels are built with or without what Open vSwitch has in them. The probes
// can tell, and say how to get it.
func TestOVSProbes(t *testing.T) {
	testenv.Root(t)
	for _, p := range []*feature.Probe{feature.OVSDatapath, feature.Geneve} {
		answer, why := p.Ask()
		if answer == feature.Unknown || answer == feature.No && why == nil || p.Get == "" {
			t.Errorf("%s: %v: %v", p.Name, answer, why)
		}
	}
}
