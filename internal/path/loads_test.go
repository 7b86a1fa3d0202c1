package path_test

import (
	"errors"
	"fmt"
	"runtime/debug"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/agent"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/load"
	"github.com/venturi-net/venturi/internal/load/engine"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/result"
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
	port := 20000
	for flows, arms := range byFlows {
		for _, name := range append(load.Default[:len(load.Default):len(load.Default)], "tcp_crr") {
			t.Run(load.CellName(result.Cell{Load: name, Size: 64, Flows: flows}), func(t *testing.T) {
				left, slice := arms, 20*time.Millisecond
				var failed error
				// On a busy machine a slice can pass without its receiver having run.
				for range 3 {
					left, failed = measure(t, planOf(name, flows, slice, left, &port))
					slice *= 5
					if failed == nil {
						return
					}
				}
				t.Error(failed)
			})
		}
	}
}

// connectPorts is the first of the ports that clients go round which connect for each
// request. All arms have the same: each is served at a port of its own.
const connectPorts = 10000

// planOf plans two slices for each arm; port is the first that is free.
func planOf(name string, flows int, slice time.Duration, arms []load.Arm, port *int) load.Plan {
	p := load.Plan{
		Token: 0xfeed0000 + uint64(*port), Load: name, Size: 64, Flows: flows,
		Slice: slice, Head: slice / 10, ClientCPU: -1, ServerCPU: -1,
	}
	var order []int
	for i, a := range arms {
		order = append(order, i)
		a.ServerPort, a.ClientPort = *port, *port+flows
		if name == "tcp_crr" {
			a.ClientPort = connectPorts
		}
		*port += 2 * flows
		p.Arms = append(p.Arms, a)
	}
	p.Schedule = [][]int{order, order}
	return p
}

// measure runs a plan and gives the arms that it could not measure, and why.
func measure(t *testing.T, p load.Plan) (failed []load.Arm, why error) {
	t.Helper()
	guests := agent.NewGuests(nil)
	server, err := engine.Serve(p, nil, guests)
	testenv.Must(t, err)
	results, err := engine.Run(t.Context(), p, nil, guests)
	testenv.Must(t, err)
	problems := map[int]error{}
	for _, r := range results {
		switch {
		case r.Err != nil:
			problems[r.Arm] = r.Err
		case r.Latency != nil && r.Latency.Replies == 0:
			problems[r.Arm] = fmt.Errorf("none of %d requests had a reply", r.Latency.Requests)
		case r.Stream != nil && r.Stream.RateMessages == 0:
			problems[r.Arm] = fmt.Errorf("none of %d messages arrived", r.Stream.SentMessages)
		}
	}
	if err := server.Close(); err != nil && len(problems) == 0 {
		t.Errorf("server: %v", err)
	}
	if want := len(p.Schedule) * len(p.Arms); len(results) != want && len(problems) == 0 {
		t.Errorf("%d slices were measured, want %d", len(results), want)
	}
	for i, problem := range problems {
		failed = append(failed, p.Arms[i])
		why = errors.Join(why, fmt.Errorf("%s: %w", p.Arms[i].Name, problem))
	}
	return failed, why
}
