package kernel_test

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

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

// Real-time kernels are refused, by what "uname -v" says.
func TestRefusesRealTime(t *testing.T) {
	for version, refused := range map[string]bool{
		"#1 SMP PREEMPT_RT Debian 6.12.43-1 (2025-08-27)":      true,
		"#1 SMP PREEMPT_RT Tue Nov 4 12:00:00 UTC 2025":        true,
		"#1 SMP PREEMPT_DYNAMIC Debian 6.12.43-1 (2025-08-27)": false,
		"#1 SMP Debian 6.1.147-1 (2025-08-02)":                 false,
		"#1 PREEMPT Mon Jan 1 00:00:00 UTC 2024":               false,
	} {
		err := kernel.RefuseRealTime(version)
		if errors.Is(err, unix.EOPNOTSUPP) != refused || (err != nil) != refused {
			t.Errorf("%s: %v, want it refused: %v", version, err, refused)
		}
	}
}
