package engine

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/load"
	"github.com/venturi-net/venturi/result"
)

// TestCrowd wants every flow of many served alike by one thread at either end, with
// small messages and with the largest ones, and threads for larger ones.
func TestCrowd(t *testing.T) {
	const flows = 40
	port := 27000
	for _, name := range []string{"udp_rr", "tcp_rr"} {
		for _, size := range []int{1, load.SharedThreadSize, load.SharedThreadSize + 1} {
			t.Run(load.CellName(result.Cell{Load: name, Size: size, Flows: flows}), func(t *testing.T) {
				patiently(t, func(slice time.Duration) error {
					port += 2 * flows
					p := loopback(t, name, 1, flows, size, port)
					p.Slice = slice
					brief(&p)
					return checkSharedThread(t, p, size <= load.SharedThreadSize)
				})
			})
		}
	}
}

// checkSharedThread runs the slices of a plan, and tells what was wrong with them.
func checkSharedThread(t *testing.T, p load.Plan, shared bool) (failed error) {
	l, err := load.Find(p.Load)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Serve(p, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	h := openLocalClient(context.Background(), l, &p, []int{0}, nil)
	if got := len(h.arms[0]) > 0 && len(h.groups[0]) == 1; got != shared {
		t.Errorf("shares a thread: %v, want %v", got, shared)
	}
	for round := range p.Schedule {
		r := h.Measure(0, round)
		failed = errors.Join(failed, problems(l, p, r))
		for flow, a := range h.arms[0] {
			if a.ping.replies == 0 {
				failed = errors.Join(failed, fmt.Errorf("round %d: no reply on flow %d", round, flow))
			}
		}
	}
	h.Close()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	return failed
}

// TestCrowdLost is TestLostReplies with several flows on one thread: each waits for
// its own, and holds up no other.
func TestCrowdLost(t *testing.T) {
	t.Parallel() // it waits
	patiently(t, func(slice time.Duration) error {
		p := loopback(t, "udp_rr", 1, 3, 1, 27600)
		p.Slice = slice
		_, err := runWithheld(t, p, 20*time.Second)
		return err
	})
}
