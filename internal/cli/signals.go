package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/venturi-net/venturi/internal/verr"
)

// errSignal is why the context of a command ended when a signal ended it.
var errSignal = errors.New("interrupted by a signal")

// withSignals ends ctx at the first SIGINT, SIGTERM or SIGHUP, so that a
// command can clean up and report what it has. A person who asks twice means
// it: the second signal ends the process at once, and the next command
// removes what that leaves. When the reader of the output has gone (SIGPIPE)
// the command ends in the same way, with nobody to tell.
func withSignals(ctx context.Context, env *Env) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	done := make(chan struct{})
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		asked := false
		for {
			select {
			case <-done:
				return
			case s := <-signals:
				if s == syscall.SIGPIPE {
					cancel(errSignal)
					continue
				}
				if asked {
					env.Exit(verr.Interrupted)
					return
				}
				asked = true
				fmt.Fprintln(env.Stderr, "venturi: stopping; once more to quit at once")
				cancel(errSignal)
			}
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(done)
		<-finished
		cancel(nil)
	}
}
