package agent

import (
	"context"
	"sync"
	"time"

	"github.com/venturi-net/venturi/internal/agent/agentpb"
	"github.com/venturi-net/venturi/internal/load"
	"github.com/venturi-net/venturi/internal/load/engine"
)

// pulse is the agent's side of [agentpb.Agent.Beats].
type pulse struct {
	mu     sync.Mutex
	last   time.Time     // when the controller was heard; zero: there are no beats
	heldUp time.Duration // for how long this machine has been since then, see excuse
	paused time.Time     // when slices could not run, or did not run yet, for the last time
	late   bool          // GO took long to arrive
	busy   time.Duration // how much longer than deadAfter the controller may be silent: slices run
	slices time.Duration // the same, as the controller says it to all agents
	send   func(agentpb.Beat_Kind) error
	resume chan struct{}
}

// Beats is of [agentpb.AgentServer].
func (s *server) Beats(stream agentpb.Agent_BeatsServer) error {
	p := &s.pulse
	p.mu.Lock()
	p.heardNow()
	p.resume = make(chan struct{}, 1)
	p.send = func(k agentpb.Beat_Kind) error { return stream.Send(&agentpb.Beat{Kind: k}) }
	p.mu.Unlock()
	go p.watch(stream.Context(), func() {
		s.unheard.Store(true)
		s.abandon()
	})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			beat, err := stream.Recv()
			if err != nil {
				return
			}
			p.hear(beat)
		}
	}()
	select {
	case <-ended: // the channel, and with it the agent
		s.abandon()
		return nil
	case why := <-s.options.Failure:
		context.AfterFunc(stream.Context(), s.abandon) // when the controller was told
		return why
	}
}

// allow lets the controller be silent for the slices of a series, until the function that
// it returns is called.
func (p *pulse) allow(plan load.Plan) (end func()) {
	set := func(busy time.Duration) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.busy += busy
		p.heardNow() // that somebody asked for it was a word
	}
	slice := plan.LongestSlice()
	set(slice)
	return sync.OnceFunc(func() { set(-slice) })
}

// start notes that a series was asked for: from then on the controller counts how long the
// agent is silent.
func (p *pulse) start() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.paused = time.Now()
}

func (p *pulse) heardNow() { p.last, p.heldUp = time.Now(), 0 }

func (p *pulse) hear(beat *agentpb.Beat) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.last
	p.heardNow()
	switch beat.GetKind() {
	case agentpb.Beat_CALL:
		p.slices = time.Duration(beat.GetSilenceNs())
		_ = p.send(agentpb.Beat_ANSWER) // an error shows as silence
	case agentpb.Beat_GO: // slices run
		p.paused, p.late = p.last, p.last.Sub(before) >= beatEvery
		select {
		case p.resume <- struct{}{}:
		default:
		}
	}
}

// watch calls abandon when the controller has not been heard for too long.
func (p *pulse) watch(ctx context.Context, abandon func()) {
	tick := time.NewTicker(beatEvery / 4)
	defer tick.Stop()
	for looked := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := time.Now()
		p.excuse(now, now.Sub(looked)-beatEvery/4)
		if p.isSilent(now) {
			abandon()
		}
		looked = now
	}
}

// excuse does not count a time as silence in which this machine was held up: see ask. What has come meanwhile
// is late all the same.
func (p *pulse) excuse(now time.Time, heldUp time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if silence := now.Sub(p.last); heldUp > 0 && silence > 0 {
		p.heldUp = min(p.heldUp+heldUp, silence)
	}
}

// isSilent tells whether the controller should have been heard by now.
func (p *pulse) isSilent(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.silenceAt(now) > deadAfter+max(p.busy, p.slices)
}

// pause lets the controller speak between two slices, if it is time. It returns when the
// controller lets go on or is not heard for too long, or the agent ends.
func (p *pulse) pause(ctx context.Context) {
	p.mu.Lock()
	if p.send == nil || time.Since(p.paused) < beatEvery {
		p.mu.Unlock()
		return
	}
	select {
	case <-p.resume: // late, of a pause before
	default:
	}
	err := p.send(agentpb.Beat_PAUSE)
	p.mu.Unlock()
	if err != nil {
		return
	}
	tick := time.NewTicker(beatEvery / 4)
	defer tick.Stop()
	for p.silence() <= deadAfter {
		select {
		case <-p.resume:
			p.settle()
			return
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// settleTime is how long a line must be silent after a stall for everything to have arrived.
const settleTime = 20 * time.Millisecond

// settle waits for what may follow a late GO: the line has stalled, the controller may have called
// meanwhile, and the answer is to pass before the slice.
func (p *pulse) settle() {
	p.mu.Lock()
	late := p.late
	p.mu.Unlock()
	for late && p.silence() < settleTime {
		time.Sleep(settleTime / 4)
	}
}

// silence is for how long the controller was not heard.
func (p *pulse) silence() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.silenceAt(time.Now())
}

// silenceAt does not count what is excused.
func (p *pulse) silenceAt(now time.Time) time.Duration { return now.Sub(p.last) - p.heldUp }

// pauseObserver is an observer of slices that lets the controller speak between them.
type pauseObserver struct {
	engine.SliceObserver
	ctx   context.Context
	pulse *pulse
}

// Pause is of [engine.Pauser].
func (p pauseObserver) Pause() { p.pulse.pause(p.ctx) }
