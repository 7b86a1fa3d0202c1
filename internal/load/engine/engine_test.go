package engine

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/load"
	"github.com/venturi-net/venturi/internal/testenv/plain"
	"github.com/venturi-net/venturi/result"
)

// TestMain runs the tests as agents run series: without garbage collection,
// which would wait for threads that wait for each other. The process's first thread never ends:
// a worker on it would be counted, by its name, for ever.
func TestMain(m *testing.M) {
	runtime.LockOSThread()
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(4 << 30)
	plain.WaitTogether()
	goleak.VerifyTestMain(m)
}

// The loads of the table that tests here name.
var (
	tcpLat, udpLat = mustFind("tcp_lat"), mustFind("udp_lat")
	tcpBW, udpBW   = mustFind("tcp_bw"), mustFind("udp_bw")
	tcpRR          = mustFind("tcp_rr")
	tcpCRR, quic   = mustFind("tcp_crr"), mustFind("quic")
	probe, ping    = mustFind("probe"), mustFind("ping")
)

func mustFind(name string) load.Load {
	l, err := load.Find(name)
	if err != nil {
		panic(err)
	}
	return l
}

// loopback makes a plan for one load with arms on 127.0.0.1. Ports differ per
// test so that tests do not meet each other's closed connections.
func loopback(t *testing.T, name string, arms, flows, size, port int) load.Plan {
	t.Helper()
	p := load.Plan{
		Token: 0xfeed0000 + uint64(port), Load: name, Size: size, Flows: flows,
		Slice: 20 * time.Millisecond, Head: 2 * time.Millisecond,
		ClientCPU: -1, ServerCPU: -1,
	}
	order := []int{}
	for i := range arms {
		end := host.Endpoint{Addr: netip.MustParseAddr("127.0.0.1"), MTU: 65536}
		p.Arms = append(p.Arms, load.Arm{
			Name: string(rune('a' + i)), Ends: []load.Pair{{From: end, To: end}},
			ServerPort: port + i*flows, ClientPort: port + 1000 + i*flows,
		})
		order = append(order, i)
	}
	for range 3 {
		p.Schedule = append(p.Schedule, order)
	}
	return p
}

// brief keeps one round of a plan where -short is given: each takes the CPU for as long as its slices.
func brief(p *load.Plan) {
	if testing.Short() {
		p.Schedule = p.Schedule[:1]
	}
}

