package bench

import (
	"testing"

	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/agenttest"
)

func TestMain(m *testing.M) {
	testenv.Main(m, testenv.Roles{"agent": agenttest.RunAgent, "fastpath": agenttest.RunFastPath})
}
