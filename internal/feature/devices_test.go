package feature_test

import (
	"testing"

	"github.com/venturi-net/venturi/internal/feature"
	"github.com/venturi-net/venturi/internal/testenv"
)

// Not every kernel has these kinds of devices. The probes can tell, and say how
// to get them.
func TestDeviceProbes(t *testing.T) {
	testenv.Root(t)
	for _, p := range []*feature.Probe{
		feature.IPIP, feature.Encap, feature.VLAN, feature.QinQ, feature.IPVLAN, feature.IPVLANL3S, feature.Netkit,
	} {
		answer, why := p.Ask()
		if answer == feature.Unknown || answer == feature.No && why == nil || p.Get == "" {
			t.Errorf("%s: %v: %v", p.Name, answer, why)
		}
		t.Logf("%s: %v (%v)", p.Name, answer, why)
	}
}
