package feature_test

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/venturi-net/venturi/internal/feature"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/verr"
)

func TestMain(m *testing.M) { testenv.Main(m, nil) }

// The kernels that the tests run on have all of it; a probe that says no there
// is wrong. That a probe leaves nothing is what TestMain looks for.
func TestProbes(t *testing.T) {
	testenv.Root(t)
	for _, p := range []*feature.Probe{
		feature.Veth, feature.Sysctls, feature.Bridge, feature.VXLAN, feature.MACVLAN, feature.NAT, feature.XTables,
	} {
		if answer, why := p.Ask(); answer != feature.Yes {
			t.Errorf("%s: %v: %v", p.Name, answer, why)
		}
		if p.Get == "" {
			t.Errorf("%s: the probe does not say how to get it", p.Name)
		}
	}
}

// A kernel without something answers an attempt with an error that the probe
// understands, and what was tried before it is gone.
func TestLacking(t *testing.T) {
	testenv.Root(t)
	p := &feature.Probe{Name: "warp device", Get: "wait for it", Try: func(n *netcfg.Namespace) error {
		if err := n.AddBridge("probe", nil, 1500); err != nil {
			return err
		}
		return fmt.Errorf("add warp: %w", syscall.EOPNOTSUPP)
	}}
	if err := feature.Require("cannot fly", p); verr.Code(err) != verr.Missing {
		t.Errorf("Require = %v, want an error with code %d", err, verr.Missing)
	}
}
