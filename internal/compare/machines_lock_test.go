package compare

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/verr"
)

// steps notes what is said.
type steps struct {
	deaf
	mu       sync.Mutex
	messages []string
}

func (s *steps) Say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.messages = append(s.messages, fmt.Sprintf(format, args...))
}

// Two runs over the same machines, to each of which the other's client is the server, measure one after the other.
func TestRunsOnSameMachines(t *testing.T) {
	m := joined(t)
	forth := onCards(t, m, "host")
	forth.Remote.Dev, forth.Wait = "", true
	back := forth
	back.Out, back.Remote.Machines = t.TempDir(), slices.Clone(forth.Remote.Machines)
	slices.Reverse(back.Remote.Machines)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var watch steps
	var runs sync.WaitGroup
	for name, q := range map[string]Request{"forth": forth, "back": back} {
		r := resolve(t, q)
		runs.Go(func() {
			rec, _, err := Do(ctx, r, Host{Watch: &watch})
			if err != nil {
				t.Errorf("run %s: %v", name, err)
				return
			}
			measured(t, rec)
		})
	}
	runs.Wait()
	if !slices.ContainsFunc(watch.messages, func(s string) bool {
		return strings.HasPrefix(s, "waiting for machine ") && strings.HasSuffix(s, " has the measuring lock")
	}) {
		t.Errorf("nobody said for whom it waits: %q", watch.messages)
	}
	for _, m := range m {
		nothingLeft(t, m)
	}
}

// A run refuses a machine on which another one measures, by its name, and does not keep the other machine.
func TestRunOnBusyMachine(t *testing.T) {
	m := joined(t)
	m[1].Do(t, "sh", "-c", `mkdir -p /run/venturi; flock /run/venturi/measure.lock sleep 1000 >/dev/null 2>&1 &
until ! flock --nonblock /run/venturi/measure.lock true; do sleep 0.01; done`)
	q := onCards(t, m, "host")
	q.Remote.Dev = ""
	_, _, err := Do(t.Context(), resolve(t, q), Host{Watch: deaf{}})
	if verr.Code(err) != verr.Busy || !strings.Contains(err.Error(), "on machine b: another run has the measuring lock") {
		t.Errorf("got %v", err)
	}
	nothingLeft(t, m[0])
	if _, err := os.Stat(m[1].Root() + "/run/venturi/measure.lock"); err != nil {
		t.Errorf("the lock of the other run: %v", err)
	}
}
