package node_test

import (
	"testing"

	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/agenttest"
)

// Nodes with devices that this machine's own kernel has not are tried under others.
func TestKernels(t *testing.T) {
	testenv.Root(t)
	testenv.NeedsLong(t)
	agenttest.PassUnderKernels(t, 2<<10, agenttest.RunArgs("TestEnable|TestShadow"))
}
