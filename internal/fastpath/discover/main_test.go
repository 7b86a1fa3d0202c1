package discover_test

import (
	"os"
	"testing"

	"github.com/venturi-net/venturi/internal/guest"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/agenttest"
)

func TestMain(m *testing.M) {
	if code, ok := guest.Main(os.Args, os.Stderr); ok {
		os.Exit(code)
	}
	testenv.Main(m, testenv.Roles{"fastpath": agenttest.RunFastPath})
}
