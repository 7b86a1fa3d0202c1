package tool

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/host"
)

// By itself ping stops its clock when the kernel has the reply. Beside our load, which
// stops when the program has it, it does the same.
func TestPingStopsItsClockAsOurs(t *testing.T) {
	for _, inProgram := range []bool{false, true} {
		args := pingClient(Job{Size: 56, Duration: 2 * time.Second, InProgram: inProgram,
			To: host.Endpoint{Addr: netip.MustParseAddr("10.0.0.2")}})
		if slices.Contains(args, "-U") != inProgram || args[len(args)-1] != "10.0.0.2" {
			t.Errorf("in the program %v: %q", inProgram, args)
		}
	}
}
