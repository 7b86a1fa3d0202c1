package host

import (
	"context"
	"time"
)

// Sleep waits for d, or until ctx ends. Error: why ctx ended.
func Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
