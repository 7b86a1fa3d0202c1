package agent

import (
	"context"
	"time"
)

// isAnswered waits until an answer comes, or ctx ends; false: neither did within limit. It counts looks, not time:
// while this machine is too busy to run the program, or paused, an answer that has come is not read, and the other
// one may be on the same machine.
func isAnswered(ctx context.Context, answer <-chan struct{}, limit time.Duration, after func(time.Duration) <-chan time.Time) bool {
	look := beatEvery / 10
	for left := limit; left > 0; left -= look {
		select {
		case <-answer:
			return true
		case <-ctx.Done():
			return true
		case <-after(look):
		}
	}
	return false
}
