package display

import (
	"bytes"
	"net/netip"
	"testing"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/discover"
)

// A plan names what the wire stands on.
func TestFastPathPlanNamesLayers(t *testing.T) {
	p := &discover.Plan{
		Kind: fastpath.Routed, Wire: "eth0.100", Layers: "VLAN 100 on eth0",
		Pods:  []discover.PlannedPod{{Device: "veth2", Addr: "10.244.0.2", Outlook: discover.Carried}},
		Peers: []discover.PlannedPeer{{Addr: netip.MustParseAddr("192.0.2.2"), Outlook: discover.Slow, Reason: "x"}},
	}
	const rest = `
POD    ADDRESS     FLOWS    WHY
veth2  10.244.0.2  carried  

PEER       ROUTES  FLOWS  WHY
192.0.2.2  -       slow   x
`
	for kind, want := range map[string]string{
		fastpath.Routed: "to other nodes by eth0.100 (VLAN 100 on eth0), without encapsulation\n",
		fastpath.IPIP:   "to other nodes by tunnel0: IPIP over eth0.100 (VLAN 100 on eth0)\n",
		fastpath.Geneve: "to other nodes by tunnel0, tunnel1 and 2 more: Geneve (VNI 1, UDP port 8472) over eth0.100 (VLAN 100 on eth0)\n",
		fastpath.VXLAN:  "to other nodes by tunnel0: VXLAN (VNI 1, UDP port 8472) over eth0.100 (VLAN 100 on eth0)\n",
		fastpath.VXLAN6: "IPv6 to other nodes by tunnel0: VXLAN over IPv6 (VNI 1, UDP port 8472) over eth0.100 (VLAN 100 on eth0)\n",
	} {
		if p.Kind = kind; kind != fastpath.Routed {
			p.Tunnel, p.VNI, p.Port, p.Tunnels = "tunnel0", 1, 8472, []string{"tunnel0", "tunnel1", "tunnel2", "tunnel3"}
		}
		var out bytes.Buffer
		if err := PrintFastPathPlan(&out, p); err != nil || out.String() != want+rest {
			t.Errorf("%s: %v\n%s\nwant\n%s", kind, err, &out, want+rest)
		}
	}
}
