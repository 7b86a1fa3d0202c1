package agent

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"github.com/venturi-net/venturi/internal/agent/agentpb"
	"github.com/venturi-net/venturi/internal/load"
)

// beatLine is an agent and the line to it, as their controller sees them.
type beatLine struct {
	agentpb.AgentClient // nil: only beats are asked for
	grpc.ClientStream   // nil
	ctx                 context.Context
	toAgent             chan *agentpb.Beat
	fromAgent           chan agentpb.Beat_Kind

	mu      sync.Mutex
	way     time.Duration // of a message, each way
	stall   time.Time     // until when nothing passes
	receive func(*agentpb.Beat)
}

func (l *beatLine) Beats(ctx context.Context, _ ...grpc.CallOption) (agentpb.Agent_BeatsClient, error) {
	l.ctx, l.toAgent, l.fromAgent = ctx, make(chan *agentpb.Beat, 100), make(chan agentpb.Beat_Kind, 100)
	go func() {
		for {
			select {
			case beat := <-l.toAgent:
				l.delay()
				l.receive(beat)
			case <-ctx.Done():
				return
			}
		}
	}()
	return l, nil
}

// delay waits as long as a message is on its way.
func (l *beatLine) delay() {
	l.mu.Lock()
	wait := max(l.way, time.Until(l.stall))
	l.mu.Unlock()
	time.Sleep(wait)
}

func (l *beatLine) Context() context.Context { return l.ctx }

func (l *beatLine) Send(b *agentpb.Beat) error {
	l.toAgent <- b
	return nil
}

func (l *beatLine) Recv() (*agentpb.Beat, error) {
	select {
	case kind := <-l.fromAgent:
		l.delay()
		return &agentpb.Beat{Kind: kind}, nil
	case <-l.ctx.Done():
		return nil, status.FromContextError(l.ctx.Err()).Err()
	}
}

// TestSilentSlices: while slices run the controller calls nobody, and no answer is on its way; also
// where the line is slow, where a series takes a while to begin, and where the server's line has
// just stalled.
func TestSilentSlices(t *testing.T) {
	for name, c := range map[string]struct{ way, stall, opening time.Duration }{
		"fast": {}, "200 ms": {way: 100 * time.Millisecond}, "stalls": {stall: 1900 * time.Millisecond}, "slow to open": {opening: 800 * time.Millisecond},
		"200 ms and slow to open": {way: 100 * time.Millisecond, opening: 800 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const slice = 20 * time.Millisecond
				var mu sync.Mutex
				running := false // a slice
				near, far := &beatLine{way: c.way}, &beatLine{way: c.way}
				p := &pulse{resume: make(chan struct{}, 1)}
				for machine, l := range map[string]*beatLine{"client": near, "server": far} {
					speak := func(what string, kind agentpb.Beat_Kind) {
						mu.Lock()
						defer mu.Unlock()
						if running {
							t.Errorf("the %s's agent %s %v beside a slice", machine, what, kind)
						}
					}
					answer := func(kind agentpb.Beat_Kind) error {
						time.AfterFunc(time.Millisecond, func() { // it passes other programs first
							speak("sends", kind)
							l.fromAgent <- kind
						})
						return nil
					}
					l.receive = func(beat *agentpb.Beat) {
						speak("hears", beat.GetKind())
						if l == near {
							p.hear(beat)
						} else if beat.GetKind() == agentpb.Beat_CALL {
							_ = answer(agentpb.Beat_ANSWER)
						}
					}
					if l == near {
						p.send = answer
					}
				}
				live, err := Watch(t.Context(), &Client{api: near, machine: "a", timeoutScale: 1}, &Client{api: far, machine: "b", timeoutScale: 1})
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(beatEvery + 500*time.Millisecond) // they are called while nothing runs
				plan := load.Plan{Load: "tcp_lat", Slice: slice, Flows: 1, Arms: make([]load.Arm, 2)}
				end := live.begin(t.Context(), plan)
				time.Sleep(c.way) // that it is to run
				p.start()
				time.Sleep(c.opening)
				stop := p.allow(plan)
				began := time.Now()
				for n := 0; time.Since(began) < 8*beatEvery; n++ {
					p.pause(t.Context())
					mu.Lock()
					running = true
					mu.Unlock()
					time.Sleep(slice)
					mu.Lock()
					running = false
					mu.Unlock()
					if n%40 == 39 { // shortly before a pause
						far.mu.Lock()
						far.stall = time.Now().Add(c.stall)
						far.mu.Unlock()
					}
				}
				time.Sleep(c.way)
				stop()
				end()
				live.Close()
				time.Sleep(10 * beatEvery) // until all that was called has given up
			})
		})
	}
}

// TestSettle: where the word to go on was long on its way, the agent answers what came behind it
// before the next slice; also where this machine is why, and knows that before it hears the word.
func TestSettle(t *testing.T) {
	for name, heldUp := range map[string]time.Duration{"a slow line": 0, "held up": 3 * beatEvery} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { settleLate(t, heldUp) }) })
	}
}

func settleLate(t *testing.T, heldUp time.Duration) {
	answers := 0
	p := &pulse{last: time.Now(), resume: make(chan struct{}, 1)}
	p.send = func(kind agentpb.Beat_Kind) error {
		if kind == agentpb.Beat_ANSWER {
			answers++
		}
		return nil
	}
	p.start()
	time.Sleep(beatEvery)
	time.AfterFunc(2*beatEvery, func() {
		p.excuse(time.Now(), heldUp)
		p.hear(&agentpb.Beat{Kind: agentpb.Beat_GO})
		time.Sleep(settleTime / 2)
		p.hear(&agentpb.Beat{Kind: agentpb.Beat_CALL})
	})
	p.pause(t.Context())
	if answers != 1 {
		t.Errorf("slices went on after %d answers", answers)
	}
	time.Sleep(settleTime) // until all has been heard
}
