package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/load"
)

// network is the transport of a load's control frames, as package net names it.
func network(l load.Load) string {
	if l.Transport == "tcp" {
		return "tcp"
	}
	return "udp"
}

// dialPort reaches the port of a plan's first flow, as anybody may.
func dialPort(t *testing.T, l load.Load, p load.Plan) net.Conn {
	t.Helper()
	c, err := net.Dial(network(l), fmt.Sprintf("127.0.0.1:%d", p.Arms[0].ServerPort))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// dialRefused is dialPort where the connection may be closed before it is there: nil.
func dialRefused(t *testing.T, l load.Load, p load.Plan) net.Conn {
	t.Helper()
	c, err := net.Dial(network(l), fmt.Sprintf("127.0.0.1:%d", p.Arms[0].ServerPort))
	switch {
	case errors.Is(err, unix.ECONNRESET):
		return nil
	case err != nil:
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// hello is what a client of the plan says first, if it has that nonce.
func hello(p load.Plan, n load.Nonce) []byte {
	b := make([]byte, frameSize)
	frame{kind: frameHello, token: p.Token}.withNonce(n).put(b)
	return b
}

// TestStrangers: who does not know the nonce gets no answer, whatever it says, and nothing
// of that is in the way of the client.
func TestStrangers(t *testing.T) {
	t.Parallel() // it waits
	port := 28000
	for _, l := range load.Table {
		for _, flows := range []int{1, 3} {
			t.Run(fmt.Sprintf("%s/%d", l.Name, flows), func(t *testing.T) {
				skipUnlessOpens(t, l)
				if flows > 1 && testing.Short() {
					t.Skip("waits for a second as one flow does: run it without -short")
				}
				port += 16
				p := loopback(t, l.Name, 1, flows, 64, port)
				t.Parallel() // it waits
				p.Slice = 40 * time.Millisecond
				brief(&p)
				p.Nonce = load.Nonce{1, 2, 3, 31: 4}
				wrong := p.Nonce
				wrong[31]++
				s, err := Serve(p, nil, nil)
				if err != nil {
					t.Fatal(err)
				}
				said := [][]byte{hello(p, wrong), hello(p, load.Nonce{}), make([]byte, 1), make([]byte, frameSize), append(hello(p, p.Nonce), 0)}
				if l.Transport == "tcp" {
					said = said[:4] // behind a hello may come what will
				}
				refused := int64(len(said))
				for _, text := range said {
					expectNothing(t, dialPort(t, l, p), text, l.Transport == "tcp")
				}
				if l.Transport == "tcp" {
					refused += 2
					half := dialPort(t, l, p)
					half.Write(hello(p, p.Nonce)[:40])
					began := time.Now()
					expectNothing(t, dialPort(t, l, p), nil, true) // one that is silent
					if took := time.Since(began); took < helloTimeout/2 || took > host.ScaleTimeout(2*helloTimeout) {
						t.Errorf("a silent connection was closed after %v", took)
					}
					expectNothing(t, half, nil, true)
				}
				results, err := Run(context.Background(), p, nil, nil)
				if err != nil {
					t.Fatal(err)
				}
				for _, r := range results {
					checkCarried(t, r)
				}
				if l.Transport == "tcp" && l.Kind != load.Connect { // late, and with the right words
					refused++
					expectNothing(t, dialRefused(t, l, p), hello(p, p.Nonce), true)
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
				if s.Refused() != refused {
					t.Errorf("%d were refused, want %d", s.Refused(), refused)
				}
			})
		}
	}
}

// checkCarried wants a slice that was measured. How much was carried in it depends on what
// else runs on the machine.
func checkCarried(t *testing.T, r load.SliceResult) {
	t.Helper()
	if r.Err != nil || r.Latency == nil && r.Stream == nil {
		t.Errorf("%+v", r)
	}
}

// expectNothing wants no byte to come back, and a connection to be closed.
func expectNothing(t *testing.T, c net.Conn, said []byte, closed bool) {
	t.Helper()
	if c == nil {
		return
	}
	wait := 50 * time.Millisecond
	if closed {
		wait = 20 * time.Second
	}
	_, err := c.Write(said)
	_ = c.SetReadDeadline(time.Now().Add(wait))
	var b [frameSize]byte
	n, rerr := c.Read(b[:])
	switch {
	case n > 0:
		t.Errorf("%d bytes came back", n)
	case closed && (rerr == nil || errors.Is(rerr, os.ErrDeadlineExceeded)):
		t.Errorf("the connection is open: %v, %v", err, rerr)
	}
}

// TestCallersOnly: with connections for each request, those from elsewhere are refused
// after the client's hello, too.
func TestCallersOnly(t *testing.T) {
	p := loopback(t, "tcp_crr", 1, 1, 64, 28900)
	p.Slice = 300 * time.Millisecond
	brief(&p)
	s, err := Serve(p, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	results, err := Run(context.Background(), p, onEnd(func() {
		once.Do(func() { expectNothing(t, dialRefused(t, tcpCRR, p), make([]byte, 64), true) })
	}), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		checkCarried(t, r)
	}
	if err := s.Close(); err != nil || s.Refused() != 1 {
		t.Errorf("%d were refused, %v", s.Refused(), err)
	}
}

// TestFuzzedPorts sends a million random bytes (-short: a tenth) to the ports of each load before and during
// its series.
func TestFuzzedPorts(t *testing.T) {
	each := 1_000_000
	if testing.Short() {
		each = 100_000
	}
	port := 29200
	for _, name := range []string{"tcp_lat", "tcp_bw", "tcp_crr", "udp_lat", "udp_bw"} {
		t.Run(name, func(t *testing.T) {
			port += 16
			l, err := load.Find(name)
			if err != nil {
				t.Fatal(err)
			}
			p := loopback(t, name, 1, 1, 64, port)
			p.Slice, p.Nonce = 100*time.Millisecond, load.Nonce{5}
			brief(&p)
			s, err := Serve(p, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			rng := rand.New(rand.NewPCG(1, uint64(port)))
			fuzz := func(bytes int) {
				for bytes > 0 {
					text := make([]byte, 1+rng.IntN(2000))
					for i := range text {
						text[i] = byte(rng.Uint32())
					}
					if rng.IntN(2) == 0 {
						copy(text, hello(p, load.Nonce{byte(rng.Uint32())})[:min(len(text), 8)])
					}
					bytes -= len(text)
					c, err := net.Dial(network(l), fmt.Sprintf("127.0.0.1:%d", port))
					if err != nil {
						continue // refused, or the client has the port
					}
					_, _ = c.Write(text)
					c.Close()
				}
			}
			fuzz(each / 2)
			var fuzzing sync.WaitGroup
			fuzzing.Go(func() { fuzz(each / 2) })
			results, err := Run(context.Background(), p, nil, nil)
			fuzzing.Wait()
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range results {
				checkCarried(t, r)
			}
			if err := s.Close(); err != nil || s.Refused() == 0 {
				t.Errorf("%d were refused, %v", s.Refused(), err)
			}
		})
	}
}

// TestManyPending: connections that are silent do not keep the client out.
func TestManyPending(t *testing.T) {
	p := loopback(t, "tcp_lat", 1, 1, 1, 29900)
	s, err := Serve(p, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 * maxPending {
		dialPort(t, tcpLat, p)
	}
	results, err := Run(context.Background(), p, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		checkCarried(t, r)
	}
	if err := s.Close(); err != nil || s.Refused() != 2*maxPending {
		t.Errorf("%d were refused, %v", s.Refused(), err)
	}
}

// TestNonceStaysInside: what prints a plan does not print its nonce.
func TestNonceStaysInside(t *testing.T) {
	p := load.Plan{Nonce: load.Nonce{171, 205}}
	for _, format := range []string{"%v", "%+v", "%#v", "%x", "%d", "%s"} {
		if text := fmt.Sprintf(format, p); strings.Contains(text, "171") || strings.Contains(text, "abcd") || strings.Contains(text, "0xab") {
			t.Errorf("%s prints %s", format, text)
		}
	}
}
