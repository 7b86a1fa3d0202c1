package agent

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/venturi-net/venturi/internal/agent/agentpb"
	"github.com/venturi-net/venturi/internal/load"
)

// TestIdleAgents: an agent that has no part in what is measured, as those in pods whose ends their
// node's agent opens, hears its controller often enough not to take it for dead: beside series too
// short for a pause, and beside slices longer than its timeout.
func TestIdleAgents(t *testing.T) {
	for name, c := range map[string]struct{ slice, series time.Duration }{
		"short series": {20 * time.Millisecond, beatEvery - 100*time.Millisecond},
		"long slices":  {3 * deadAfter, 10 * deadAfter},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, idle, live := watchTwo(t, func(client, idle *Client) (*Liveness, error) { return Watch(t.Context(), client, idle) })
				plan := load.Plan{Load: "tcp_lat", Slice: c.slice, Flows: 1, Arms: make([]load.Arm, 2)}
				for range 10 {
					end := live.begin(t.Context(), plan)
					client.start()
					stop := client.allow(plan)
					for began := time.Now(); time.Since(began) < c.series; {
						client.pause(t.Context())
						for left := c.slice; left > 0; left -= 20 * time.Millisecond {
							time.Sleep(20 * time.Millisecond)
							if idle.isSilent(time.Now()) {
								t.Fatalf("it has not heard the controller for %v", idle.silence())
							}
						}
					}
					stop()
					end()
					time.Sleep(20 * time.Millisecond) // shorter than until the next call
				}
				time.Sleep(2 * beatEvery)
				live.Close()
				time.Sleep(2 * deadAfter)
				if !idle.isSilent(time.Now()) {
					t.Error("a series keeps it for ever")
				}
			})
		})
	}
}

// TestManyClients: any agent of several between which series run may be the one that pauses, and the
// others hear the controller then: the first of them too.
func TestManyClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, idle, live := watchTwo(t, func(client, idle *Client) (*Liveness, error) { return WatchEach(t.Context(), idle, client) })
		defer live.Close()
		plan := load.Plan{Load: "tcp_lat", Slice: 20 * time.Millisecond, Flows: 1, Arms: make([]load.Arm, 1), Schedule: make([][]int, 75)}
		for range 10 {
			end := live.Quiet(t.Context(), plan, func() {})
			client.start()
			for began := time.Now(); time.Since(began) < 3*beatEvery/2; {
				client.pause(t.Context())
				time.Sleep(plan.Slice)
				if idle.isSilent(time.Now()) {
					t.Fatalf("it has not heard the controller for %v", idle.silence())
				}
			}
			end()
		}
	})
}

// TestManyFlowsOpen: while a thousand flows are opened, which takes seconds, an agent without a part in
// them hears its controller before it takes it for dead, and so does that of the client.
func TestManyFlowsOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, idle, live := watchTwo(t, func(client, idle *Client) (*Liveness, error) { return Watch(t.Context(), client, idle) })
		defer live.Close()
		time.Sleep(beatEvery * 19 / 10) // none is due yet
		plan := load.Plan{Load: "tcp_lat", Slice: 20 * time.Millisecond, Flows: 1024, Arms: make([]load.Arm, 4)}
		defer live.begin(t.Context(), plan)()
		client.start()
		defer client.allow(plan)()
		for began := time.Now(); time.Since(began) < 3*deadAfter; time.Sleep(20 * time.Millisecond) {
			for name, p := range map[string]*pulse{"client's": client, "idle": idle} {
				if p.isSilent(time.Now()) {
					t.Fatalf("%v after the series began, the %s agent has not heard the controller for %v", time.Since(began), name, p.silence())
				}
			}
		}
	})
}

// watchTwo watches over two agents: that of a client, and one that has no part in series.
func watchTwo(t *testing.T, watch func(client, idle *Client) (*Liveness, error)) (client, idle *pulse, live *Liveness) {
	t.Helper()
	client, idle = &pulse{resume: make(chan struct{}, 1), last: time.Now()}, &pulse{last: time.Now()}
	live, err := watch(pulsed(client, "client"), pulsed(idle, "idle"))
	if err != nil {
		t.Fatal(err)
	}
	return client, idle, live
}

// pulsed is an agent with this pulse, as its controller sees it.
func pulsed(p *pulse, machine string) *Client {
	line := &beatLine{}
	p.send = func(kind agentpb.Beat_Kind) error {
		line.fromAgent <- kind
		return nil
	}
	line.receive = p.hear
	return &Client{api: line, machine: machine, timeoutScale: 1}
}
