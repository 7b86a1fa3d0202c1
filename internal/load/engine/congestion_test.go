package engine

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestCongestion wants all TCP sockets to have the plan's congestion control,
// where the namespace has another one.
func TestCongestion(t *testing.T) {
	other := otherCongestion(t)
	p := loopback(t, "tcp_bw", 1, 1, 4096, 25950)
	p.Congestion = other
	s, err := Serve(p, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	a, err := startActive(tcpBW, &p, 0, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	sockets := []socket{a.conn, s.ends[0].conn}
	s.mu.Unlock()
	for i, conn := range sockets {
		if got := congestion(t, conn); got != other {
			t.Errorf("socket %d has %q, want %q", i, got, other)
		}
	}
	a.stop()
}

// TestCongestionRefused goes on with the namespace's own.
func TestCongestionRefused(t *testing.T) {
	if err := TryCongestion("", "no-such"); err == nil {
		t.Error("a congestion control that does not exist can be had")
	}
	if err := TryCongestion("", "reno"); err != nil {
		t.Error(err)
	}
	p := loopback(t, "tcp_lat", 1, 1, 1, 25960)
	p.Congestion = "no-such"
	s, err := Serve(p, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	results, err := Run(context.Background(), p, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		check(t, tcpLat, p, r)
	}
}

// otherCongestion is one that this namespace has and does not use by default.
func otherCongestion(t *testing.T) string {
	t.Helper()
	read := func(name string) []string {
		text, err := os.ReadFile("/proc/sys/net/ipv4/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Fields(string(text))
	}
	own := read("tcp_congestion_control")
	for _, name := range read("tcp_allowed_congestion_control") {
		if !slices.Contains(own, name) {
			return name
		}
	}
	t.Skipf("only %v may be used here", own)
	return ""
}

func congestion(t *testing.T, s socket) string {
	t.Helper()
	name, err := unix.GetsockoptString(s.fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimRight(name, "\x00")
}
