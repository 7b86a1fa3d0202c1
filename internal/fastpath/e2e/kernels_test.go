package e2e

import (
	"sync"
	"testing"

	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/agenttest"
)

// The tests run once more in virtual machines under other kernels, as this very binary: for the
// netkit and ipip devices, VLANs and bonds, which this machine's own kernel has not, for tc filters in the
// place of tcx, and for what is set for a whole machine.
func TestKernels(t *testing.T) {
	testenv.Root(t)
	testenv.NeedsLong(t)
	agenttest.PassUnderKernels(t, 3<<10, guestArgs())
}

// useHooks has something at each hook of netfilter, in the guest's own namespace. The kernel patches its
// code when the first chain comes to a hook, and when the last one goes; where emulated CPUs run that code
// meanwhile, it panics (int3).
var useHooks = sync.OnceValue(func() error {
	return runScript(`
		for family in inet bridge; do
			for hook in prerouting input forward output postrouting; do
				nft "table $family used { chain $hook { type filter hook $hook priority 0; }; }"
			done
		done
		for hook in ingress egress; do
			nft "table netdev used { chain $hook { type filter hook $hook device lo priority 0; }; }"
		done`)
})

// guestArgs choose what runs in a guest.
func guestArgs() []string {
	return agenttest.RunArgs("TestFastPathConntrackFull|TestFastPathFollowsChanges|TestFastPathForgetsResetConnections|TestFastPathLossless|TestFastPathOneDaemon|TestFastPathOnStackedWires|TestFastPathReplays|TestFastPathTaggedTwin",
		"TestNetkitTopology|TestNetkitHooks|TestNetkitDrops|TestFastPathCarries|TestFastPathObeysNewRules|TestFastPathCounters|TestFastPathRefuses"+
			"|TestFastPathBehindProgram|TestFastPathWithoutDaemon|TestFastPathReplaysServices"+
			"|TestFastPathFollowsAddresses|TestFastPathHeedsNoIdleTalk|TestFastPathConnectionsLiveOnThroughChanges"+
			"|TestFastPathCarriesSegments|TestFastPathSegmentsFollowRules|TestFastPathOfAnotherVersion|TestFastPathWithoutPins|TestFastPathHeldUp|TestFastPathGenerated"+
			"|TestFastPathReplaysOneEnd|TestFastPathFollowsChangesOneEnd|TestFastPathOneDaemonOneEnd"+
			"|TestFastPathCarriesIPv6|TestFastPathFollowsChangesOfIPv6|TestFastPathCarriesIPv6InTunnel|TestFastPathFollowsChangesOfIPv6InTunnel"+
			"|TestFastPathServicesOverIPv6|TestFastPathServicesOverIPv6InTunnel|TestFastPathServicesFollowChangesOfIPv6|TestFastPathForgetsResetConnectionsOfIPv6")
}
