package bpf_test

import (
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/kernel"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/agenttest"
	"github.com/venturi-net/venturi/internal/vm"
)

// The verifiers of other kernels accept the programs, which do there what they do here.
func TestKernels(t *testing.T) {
	testenv.Root(t)
	testenv.NeedsLong(t)
	agenttest.UnderKernels(t, agenttest.DefaultKernel, func(t *testing.T, k kernel.Kernel) {
		said, code := agenttest.RunInGuest(t, vm.Config{Kernel: k, Memory: 2 << 10},
			agenttest.RunArgs("TestVXLANCarriesOut|TestVXLANCarriesIn|TestRoutedCarries|TestTranslatesWithoutChecksum|TestTranslatedApart|TestTranslatedEnds|TestNoNAT|TestLearnedAlone"))
		if code != 0 || strings.Contains(said, "no tests to run") {
			t.Errorf("the tests ended with code %d:\n%s", code, said)
		}
	})
}
