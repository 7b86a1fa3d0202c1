package path_test

import (
	"runtime/debug"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/load"
)

// measures: every path can be measured by the loads that a comparison runs,
// with a flow for each of its pods.
func measures(t *testing.T, l *lab.Lab, list []variant) {
	// As agents do while they measure: it would wait for threads that wait for
	// each other.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	byFlows := map[int][]load.Arm{}
	for i, arm := range l.Arms {
		a := load.Arm{Name: list[i].spec}
		for k := range arm.Ends[0] {
			a.Ends = append(a.Ends, load.Pair{From: arm.Ends[0][k], To: arm.Ends[1][k]})
		}
		byFlows[list[i].pods] = append(byFlows[list[i].pods], a)
	}
	port := uint16(20000)
	for flows, arms := range byFlows {
		for _, name := range load.Default {
			t.Run(load.CellName(name, 64, flows, 0), func(t *testing.T) {
				p := load.Plan{
					Token: 0xfeed0000 + uint64(port), Load: name, Size: 64, Flows: flows,
					Slice: 20 * time.Millisecond, Head: 2 * time.Millisecond, ClientCPU: -1, ServerCPU: -1,
				}
				order := make([]int, len(arms))
				for i, a := range arms {
					order[i] = i
					a.ServerPort, a.ClientPort = int(port), int(port)+flows
					port += uint16(2 * flows)
					p.Arms = append(p.Arms, a)
				}
				p.Schedule = [][]int{order, order}
				measure(t, p)
			})
		}
	}
}

func measure(t *testing.T, p load.Plan) {
	server, err := load.Serve(p, nil)
	must(t, err)
	results, err := load.Run(t.Context(), p, nil)
	must(t, err)
	if err := server.Close(); err != nil {
		t.Errorf("server: %v", err)
	}
	if want := len(p.Schedule) * len(p.Arms); len(results) != want {
		t.Errorf("%d slices were measured, want %d", len(results), want)
	}
	for _, r := range results {
		name := p.Arms[r.Arm].Name
		switch {
		case r.Err != nil:
			t.Errorf("%s: %v", name, r.Err)
		case r.Latency != nil && r.Latency.Replies == 0:
			t.Errorf("%s: none of %d requests had a reply", name, r.Latency.Requests)
		case r.Stream != nil && r.Stream.RateMessages == 0:
			t.Errorf("%s: none of %d messages arrived", name, r.Stream.SentMessages)
		case r.Latency == nil && r.Stream == nil:
			t.Errorf("%s: nothing was measured", name)
		}
	}
}
