package meter_test

import (
	"testing"

	"github.com/venturi-net/venturi/internal/meter"
	"github.com/venturi-net/venturi/internal/testenv"
)

func TestMain(m *testing.M) {
	meter.Root = testenv.Root
	meter.UnnamedNetns = testenv.UnnamedNetns
	testenv.Main(m, nil)
}
