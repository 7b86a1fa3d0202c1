package lab_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/verr"
)

// holdTable takes the lock on the table, as a process that hangs while it removes a lab.
func holdTable(t *testing.T) (release func()) {
	t.Helper()
	held, done, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- lab.WithTable(context.Background(), func() error {
			close(held)
			<-done
			return nil
		})
	}()
	<-held
	return func() {
		close(done)
		testenv.Must(t, <-ended)
	}
}

// A lab whose taking down is held up by another process stays, for the next one to remove, and the error names
// that process.
func TestDownIsHeldUp(t *testing.T) {
	testenv.Root(t)
	var said []string
	ctx := lab.WithSay(t.Context(), func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) })
	name := testenv.LabName()
	l, err := lab.Up(ctx, lab.Options{Name: name, AgentCommand: testenv.AgentCommand(t)})
	testenv.Must(t, err)
	restore := lab.SetTableLimits(10*time.Millisecond, 200*time.Millisecond)
	release := holdTable(t)
	err = l.Down()
	holder := fmt.Sprintf("process %d (", os.Getpid())
	if verr.Code(err) != verr.Busy || !strings.Contains(err.Error(), holder) {
		t.Errorf("Down = %v, want that %s has the lock", err, holder)
	}
	if len(said) != 1 || !strings.Contains(said[0], holder) {
		t.Errorf("said %q, want once for whom it waits", said)
	}
	release()
	restore()
	removed, err := lab.Sweep(t.Context())
	if err != nil || !slices.Contains(removed, name) || hasTraces(t, name) {
		t.Errorf("sweep removed %v (%v), %s is there: %v", removed, err, name, hasTraces(t, name))
	}
}
