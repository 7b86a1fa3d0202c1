package rates

import (
	"strings"
	"testing"
)

// The planted core is found only if the stream makes the ping slower, more so on one core than
// on all, and a name is full there alone. That an idle ping differs between the wires, because a
// sleeping core has to wake up, is no finding.
func TestJudgeCrowded(t *testing.T) {
	ping := func(median, p99 float64, full ...string) crowdedPing { return crowdedPing{median, p99, full} }
	wire := func(idle, tcp, quic crowdedPing) crowdedPings {
		return crowdedPings{"": idle, "tcp_bw": tcp, "quic": quic}
	}
	crowded, spread := ping(300, 900, "cpu0", "cpu1"), ping(30, 90, "cpu0")
	for _, c := range []struct {
		name     string
		one, all crowdedPings
		missed   string // what each missed limit tells of; empty: none is missed
		n        int
	}{
		{"found", wire(ping(60, 120), crowded, crowded), wire(ping(20, 60), spread, spread), "", 0},
		{"cores that sleep", wire(ping(60, 120), ping(60, 120), ping(60, 120)), wire(ping(30, 60), ping(30, 60), ping(30, 60)), "", 8},
		{"slow on both wires", wire(ping(60, 120), crowded, crowded), wire(ping(20, 60), ping(100, 450, "cpu0"), spread), "on all cores", 1},
		{"the median alone", wire(ping(60, 120), ping(300, 100, "cpu1"), crowded), wire(ping(20, 60), spread, spread), "beside tcp_bw, on one core: p99", 1},
		{"full on both wires", wire(ping(60, 120), crowded, crowded), wire(ping(20, 60), spread, ping(30, 90, "cpu0", "cpu1")), "beside quic: a thread or core is full", 1},
		{"not measured", wire(ping(60, 120), crowded, crowded), crowdedPings{}, "", 2},
		{"no latency", crowdedPings{}, crowdedPings{}, "", 8},
	} {
		missed := 0
		for _, b := range judgeCrowded(c.one, c.all) {
			if b.Holds {
				continue
			}
			missed++
			if !strings.Contains(b.Text, c.missed) {
				t.Errorf("%s: missed is %q, want only %q", c.name, b.Text, c.missed)
			}
		}
		if missed != c.n {
			t.Errorf("%s: %d limits are missed, want %d", c.name, missed, c.n)
		}
	}
}
