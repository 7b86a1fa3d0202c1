package agent

import (
	"context"
	"time"

	"github.com/venturi-net/venturi/internal/load"
)

// Quiet keeps the channels silent while series run between agents that nobody watches over, until
// end is called. Before, it calls all agents, if they were not called for a while; and again when
// it takes longer than any of the series should. onLoss is called when an agent is lost then.
func (l *Liveness) Quiet(ctx context.Context, series load.Plan, onLoss func()) (end func()) {
	l.mu.Lock()
	patience := l.patience()
	l.running, l.onLoss = true, onLoss
	l.limit = beatEvery + patience*(openingTime(series)+time.Duration(len(series.Schedule))*sliceTime(series))
	for l.calls > 0 {
		l.idle.Wait()
	}
	call := time.Since(l.called) >= beatEvery
	if call {
		l.called = time.Now()
	}
	l.ends[0].markHeard()
	l.mu.Unlock()
	if call {
		callAll(ctx, l.ends)
		l.ends[0].markHeard()
	}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.running, l.onLoss = false, nil
	}
}

// LossReason is why nothing more is to be had of the agent; nil: it is there.
func (c *Client) LossReason() error {
	if why := c.lost.Load(); why != nil {
		return why
	}
	return nil
}
