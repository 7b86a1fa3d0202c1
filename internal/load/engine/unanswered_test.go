package engine

import (
	"net/netip"
	"testing"

	"github.com/venturi-net/venturi/internal/host"

	"github.com/venturi-net/venturi/internal/load"
)

// That nothing answered to an arm is not told of another that dials the same ends otherwise.
func TestUnansweredArm(t *testing.T) {
	ends := []load.Pair{{To: host.Endpoint{Addr: netip.MustParseAddr("10.244.1.7")}}}
	service := []netip.AddrPort{netip.MustParseAddrPort("10.96.0.1:20000")}
	h := &localClient{
		plan:     &load.Plan{Arms: []load.Arm{{Ends: ends, Dial: service}, {Ends: ends}, {Ends: ends, Dial: service}}},
		openErrs: []error{errNoAnswer, nil, nil},
	}
	if err := h.unanswered(1); err != nil {
		t.Errorf("dialed directly: %v", err)
	}
	if err := h.unanswered(2); err != errNoAnswer {
		t.Errorf("dialed the same way: %v", err)
	}
}
