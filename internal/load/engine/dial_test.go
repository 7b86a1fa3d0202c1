package engine

import (
	"net/netip"
	"testing"

	"github.com/venturi-net/venturi/internal/host"

	"github.com/venturi-net/venturi/internal/load"
)

// A client dials its server's own address, or that of the Service before it; a background
// dials by the ports behind those of the load.
func TestArmTarget(t *testing.T) {
	pair := load.Pair{To: host.Endpoint{Addr: netip.MustParseAddr("10.244.1.7")}}
	arm := load.Arm{Ends: []load.Pair{pair}, ServerPort: 20000}
	if got := arm.Target(3); got != netip.MustParseAddrPort("10.244.1.7:20003") {
		t.Errorf("without a Service: %s", got)
	}
	for _, port := range []uint16{30005, 31007, 30900} { // a node's ports are in no order
		arm.Dial = append(arm.Dial, netip.AddrPortFrom(netip.MustParseAddr("192.0.2.2"), port))
	}
	if got := arm.Target(1); got != netip.MustParseAddrPort("192.0.2.2:31007") {
		t.Errorf("by a Service: %s", got)
	}
	plan := load.Plan{Load: "udp_lat", Flows: 2, Arms: []load.Arm{arm}, Background: &load.Background{Load: "udp_bw", Flows: 1}}
	if got := backgroundOf(plan).Arms[0].Target(0); got != netip.MustParseAddrPort("192.0.2.2:30900") {
		t.Errorf("the background: %s", got)
	}
}
