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
	return l.fallSilent(ctx, openingTime(series)+time.Duration(len(series.Schedule))*sliceTime(series), onLoss)
}

// LossReason is why nothing more is to be had of the agent; nil: it is there.
func (c *Client) LossReason() error {
	if why := c.lost.Load(); why != nil {
		return why
	}
	return nil
}
