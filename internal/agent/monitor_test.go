package agent_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/agent"
	"github.com/venturi-net/venturi/internal/testenv"
)

// In a series the runtime's monitor, which sleeps in nanosleep and is the only thread that
// does, wakes late; after it every thread is as it was.
func TestMonitorIsCalm(t *testing.T) {
	testenv.Root(t)
	threads, err := agent.OwnThreads()
	testenv.Must(t, err)
	monitor := threads[1]
	slack := func(thread int) string {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/timerslack_ns", thread))
		testenv.Must(t, err)
		return strings.TrimSpace(string(text))
	}
	first, second := agent.QuietRuntime(), agent.QuietRuntime()
	if got := slack(monitor); got != "10000000" {
		t.Errorf("in a series the monitor's timers are late by %s ns", got)
	}
	first()
	if got := slack(monitor); got != "10000000" {
		t.Errorf("after the first of two series the monitor's timers are late by %s ns", got)
	}
	second()
	if got := slack(monitor); got != "50000" {
		t.Errorf("after the series the monitor's timers are late by %s ns", got)
	}
	for _, thread := range threads {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/timerslack_ns", thread))
		if err != nil {
			continue // a thread of the runtime ends when it likes, all but the monitor
		}
		if got := strings.TrimSpace(string(text)); got != "50000" {
			t.Errorf("after the series the timers of thread %d are late by %s ns", thread, got)
		}
	}
}