func run(t *testing.T, p load.Plan) []load.SliceResult {
	t.Helper()
	s, err := Serve(p, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	results, err := Run(context.Background(), p, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return results
}

// TestTable runs every load of the table at several sizes and flows, and
// checks that the books balance.
func TestTable(t *testing.T) {
	port := 21000
	for _, l := range load.Table {
		cells := []struct{ size, flows int }{{1, 1}, {1000, 3}, {60000, 1}, {8, 1}, {9, 2}, {64, 1}}
		if testing.Short() {
			cells = cells[:3] // each waits for its ends to begin and to end
		}
		for _, c := range cells {
			if c.size < l.Least {
				continue
			}
			t.Run(load.CellName(result.Cell{Load: l.Name, Size: c.size, Flows: c.flows, Rate: l.Rate}), func(t *testing.T) {
				skipUnlessOpens(t, l)
				patiently(t, func(slice time.Duration) (failed error) {
					port += 16
					p := loopback(t, l.Name, 2, c.flows, c.size, port)
					p.Slice = slice
					brief(&p)
					results := run(t, p)
					if want := len(p.Schedule) * len(p.Arms); len(results) != want {
						t.Fatalf("%d results, want %d: %+v", len(results), want, results)
					}
					for _, r := range results {
						failed = errors.Join(failed, problems(l, p, r))
					}
					return failed
				})
			})
		}
	}
}

// skipUnlessOpens skips a test of a load whose sockets this user cannot open.
func skipUnlessOpens(t *testing.T, l load.Load) {
	t.Helper()
	if l.Transport != "icmp" {
		return
	}
	p := loopback(t, l.Name, 1, 1, l.Size, 20000)
	probe, err := newICMPProber(p.Arms[0].Ends[0], 20000, newClock(), p.Token, l.Size)
	if err != nil {
		t.Skip(err)
	}
	probe.close()
}

// patiently tries with longer and longer slices: on a busy machine a short one can
// pass without one of its ends having run.
func patiently(t *testing.T, try func(slice time.Duration) error) {
	t.Helper()
	var failed error
	for _, slice := range []time.Duration{20 * time.Millisecond, 100 * time.Millisecond, 500 * time.Millisecond, 2 * time.Second} {
		if failed = try(slice); failed == nil {
			return
		}
	}
	t.Error(failed)
}

func check(t *testing.T, l load.Load, p load.Plan, r load.SliceResult) {
	t.Helper()
	if err := problems(l, p, r); err != nil {
		t.Error(err)
	}
}

// problems tells where the books of a slice do not balance.
func problems(l load.Load, p load.Plan, r load.SliceResult) (err error) {
	switch {
	case r.Err != nil:
		return fmt.Errorf("arm %d round %d: %w", r.Arm, r.Round, r.Err)
	case l.Kind.Timed():
		err = problemsOfPings(r.Latency)
	default:
		err = problemsOfStream(l, p, r.Stream)
	}
	if r.Elapsed < p.Slice/2 {
		err = errors.Join(err, fmt.Errorf("elapsed %v of a %v slice", r.Elapsed, p.Slice))
	}
	return err
}

func problemsOfPings(c *result.Latency) (err error) {
	bad := func(format string, args ...any) { err = errors.Join(err, fmt.Errorf(format, args...)) }
	if c.Replies == 0 || c.Replies+c.Lost != c.Requests {
		bad("%d requests, %d replies, %d lost", c.Requests, c.Replies, c.Lost)
	}
	h, derr := result.DecodeRTT(c.RTT)
	if derr != nil {
		return errors.Join(err, derr)
	}
	if h.TotalCount() != c.Replies {
		bad("histogram holds %d of %d replies", h.TotalCount(), c.Replies)
	}
	mean := float64(c.RTTSum) / float64(c.Replies)
	if got := h.Mean(); got < mean*0.99 || got > mean*1.01 {
		bad("mean of histogram %v, of sum %v", got, mean)
	}
	return err
}

func problemsOfStream(l load.Load, p load.Plan, c *result.Stream) (err error) {
	bad := func(format string, args ...any) { err = errors.Join(err, fmt.Errorf(format, args...)) }
	if c.RecvMessages > c.SentMessages || c.RecvBytes != c.RecvMessages*int64(p.Size) {
		bad("sent %d, received %d messages and %d bytes of %d", c.SentMessages, c.RecvMessages, c.RecvBytes, p.Size)
	}
	// No segment is longer than the loopback's MTU: fewer than this, and the
	// last bytes were not sent yet when they were counted.
	if most := int64(65536); l.Transport == "tcp" && c.Packets*most < c.SentBytes {
		bad("%d bytes went in %d segments", c.SentBytes, c.Packets)
	}
	if l.Transport == "tcp" && c.RecvMessages != c.SentMessages {
		bad("TCP lost messages: sent %d, received %d", c.SentMessages, c.RecvMessages)
	}
	if c.RateNs <= 0 || c.RateMessages <= 0 || c.RateMessages != c.RateBytes/int64(p.Size) {
		bad("rate: %d messages, %d bytes in %d ns", c.RateMessages, c.RateBytes, c.RateNs)
	}
	return err
}

func TestBatch(t *testing.T) {
	p := loopback(t, "udp_bw", 1, 1, 1, 24000)
	p.Batch = 32
	for _, r := range run(t, p) {
		check(t, udpBW, p, r)
	}
}

// TestSpin shows that a responder that is busy for a known time is seen as
// that much slower: the instrument measures what it says it measures.
func TestSpin(t *testing.T) {
	p := loopback(t, "udp_lat", 2, 1, 1, 24100)
	p.Arms[1].Spin = 2 * time.Millisecond
	for _, r := range run(t, p) {
		if r.Arm == 1 && r.Latency.RTTSum < r.Latency.Replies*p.Arms[1].Spin.Nanoseconds() {
			t.Errorf("mean RTT %d ns with a %v spin", r.Latency.RTTSum/r.Latency.Replies, p.Arms[1].Spin)
		}
	}
}

// countProbe counts begins and ends; each arm calls it from a goroutine of its own.
type countProbe struct{ begins, ends atomic.Int32 }

func (c *countProbe) Begin(int) { c.begins.Add(1) }
func (c *countProbe) End(int)   { c.ends.Add(1) }

// TestProbe wants exactly one begin and one end for each slice at either end.
func TestProbe(t *testing.T) {
	p := loopback(t, "udp_bw", 2, 2, 1, 24200)
	var server, client countProbe
	s, err := Serve(p, &server, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Run(context.Background(), p, &client, nil); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for end, c := range map[string]*countProbe{"client": &client, "server": &server} {
		if begins, ends := c.begins.Load(), c.ends.Load(); begins != 6 || ends != 6 {
			t.Errorf("%s: %d begins and %d ends, want 6 of each", end, begins, ends)
		}
	}
}

// A slice too short for a figure has its counts, and does not end the arm.
func TestBlankSlices(t *testing.T) {
	p := loopback(t, "tcp_bw", 1, 1, 1024, 24200) // which one receive call takes
	p.Head, p.Slice = 0, 1
	results := run(t, p)
	for i, r := range results {
		if r.Err != nil || r.Stream.RateMessages != 0 || r.Stream.SentMessages != 1 || r.Stream.RecvMessages != 1 {
			t.Errorf("slice %d: %+v, %v", i, r.Stream, r.Err)
		}
		s := result.Slice{Stream: r.Stream}
		if v, ok := s.Value(result.Bandwidth); ok {
			t.Errorf("slice %d has a figure: %v", i, v)
		}
	}
	if len(results) != len(p.Schedule) {
		t.Errorf("%d slices, want %d", len(results), len(p.Schedule))
	}
}

// TestArmFails leaves an arm without a server: it is reported once, and the
// other arm is measured in full.
func TestArmFails(t *testing.T) {
	p := loopback(t, "tcp_lat", 2, 1, 1, 24300)
	served := p
	served.Arms = p.Arms[:1]
	s, err := Serve(served, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	results, err := Run(context.Background(), p, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	var good, bad int
	for _, r := range results {
		if r.Err != nil {
			bad++
			if r.Arm != 1 {
				t.Errorf("arm %d failed: %v", r.Arm, r.Err)
			}
		} else {
			good++
		}
	}
	if good != len(p.Schedule) || bad != 1 {
		t.Errorf("%d slices, %d failures", good, bad)
	}
}

func TestCancel(t *testing.T) {
	port := 24400
	patiently(t, func(slice time.Duration) error {
		port += 4
		p := loopback(t, "udp_lat", 1, 1, 1, port)
		p.Slice = slice
		for range 1000 {
			p.Schedule = append(p.Schedule, []int{0})
		}
		s, err := Serve(p, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 10*slice)
		defer cancel()
		results, err := Run(ctx, p, nil, nil)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		if len(results) == 0 || len(results) > 500 {
			return fmt.Errorf("%d slices in %v", len(results), 10*slice)
		}
		return nil
	})
}

// TestStranger sends datagrams that are not of the series to a server that
// waits for its client: it must not be taken for the client.
func TestStranger(t *testing.T) {
	p := loopback(t, "udp_lat", 1, 1, 1, 24500)
	other := p
	other.Token++
	other.Arms = []load.Arm{p.Arms[0]}
	other.Arms[0].ClientPort += 50
	s, err := Serve(p, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan []load.SliceResult)
	go func() { r, _ := Run(context.Background(), other, nil, nil); done <- r }()
	time.Sleep(50 * time.Millisecond)
	results, err := Run(context.Background(), p, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		check(t, udpLat, p, r)
	}
	s.Close()
	for _, r := range <-done {
		if r.Err == nil {
			t.Error("a client of another series was served")
		}
	}
}

func TestCloseWhileWaiting(t *testing.T) {
	for i, name := range []string{"tcp_lat", "udp_lat", "udp_bw"} {
		p := loopback(t, name, 3, 2, 1, 24600+20*i)
		s, err := Serve(p, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		closed := make(chan error)
		go func() { closed <- s.Close() }()
		select {
		case err := <-closed:
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("%s: server does not close", name)
		}
	}
}
