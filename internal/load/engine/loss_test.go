package engine

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/load"
)

// TestLostReplies talks to a server that answers control frames and withholds
// one reply in 50: each such request is lost after its timeout, and no slice
// takes longer than its length and the timeouts.
func TestLostReplies(t *testing.T) {
	t.Parallel() // it waits
	patiently(t, func(slice time.Duration) error {
		p := loopback(t, "udp_lat", 1, 1, 1, 27750)
		p.Slice = slice
		results, err := runWithheld(t, p, 10*time.Second)
		if err != nil {
			return err
		}
		for _, r := range results {
			if share := float64(r.Latency.Lost) / float64(r.Latency.Requests); share > 0.05 {
				return fmt.Errorf("%d of %d lost, where 1 in 50 was withheld", r.Latency.Lost, r.Latency.Requests)
			}
		}
		return nil
	})
}

// runWithheld runs a plan whose flows each have a server that withholds replies, and tells whether that is seen.
func runWithheld(t *testing.T, p load.Plan, limit time.Duration) ([]load.SliceResult, error) {
	t.Helper()
	var servers sync.WaitGroup
	defer servers.Wait()
	for i := range p.Flows {
		server, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: p.Arms[0].ServerPort + i})
		if err != nil {
			t.Fatal(err)
		}
		defer server.Close()
		servers.Go(func() { withhold(server, p.Token) })
	}
	start := time.Now()
	results, err := Run(context.Background(), p, nil, nil)
	if took := time.Since(start); err == nil && took > limit {
		err = fmt.Errorf("three slices of %v took %v", p.Slice, took)
	}
	return results, errors.Join(err, problemsOfLosses(results))
}

// problemsOfLosses tells what is wrong with slices in which replies were lost: that is told, and the wait for
// them is in no figure.
func problemsOfLosses(results []load.SliceResult) (failed error) {
	var lost int64
	for _, r := range results {
		if r.Err != nil {
			return r.Err
		}
		failed = errors.Join(failed, problemsOfPings(r.Latency))
		lost += r.Latency.Lost
		if r.Latency.Replies == 0 {
			continue // which problemsOfPings has said
		}
		if mean, timeout := time.Duration(r.Latency.RTTSum/r.Latency.Replies), time.Duration(r.Latency.Timeout); mean >= timeout {
			failed = errors.Join(failed, fmt.Errorf("mean of %v: the timeouts of %v are in it", mean, timeout))
		}
	}
	if lost == 0 {
		failed = errors.Join(failed, errors.New("no loss was told"))
	}
	return failed
}

// withhold is a server that drops every fiftieth reply.
func withhold(server *net.UDPConn, token uint64) {
	buf := make([]byte, frameSize)
	for n := 1; ; {
		size, from, err := server.ReadFromUDP(buf)
		if err != nil {
			return
		}
		if f, ok := parseFrame(buf[:size], token); ok {
			answer := frame{kind: frameReady, token: token, slice: f.slice}
			if f.kind == frameEnd {
				answer.kind = frameDone
			}
			answer.put(buf)
		} else if n++; n%50 == 0 {
			continue
		}
		server.WriteToUDP(buf[:size], from)
	}
}
