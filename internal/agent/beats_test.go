package agent

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/venturi-net/venturi/internal/agent/agentpb"
	"github.com/venturi-net/venturi/internal/load"
)

// TestLongSlices: while a series runs whose slices are longer than an agent waits for its
// controller, silence is no sign of death; after it, it is again.
func TestLongSlices(t *testing.T) {
	p := &pulse{last: time.Now()}
	now := time.Now()
	if p.isSilent(now.Add(deadAfter/2)) || !p.isSilent(now.Add(2*deadAfter)) {
		t.Error("without a series, it is not deadAfter that counts")
	}
	plan := load.Plan{Load: "tcp_lat", Slice: time.Minute, Flows: 1, Arms: make([]load.Arm, 2)}
	end := p.allow(plan)
	if p.isSilent(now.Add(time.Minute + deadAfter)) {
		t.Error("a slice of a minute is taken for the controller's death")
	}
	if !p.isSilent(now.Add(time.Minute + 3*deadAfter)) {
		t.Error("a series keeps the agent for ever")
	}
	end()
	end()
	if now = time.Now(); p.isSilent(now) || !p.isSilent(now.Add(2*deadAfter)) {
		t.Error("the end of the series is not heard")
	}
}

// TestLongPause: an agent that pauses waits for as long as it hears its controller, which may
// have to wait for others, and not for ever.
func TestLongPause(t *testing.T) {
	begin := func(t *testing.T) (p *pulse, over func() bool) {
		p = &pulse{send: func(agentpb.Beat_Kind) error { return nil }, resume: make(chan struct{}, 1)}
		p.hear(&agentpb.Beat{Kind: agentpb.Beat_GO}) // late, of a pause before
		time.Sleep(beatEvery)
		ended := make(chan struct{})
		go func() { defer close(ended); p.pause(t.Context()) }()
		return p, func() bool {
			synctest.Wait()
			select {
			case <-ended:
				return true
			default:
				return false
			}
		}
	}
	synctest.Test(t, func(t *testing.T) {
		p, over := begin(t)
		for range 5 {
			time.Sleep(deadAfter / 2)
			p.hear(&agentpb.Beat{Kind: agentpb.Beat_CALL})
			if over() {
				t.Fatal("the pause was over, and nobody said so")
			}
		}
		p.hear(&agentpb.Beat{Kind: agentpb.Beat_GO})
		if !over() {
			t.Error("the pause goes on")
		}
	})
	synctest.Test(t, func(t *testing.T) {
		_, over := begin(t)
		if over() {
			t.Error("a word that came late ended the next pause")
		}
		time.Sleep(deadAfter)
		if !over() {
			t.Error("the pause goes on, and the controller is silent")
		}
	})
}

// TestHeldUp: time in which a busy machine does not run the program is no silence of the other side.
func TestHeldUp(t *testing.T) {
	p, now := &pulse{last: time.Now()}, time.Now().Add(time.Minute)
	p.excuse(now, time.Minute-beatEvery)
	if p.isSilent(now) || !p.isSilent(now.Add(deadAfter)) {
		t.Error("the agent counts the time in which it was held up")
	}
	p.hear(&agentpb.Beat{Kind: agentpb.Beat_GO})
	p.excuse(time.Now(), time.Minute)
	if p.isSilent(time.Now()) || !p.isSilent(time.Now().Add(deadAfter+beatEvery)) {
		t.Error("what was heard since makes it wait for longer")
	}
	synctest.Test(t, func(t *testing.T) {
		held := func(d time.Duration) <-chan time.Time { return time.After(10 * d) }
		answers := make(chan struct{}, mostAnswers)
		if err := ask(t.Context(), func() error {
			time.AfterFunc(6*answerBy, func() { answers <- struct{}{} })
			return nil
		}, answers, answerBy, held); err != nil {
			t.Errorf("the controller counts the time in which it was held up: %v", err)
		}
	})
}

// TestAsk: while no answer comes an agent is called again, and an answer to each call is waited for; without any, it
// is given up in time.
func TestAsk(t *testing.T) {
	for _, c := range []struct {
		late  time.Duration // the answers
		calls int
		took  time.Duration
		err   error
	}{
		{beatEvery / 2, 1, beatEvery / 2, nil},
		{beatEvery * 5 / 2, 3, beatEvery * 9 / 2, nil},
		{time.Hour, 3, answerBy, errUnanswered},
	} {
		synctest.Test(t, func(t *testing.T) {
			began, calls, answers := time.Now(), 0, make(chan struct{}, mostAnswers)
			err := ask(t.Context(), func() error {
				calls++
				time.AfterFunc(c.late, func() { answers <- struct{}{} })
				return nil
			}, answers, answerBy, time.After)
			if took := time.Since(began); err != c.err || calls != c.calls || took < c.took || took > c.took+beatEvery/10 {
				t.Errorf("answers that are %v late: %d calls, %v after %v", c.late, calls, err, took)
			}
		})
	}
}
