package agent_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/load"
	"github.com/venturi-net/venturi/internal/testenv"
)

// TestSeries runs real series between two agent processes, with the real load
// engine and every meter, twice with the same agents.
func TestSeries(t *testing.T) {
	ns := testenv.UnnamedNetns(t)
	near, _ := spawn(t, "agent")
	far, _ := spawn(t, "agent")
	end := func(addr string) host.Endpoint {
		return host.Endpoint{Machine: "m", Namespace: ns, Device: "lo", Addr: netip.MustParseAddr(addr), MTU: 65536}
	}
	for i, name := range []string{"tcp_lat", "udp_lat", "tcp_bw"} {
		t.Run(name, func(t *testing.T) {
			p := load.Plan{
				Token: uint64(i) + 77, Load: name, Size: 64, Flows: 1, Slice: 10 * time.Millisecond, Head: time.Millisecond,
				Arms: []load.Arm{
					{Name: "a", Ends: []load.Pair{{From: end("127.0.0.1"), To: end("127.0.0.2")}}, ServerPort: 7000, ClientPort: 8000},
					{Name: "b", Ends: []load.Pair{{From: end("127.0.0.1"), To: end("127.0.0.3")}}, ServerPort: 7000, ClientPort: 8000},
				},
				Schedule: [][]int{{0, 1}, {1, 0}, {1, 0}}, ClientCPU: -1, ServerCPU: -1,
			}
			if shut, err := far.Serve(t.Context(), p, []string{"tcp", "udp"}); err != nil || len(shut) > 0 {
				t.Fatal(err, shut)
			}
			slices, nearMeters, err := near.Run(t.Context(), p, []string{"cpu", "softnet", "links"})
			if err != nil {
				t.Fatal(err)
			}
			farMeters, err := far.Finish(t.Context(), p.Token)
			if err != nil {
				t.Fatal(err)
			}
			if len(slices) != 6 {
				t.Fatalf("%d slices, want 6", len(slices))
			}
			for _, s := range slices {
				if s.Err != nil || s.Latency == nil && s.Stream == nil {
					t.Errorf("slice %+v has no figure", s)
				}
			}
			sums := map[string]int64{}
			for _, m := range append(nearMeters, farMeters...) {
				if m.WallNs < 3*p.Slice.Nanoseconds() {
					t.Errorf("meter %s of %s covers %v, less than its three slices", m.Name, m.Arm, time.Duration(m.WallNs))
				}
				for key, v := range m.Values {
					sums[m.Arm+" "+key] += v
				}
			}
			transport := map[string]string{"udp_lat": "udp/in_datagrams"}[name]
			if transport == "" {
				transport = "tcp/in_segments"
			}
			for _, key := range []string{"a busy", "b busy", "a " + transport, "b " + transport, "a softnet/processed"} {
				if sums[key] <= 0 {
					t.Errorf("%s is %d: nothing was seen of the traffic", key, sums[key])
				}
			}
		})
	}
}
