package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/host"

	"github.com/venturi-net/venturi/internal/load"
)

// pairs is n pairs of ends on loopback, each at addresses of its own.
func pairs(n int) []load.Pair {
	var all []load.Pair
	for i := range n {
		all = append(all, load.Pair{
			From: host.Endpoint{Addr: netip.AddrFrom4([4]byte{127, 0, 1, byte(i + 1)})},
			To:   host.Endpoint{Addr: netip.AddrFrom4([4]byte{127, 0, 2, byte(i + 1)})},
		})
	}
	return all
}

// TestEnds deals flows out to pairs of ends: each pair is used, and used alike.
func TestEnds(t *testing.T) {
	port := 25000
	for _, l := range load.Table {
		deals := []struct{ flows, pairs, used int }{{7, 5, 5}, {1, 5, 1}, {5, 5, 5}, {3, 1, 1}}
		if testing.Short() {
			deals = deals[:1]
		}
		for _, c := range deals {
			t.Run(fmt.Sprintf("%s/flows=%d/pairs=%d", l.Name, c.flows, c.pairs), func(t *testing.T) {
				skipUnlessOpens(t, l)
				var seen map[string]int
				patiently(t, func(slice time.Duration) error {
					port += 16
					p := loopback(t, l.Name, 1, c.flows, 64, port)
					p.Slice = slice
					seen = map[string]int{}
					p.Arms[0].Ends = pairs(c.pairs)
					p.Schedule = p.Schedule[:1]
					s, err := Serve(p, nil, nil)
					if err != nil {
						t.Fatal(err)
					}
					results, err := Run(context.Background(), p, onEnd(func() {
						s.mu.Lock()
						defer s.mu.Unlock()
						for _, end := range s.ends {
							if l.Kind != load.Connect { // see TestConnections
								seen[conversation(t, end.conn)]++
							}
						}
					}), nil)
					if err != nil {
						t.Fatal(err)
					}
					if err := s.Close(); err != nil {
						t.Fatal(err)
					}
					return problems(l, p, results[0])
				})
				if len(seen) != c.used && l.Kind != load.Connect {
					t.Errorf("traffic between %v, want %d pairs", slices.Sorted(maps.Keys(seen)), c.used)
				}
				for pair, flows := range seen {
					if flows < c.flows/c.used || flows > c.flows/c.used+1 {
						t.Errorf("%s has %d of %d flows", pair, flows, c.flows)
					}
				}
			})
		}
	}
}

// TestNoEnds refuses an arm that goes nowhere.
func TestNoEnds(t *testing.T) {
	p := loopback(t, "udp_lat", 1, 1, 1, 25900)
	p.Arms[0].Ends = nil
	if _, err := Serve(p, nil, nil); err == nil {
		t.Error("served")
	}
	if _, err := Run(context.Background(), p, nil, nil); err == nil {
		t.Error("ran")
	}
}

// TestShut serves the other arms when one end cannot be opened, and says why
// it cannot.
func TestShut(t *testing.T) {
	p := loopback(t, "tcp_lat", 3, 2, 1, 25910)
	p.Arms[1].Ends = append(p.Arms[1].Ends, load.Pair{
		From: p.Arms[1].Ends[0].From, To: host.Endpoint{Addr: netip.MustParseAddr("192.0.2.1")},
	})
	s, err := Serve(p, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if shut := s.FailedArms(); len(shut) != 1 || !errors.Is(shut[1], unix.EADDRNOTAVAIL) {
		t.Errorf("shut %v", shut)
	}
	p.Schedule = [][]int{{0, 2}, {2, 0}}
	results, err := Run(context.Background(), p, nil, nil)
	if err != nil || len(results) != 4 {
		t.Fatalf("%d results, %v", len(results), err)
	}
	for _, r := range results {
		check(t, tcpLat, p, r)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// onEnd is a observer that calls itself at the end of each slice.
type onEnd func()

func (onEnd) Begin(int) {}
func (f onEnd) End(int) { f() }

// conversation names the addresses between which a connected socket carries.
func conversation(t *testing.T, s socket) string {
	t.Helper()
	near, err := unix.Getsockname(s.fd)
	if err != nil {
		t.Fatal(err)
	}
	far, err := unix.Getpeername(s.fd)
	if err != nil {
		t.Fatal(err)
	}
	text := func(a unix.Sockaddr) string { return netip.AddrFrom4(a.(*unix.SockaddrInet4).Addr).String() }
	return text(far) + "-" + text(near)
}
