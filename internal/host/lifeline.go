package host

import (
	"context"
	"io"
	"os"
)

// WithLifeline gives a context that ends, too, when standard input does, if that is
// a pipe: so a daemon learns that whoever started it has gone. One that is to
// outlive that has another standard input, and goes on.
func WithLifeline(ctx context.Context, stdin io.Reader) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	if f, ok := stdin.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeNamedPipe != 0 {
			go func() {
				_, _ = io.Copy(io.Discard, f) // however it ends, it ends
				cancel()
			}()
		}
	}
	return ctx, cancel
}
