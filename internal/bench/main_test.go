package bench

import (
	"testing"

	"github.com/venturi-net/venturi/internal/compare"
	"github.com/venturi-net/venturi/internal/experiment"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/agenttest"
)

func TestMain(m *testing.M) {
	testenv.Main(m, testenv.Roles{"agent": agenttest.RunAgent, "fastpath": agenttest.RunFastPath})
}

// silent shows no progress.
type silent struct{}

func (silent) Event(experiment.Event) {}
func (silent) Say(string, ...any)     {}

func testHost(t *testing.T) compare.Host {
	t.Helper()
	testenv.Root(t)
	return compare.Host{Version: "test", LabName: testenv.LabName(), Program: testenv.Program(t), Watch: silent{}}
}
