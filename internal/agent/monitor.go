package agent

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/venturi-net/venturi/internal/load/thread"
)

// monitorSlack is by how much a wake-up of the runtime's monitor may be late. It is the
// longest that the monitor sleeps by itself.
const monitorSlack = 10 * time.Millisecond

// calmMonitor lets the wake-ups of the Go runtime's monitor thread wait for another timer of
// their core. In a series that thread looks after the threads of loads as often as every
// 20 us, up to 1,600 times a second in all, and a core that halts between packets answers
// sooner for each: latencies would be up to 14 % too low. Threads that the monitor starts
// inherit the slack, so those of loads set their own.
//
// It does what it can: without CAP_SYS_NICE the monitor keeps waking. The function that it
// returns undoes it for every thread.
func calmMonitor() (restore func()) {
	threads, err := ownThreads()
	// The runtime starts it before any other thread. Where IDs have wrapped since, it cannot be told.
	if err != nil || len(threads) < 2 || threads[0] != os.Getpid() {
		return func() {}
	}
	if setSlack(threads[1], monitorSlack) != nil {
		return func() {}
	}
	return func() {
		threads, _ := ownThreads()
		for _, t := range threads {
			_ = setSlack(t, thread.DefaultTimerSlack) // it may have ended
		}
	}
}

// ownThreads lists the threads of this process, the oldest first.
func ownThreads() ([]int, error) {
	entries, err := os.ReadDir("/proc/self/task")
	var threads []int
	for _, e := range entries {
		if id, err := strconv.Atoi(e.Name()); err == nil {
			threads = append(threads, id)
		}
	}
	slices.Sort(threads)
	return threads, err
}

func setSlack(thread int, slack time.Duration) error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/timerslack_ns", thread), strconv.AppendInt(nil, slack.Nanoseconds(), 10), 0)
}
