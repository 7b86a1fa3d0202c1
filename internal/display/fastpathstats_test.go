package display

import (
	"bytes"
	"encoding/json"
	"net/netip"
	"testing"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/fastpath/node"
)

// Stats give the reasons by their packets, and the pods and peers by their slow flows, no more than
// were asked for.
func TestFastPathStats(t *testing.T) {
	pod := func(device, addr string, n fastpath.FlowCount) fastpath.PodFlows {
		return fastpath.PodFlows{Device: device, Addr: netip.MustParseAddr(addr), FlowCount: n}
	}
	status := node.Status{
		Enabled: true,
		Stats: []fastpath.Stat{
			{Count: bpf.CarriedOut, Packets: 300, Bytes: 30000}, {Count: bpf.CarriedIn, Packets: 500, Bytes: 50000},
			{Count: bpf.SlowFlags, Packets: 20, Bytes: 1200}, {Count: bpf.SlowUnknown, Packets: 100, Bytes: 9000},
			{Count: bpf.PerDirection + bpf.SlowUnknown, Packets: 80, Bytes: 7000},
		},
		Pods: []fastpath.PodFlows{
			pod("veth1", "10.244.1.2", fastpath.FlowCount{Flows: 5, Carried: 5}),
			pod("veth2", "10.244.1.3", fastpath.FlowCount{Flows: 9, Carried: 3, OneWay: 1, Learning: 4, Stale: 2}),
			pod("veth3", "10.244.1.4", fastpath.FlowCount{Flows: 2, Carried: 2, OneWay: 1}),
		},
		Peers: []fastpath.PeerFlows{{Addr: "192.0.10.2", FlowCount: fastpath.FlowCount{Flows: 16, Carried: 10, OneWay: 2, Learning: 4, Stale: 2}}},
	}
	const want = `of 1000 packets, 80.0 % were carried

SLOW BECAUSE                PACKETS  SHARE   OUT OF PODS  INTO PODS
its flow is not known yet   180      18.0 %  100          80
opens or ends a connection  20       2.0 %   20           0

POD    ADDRESS     FLOWS  CARRIED  ONE WAY  LEARNING  STALE
veth2  10.244.1.3  9      3        1        4         2
veth3  10.244.1.4  2      2        1        0         0
and 1 more

PEER        FLOWS  CARRIED  ONE WAY  LEARNING  STALE
192.0.10.2  16     10       2        4         2
`
	var out bytes.Buffer
	if err := NewFastPathStats(status, 2).Print(&out); err != nil || out.String() != want {
		t.Errorf("%v\n%s\nwant\n%s", err, &out, want)
	}
	out.Reset()
	dual := node.Status{Enabled: true, Stats: status.Stats[:2], IPv6: &node.Status{Stats: []fastpath.Stat{
		{Count: bpf.CarriedIn, Packets: 60, IPv6: true}, {Count: bpf.PerDirection + bpf.SlowNotIPv4, Packets: 40, IPv6: true}}}}
	const both = `of 800 packets, 100.0 % were carried

IPv6:
of 100 packets, 60.0 % were carried

SLOW BECAUSE  PACKETS  SHARE   OUT OF PODS  INTO PODS
not IPv6      40       40.0 %  0            40
`
	if err := NewFastPathStats(dual, 2).Print(&out); err != nil || out.String() != both {
		t.Errorf("%v\n%s\nwant\n%s", err, &out, both)
	}
	out.Reset()
	if err := PrintJSON(&out, NewFastPathStats(node.Status{}, 2)); err != nil {
		t.Fatal(err)
	}
	var empty map[string]any
	if err := json.Unmarshal(out.Bytes(), &empty); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"packets", "carried", "reasons", "pods", "peers"} {
		if empty[key] == nil {
			t.Errorf("before the start there is no %s: %s", key, &out)
		}
	}
}
