package analysis

import (
	"maps"
	"testing"

	"github.com/venturi-net/venturi/internal/analysis/recordtest"
	"github.com/venturi-net/venturi/result"
)

// What became of packets is summed over machines and series, but for a series of
// which one machine could not be read; of flows counts the most.
func TestFastPath(t *testing.T) {
	rec := recordtest.Make(recordtest.Truth{Seed: 1, Series: 3, Rounds: 4, Noise: recordtest.Quiet, Meters: true,
		Arms: []recordtest.Arm{recordtest.Host(), recordtest.Path("fast", 1)}, Cells: []result.Cell{recordtest.UDPLat}})
	for series := range 3 {
		for i, machine := range []string{"a", "b"} {
			m := result.Meter{Cell: "udp_lat/1", Arm: "fast", Series: series, Machine: machine, Name: "accel",
				Values: map[string]int64{"accel/carried_out": 10, "accel/carried_in": 20, "accel/slow_ttl": 10, "accel/flows": int64(5 - i - series)}}
			if series == 2 && i == 1 {
				m.Values = nil
			}
			rec.Meters = append(rec.Meters, m)
		}
	}
	s, err := Analyze(rec, Options{Live: true})
	if err != nil {
		t.Fatal(err)
	}
	host, fast := s.Cells[0].Rows[0], s.Cells[0].Rows[1]
	if host.FastPath != nil || fast.FastPath == nil {
		t.Fatalf("host %+v, fast %+v", host.FastPath, fast.FastPath)
	}
	got := fast.FastPath
	if want := map[string]int64{"carried_out": 40, "carried_in": 80, "slow_ttl": 40}; !maps.Equal(got.Packets, want) || got.Carried != 0.75 || got.Flows != 5 {
		t.Errorf("%+v", got)
	}
	if _, there := fast.Counters["accel/slow_ttl"]; there || len(fast.Counters) == 0 {
		t.Errorf("counters: %v", fast.Counters)
	}
}

// Which way slow packets went is told where the record tells; what became of them is
// called as it ever was.
func TestFastPathAdd(t *testing.T) {
	var old, now FastPath
	for _, key := range []string{"carried_out", "carried_in", "slow_ttl"} {
		old.Add(key, 2)
	}
	if !maps.Equal(old.Packets, map[string]int64{"carried_out": 2, "carried_in": 2, "slow_ttl": 2}) || old.SlowIngress != nil {
		t.Errorf("of an older record: %+v", old)
	}
	for key, n := range map[string]int64{"carried_out": 1, "carried_in": 2, "slow_ttl_out": 3, "slow_ttl_in": 4, "slow_ecn_out": 5} {
		now.Add(key, n)
	}
	if !maps.Equal(now.Packets, map[string]int64{"carried_out": 1, "carried_in": 2, "slow_ttl": 7, "slow_ecn": 5}) ||
		!maps.Equal(now.SlowIngress, map[string]int64{"slow_ttl": 4, "slow_ecn": 0}) {
		t.Errorf("%+v", now)
	}
}
