package agent

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/venturi-net/venturi/internal/load"
)

// stop keeps everything from passing for so long.
func (l *beatLine) stop(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stall = time.Now().Add(d)
}

// emulated is an agent whose CPU is, and the line to it.
func emulated(machine string) (*Client, *beatLine) {
	c := pulsed(&pulse{last: time.Now()}, machine)
	c.timeoutScale = 10
	return c, c.api.(*beatLine)
}

// TestSlowLine: while an agent takes longer to answer than others wait for a word of their controller, which
// is within its limits where its CPU is emulated, the others hear him; and it is not lost.
func TestSlowLine(t *testing.T) {
	plan := load.Plan{Load: "tcp_lat", Slice: 20 * time.Millisecond, Flows: 1, Arms: make([]load.Arm, 2)}
	stall := 7 * answerBy
	for name, run := range map[string]func(ctx context.Context, live *Liveness, client *pulse, slow *beatLine){
		"before a series": func(ctx context.Context, live *Liveness, _ *pulse, slow *beatLine) {
			slow.stop(stall)
			time.Sleep(beatEvery * 3 / 2) // it is called
			live.begin(ctx, plan)()
		},
		"while flows are opened": func(ctx context.Context, live *Liveness, client *pulse, slow *beatLine) {
			defer live.begin(ctx, plan)()
			client.start()
			defer client.allow(plan)()
			slow.stop(stall)
			time.Sleep(stall)
		},
		"in a pause": func(ctx context.Context, live *Liveness, client *pulse, slow *beatLine) {
			defer live.begin(ctx, plan)()
			client.start()
			defer client.allow(plan)()
			time.Sleep(beatEvery)
			slow.stop(stall)
			client.pause(ctx)
		},
		"between driven slices": func(ctx context.Context, live *Liveness, _ *pulse, slow *beatLine) {
			defer live.Quiet(ctx, plan, func() {})()
			time.Sleep(beatEvery)
			slow.stop(stall)
			(&drivePauser{ctx, live}).Pause()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, idle := &pulse{resume: make(chan struct{}, 1), last: time.Now()}, &pulse{last: time.Now()}
				of, slow := emulated("slow")
				live, err := Watch(t.Context(), pulsed(client, "client"), pulsed(idle, "idle"), of)
				if err != nil {
					t.Fatal(err)
				}
				defer live.Close()
				began, ended := time.Now(), make(chan struct{})
				go func() {
					defer close(ended)
					run(t.Context(), live, client, slow)
				}()
				for over := false; !over; {
					select {
					case <-ended:
						over = true
					case <-time.After(20 * time.Millisecond):
					}
					for name, p := range map[string]*pulse{"client's": client, "idle": idle} {
						if p.isSilent(time.Now()) && !t.Failed() {
							t.Errorf("after %v the %s agent has heard nothing for %v", time.Since(began), name, p.silence())
						}
					}
				}
				if took := time.Since(began); took < stall {
					t.Errorf("after %v nobody waits for the slow agent any more", took)
				}
				if why := live.lostAgent(); why != nil {
					t.Error(why)
				}
			})
		})
	}
}

// TestSlowLines: lines that are slow all the time, and not in step, keep a series waiting for the time that two
// answers may take, not until all of them are quiet by chance.
func TestSlowLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, line := emulated("first")
		second, other := emulated("second")
		line.way, other.way = 3200*time.Millisecond, 5200*time.Millisecond // called at 7 and 11 s, both are quiet after 76 s
		live, err := Watch(t.Context(), first, second)
		if err != nil {
			t.Fatal(err)
		}
		defer live.Close()
		defer live.Quiet(t.Context(), load.Plan{Slice: 20 * time.Millisecond, Flows: 1}, func() {})()
		time.Sleep(beatEvery)
		began := time.Now()
		(&drivePauser{t.Context(), live}).Pause()
		if took, most := time.Since(began), 2*first.timeoutScale*answerBy; took > most {
			t.Errorf("the pause took %v, more than %v", took, most)
		}
	})
}
