package kernel_test

import (
	"testing"

	"github.com/venturi-net/venturi/internal/fastpath/kernel"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/testenv"
)

// Where the other tests of this package pass, the probe finds all that programs need: else those of fast
// paths would be left out.
func TestProbePrograms(t *testing.T) {
	testenv.Root(t)
	n, err := netcfg.NewAnonymous()
	testenv.Must(t, err)
	defer n.Close()
	testenv.Must(t, kernel.ProbePrograms(n))
}
