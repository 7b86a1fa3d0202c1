package fleet

import (
	"bufio"
	"context"
	"io"
	"time"

	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/internal/verr"
)

// Settle is one machine's side of [Fleet.Commit]. It says on out that the changes of this machine
// are made, and waits until in says that they stay, or ends. Where nobody is left to wait, the
// holder of the lease undoes them; it cannot while this process has the journal, which
// therefore waits no longer than until. expired tells whether the lease is over.
func Settle(ctx context.Context, in io.Reader, out io.Writer, until time.Time, expired func() (bool, error)) error {
	if _, err := sanitize.Fprint(out, sanitize.Safe(ReadyLine)); err != nil {
		return err
	}
	answer := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(in).ReadString('\n') // an error: not that line
		answer <- line
	}()
	said := ""
	select {
	case said = <-answer:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(time.Until(until)):
		return verr.New(verr.Failed, "cannot keep the changes", "the controller did not say in time whether every machine made its changes", "nothing remains changed on this machine")
	}
	late, err := expired()
	if err == nil && (said != KeepLine || late) {
		err = verr.New(verr.Failed, "cannot keep the changes", "another machine failed to make its changes", "nothing remains changed on this machine")
	}
	return err
}
