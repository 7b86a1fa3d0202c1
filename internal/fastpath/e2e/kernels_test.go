package e2e

import (
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/kernel"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/agenttest"
	"github.com/venturi-net/venturi/internal/vm"
)

// The tests run once more in virtual machines under other kernels, as this very binary: for the
// netkit devices, which this machine's own kernel has not, for tc filters in the place of tcx, and
// for what is set for a whole machine.
func TestKernels(t *testing.T) {
	testenv.Root(t)
	testenv.NeedsLong(t)
	agenttest.UnderKernels(t, agenttest.DefaultKernel, func(t *testing.T, k kernel.Kernel) {
		said, code := agenttest.RunInGuest(t, vm.Config{Kernel: k, Memory: 3 << 10}, guestArgs())
		if code != 0 || strings.Contains(said, "no tests to run") {
			t.Errorf("the tests ended with code %d:\n%s", code, said)
		}
	})
}

// guestArgs choose what runs in a guest.
func guestArgs() []string {
	run := "TestFastPathConntrackFull"
	if agenttest.ChosenPart() == agenttest.AllTests {
		run += "|TestNetkitWays|TestNetkitHooks|TestNetkitDrops|TestFastPathCarries|TestFastPathObeysNewRules|TestFastPathRefuses" +
			"|TestFastPathBehindProgram|TestFastPathWithoutDaemon|TestFastPathReplays|TestFastPathReplaysServices"
	}
	return agenttest.RunArgs(run)
}
