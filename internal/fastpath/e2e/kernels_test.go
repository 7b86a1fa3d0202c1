package e2e

import (
	"testing"

	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/agenttest"
)

// The tests run once more in virtual machines under other kernels, as this very binary: for the
// netkit devices, which this machine's own kernel has not, for tc filters in the place of tcx, and
// for what is set for a whole machine.
func TestKernels(t *testing.T) {
	testenv.Root(t)
	testenv.NeedsLong(t)
	agenttest.PassUnderKernels(t, 3<<10, guestArgs())
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
