package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/venturi-net/venturi/internal/display"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/internal/verr"
)

// errSignal is why the context of a command ended when a signal ended it.
var errSignal = errors.New("interrupted by a signal")

// sameAsking is how long after a signal others are of the same asking.
const sameAsking = time.Second

// withSignals ends ctx at the first SIGINT, SIGTERM or SIGHUP, so that a
// command can clean up and report what it has. A person who asks twice means
// it: the second signal ends the process at once, and the next command
// removes what that leaves. Signals that come together are one asking: timeout(1)
// sends its signal to the process and to its whole group.
//
// When the reader of the output has gone, the command ends as at the first
// signal, with nobody to tell. The runtime would end the process at once and
// leave the lab; but SIGPIPE itself says too little to act on, because a socket
// whose other end has gone raises it too.
func withSignals(ctx context.Context, env *Env) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	unheard := make(chan os.Signal, 1)
	signal.Notify(unheard, syscall.SIGPIPE)
	env.Stdout = guard(env.Stdout, func() { cancel(errSignal) })
	env.Stderr = guard(env.Stderr, func() { cancel(errSignal) })
	done := make(chan struct{})
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		var asked time.Time // zero: not yet
		for {
			select {
			case <-done:
				return
			case <-signals:
				if !asked.IsZero() && time.Since(asked) < sameAsking {
					continue
				}
				if !asked.IsZero() {
					if restore := env.beforeExit.Load(); restore != nil {
						(*restore)()
					}
					sanitize.Fprintf(env.Stderr, "venturi: quitting at once; `venturi undo` restores what was changed, `venturi lab down` removes what is left behind\n")
					env.Exit(verr.Interrupted)
					return
				}
				asked = time.Now()
				if env.Getenv(insideVariable) == "" { // else it is said outside
					sanitize.Fprintf(env.Stderr, "venturi: stopping; press Ctrl-C again to quit at once\n")
				}
				cancel(errSignal)
			}
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		signal.Stop(unheard)
		close(done)
		<-finished
		cancel(nil)
	}
}

// brokenPipeWriter is an output that calls onBroken when its reader has gone.
type brokenPipeWriter struct {
	io.Writer
	onBroken func()
}

func (g brokenPipeWriter) Write(b []byte) (int, error) {
	n, err := g.Writer.Write(b)
	if errors.Is(err, syscall.EPIPE) {
		g.onBroken()
	}
	return n, err
}

// guard watches over an output, but for a terminal, which stays what it is:
// others ask it for its width.
func guard(w io.Writer, gone func()) io.Writer {
	if display.IsTerminal(w) {
		return w
	}
	return brokenPipeWriter{w, gone}
}
