package engine

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/load"
	"github.com/venturi-net/venturi/result"
)

// Flows that are dealt out to fewer threads all carry something, their books balance, and the
// threads of either end are as many as were asked for.
func TestThreads(t *testing.T) {
	port := 33000
	for _, c := range []struct {
		load                 string
		size, flows, threads int
		batch                int
		rate                 float64
	}{
		{"tcp_bw", 1 << 16, 12, 3, 0, 0},
		{"tcp_bw", 1, 5, 2, 0, 0}, // smaller than a frame of control
		{"tcp_bw", 4000, 7, 2, 0, 2e7},
		{"udp_bw", 64, 6, 2, 0, 0},
		{"udp_bw", 64, 6, 4, 8, 0},
		{"udp_bw", 64, 6, 4, 0, 5000},
		{"quic", 1200, 6, 2, 0, 0},
		{"tcp_rr", 1, 9, 2, 0, 0},
		{"udp_rr", 1, 9, 4, 0, 0},
		{"tcp_rr", 1 << 16, 3, 3, 0, 0}, // as many threads as flows, of any size
	} {
		l, err := load.Find(c.load)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(load.CellName(result.Cell{Load: c.load, Size: c.size, Flows: c.flows, Threads: c.threads, Batch: c.batch, Rate: c.rate}), func(t *testing.T) {
			patiently(t, func(slice time.Duration) (failed error) {
				port += 2 * c.flows
				p := loopback(t, c.load, 1, c.flows, c.size, port)
				p.Slice, p.Threads, p.Batch, p.Rate = slice, c.threads, c.batch, c.rate
				brief(&p)
				s, err := Serve(p, nil, nil)
				if err != nil {
					t.Fatal(err)
				}
				clients, servers := 0, 0
				results, err := Run(t.Context(), p, onEnd(func() {
					clients, servers = threadsNamed(t, l.Name+" client"), threadsNamed(t, l.Name+" server")
				}), nil)
				if err = errors.Join(err, s.Close()); err != nil {
					t.Fatal(err)
				}
				for _, r := range results {
					failed = errors.Join(failed, problems(l, p, r), problemsOfSpread(r, c.flows))
				}
				if servers != c.threads || clients != c.threads {
					failed = errors.Join(failed, fmt.Errorf("%d threads of clients, %d of servers, want %d", clients, servers, c.threads))
				}
				return failed
			})
		})
	}
}

// problemsOfSpread wants each flow to have carried something.
func problemsOfSpread(r load.SliceResult, flows int) error {
	var carried []int64
	switch {
	case r.Stream != nil:
		carried = r.Stream.PerFlow
	case r.Latency != nil:
		carried = r.Latency.PerFlow
	}
	if len(carried) != flows || slices.Min(carried) == 0 {
		return fmt.Errorf("the flows carried %v", carried)
	}
	return nil
}

// threadsNamed counts the threads of this process that have a name.
func threadsNamed(t *testing.T, name string) (n int) {
	t.Helper()
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		comm, err := os.ReadFile("/proc/self/task/" + task.Name() + "/comm")
		if err == nil && strings.TrimSpace(string(comm)) == name {
			n++
		}
	}
	return n
}

// A flow that takes nothing more holds up none that shares its thread.
func TestThreadsBlocked(t *testing.T) {
	const flows = 4
	for i, rate := range []float64{0, 4e6} {
		p := loopback(t, "tcp_bw", 1, flows, 1000, 33900+2*i*flows)
		p.Threads, p.Rate, p.Slice = 1, rate, 300*time.Millisecond
		p.Arms[0].Ends = pairs(flows)
		s, err := Serve(p, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		c, err := Open(t.Context(), p, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		h := c.(*clients).all[0].(*localClient)
		stuck := h.arms[0][1]
		// A message that has begun, and whose rest its receiver does not get: the window is shut
		// by a socket that nobody reads.
		dead, release := deafPeer(t)
		conn := stuck.conn
		stuck.conn = dead
		for _, a := range h.arms[0] {
			a.sent = sendCounts{}
		}
		done := make(chan error, 1)
		h.arms[0][0].start(func(*active) error {
			g := h.groups[0][0]
			if rate > 0 {
				done <- g.pace(p.Slice)
			} else {
				done <- g.fill(g.Now() + p.Slice.Nanoseconds())
			}
			return nil
		})
		err = errors.Join(<-done, h.arms[0][0].finish())
		for flow, a := range h.arms[0] {
			if flow != 1 && a.sent.messages == 0 {
				err = errors.Join(err, fmt.Errorf("rate %v: flow %d sent nothing beside one that is stuck", rate, flow))
			}
		}
		release()
		stuck.conn = conn
		c.Close()
		if err = errors.Join(err, s.Close()); err != nil {
			t.Error(err)
		}
	}
}

// Messages take their turns over the flows of a thread: each has its share at any time.
func TestTurns(t *testing.T) {
	for messages := range 23 {
		sum := 0
		for flow := range 5 {
			n := turns(messages, flow, 5)
			sum += n
			if n < messages/5 || n > messages/5+1 {
				t.Errorf("%d of %d messages are those of flow %d", n, messages, flow)
			}
		}
		if sum != messages {
			t.Errorf("%d of %d messages have their turn", sum, messages)
		}
	}
}

// deafPeer is a connection whose other end reads nothing, full to the brim.
func deafPeer(t *testing.T) (s socket, release func()) {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	s = socket{fd: pair[0]}
	for {
		if _, err := s.sendNow(make([]byte, 1<<16)); err != nil {
			break
		}
	}
	return s, func() { s.close(); socket{fd: pair[1]}.close() }
}

// The engine refuses what the checks refuse.
func TestRefusesThreads(t *testing.T) {
	p := loopback(t, "tcp_bw", 1, 2, 1, 33990)
	p.Threads = 3
	if _, err := Serve(p, nil, nil); err == nil {
		t.Error("served on more threads than flows")
	}
	if _, err := Run(t.Context(), p, nil, nil); err == nil {
		t.Error("ran on more threads than flows")
	}
}
