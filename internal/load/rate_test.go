package load

import (
	"errors"
	"math"
	"testing"
	"time"
)

func TestParseRate(t *testing.T) {
	for text, want := range map[string]float64{"500": 500, "100k": 1e5, "100K": 1e5, "2.5M": 2.5e6, "20G": 2e10, "0.5": 0.5} {
		got, err := ParseRate(text)
		if err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
		if again, err := ParseRate(FormatRate(want)); err != nil || again != want {
			t.Errorf("%v is written %s and read %v: %v", want, FormatRate(want), again, err)
		}
	}
	for _, text := range []string{"", "k", "-1", "0", "1e9", "+5", "5T", "NaN", "Inf", "0x10", "1_000", "5 k", "5kk", "999999G", "1.2.3"} {
		if got, err := ParseRate(text); err == nil {
			t.Errorf("%q is read as %v", text, got)
		}
	}
}

func TestCheckRate(t *testing.T) {
	for _, c := range []struct {
		load Load
		rate float64
		ok   bool
	}{{tcpBW, 2e10, true}, {tcpBW, 1e14, false}, {tcpBW, 0.1, false}, {udpBW, 1e5, true}, {udpBW, 1e10, false}, {udpBW, 0.01, false}, {tcpCRR, 100, false},
		{probe, 0, true}, {ping, 1, true}, {probe, 10000, true}, {probe, 10001, false}, {ping, 0.5, false}, {probe, -1, false},
		{tcpLat, 0, true}, {tcpLat, 100, false}, {probe, math.NaN(), false}} {
		if err := c.load.CheckRate(c.rate, 64, 1); (err == nil) != c.ok {
			t.Errorf("%s at %v: %v", c.load.Name, c.rate, err)
		}
	}
	if d := ping.SliceAt(1, 56, 1); d != 5*time.Second {
		t.Errorf("a slice of one ping a second takes %v", d)
	}
	if d := ping.SliceAt(1000, 56, 1); d != ping.Slice {
		t.Errorf("a slice of 1000 pings a second takes %v", d)
	}
}

func TestRateOfStreams(t *testing.T) {
	if r := tcpBW.messageRate(2e10, 1<<16, 5); r < 7629 || r > 7630 {
		t.Errorf("%v messages a second on each of 5 flows, want 7629.4", r)
	}
	if r := udpBW.messageRate(1e5, 64, 5); r != 20_000 {
		t.Errorf("%v datagrams a second on each of 5 flows, want 20000", r)
	}
	// 32 Mb/s in messages of 64 KiB are 61 a second: five of them take 82 ms.
	if d := tcpBW.SliceAt(32e6, 1<<16, 1); d < 81*time.Millisecond || d > 83*time.Millisecond {
		t.Errorf("a slice at 32 Mb/s takes %v", d)
	}
	var failed error
	for _, l := range Table {
		failed = errors.Join(failed, l.CheckRate(0, l.Size, 1))
	}
	if failed != nil {
		t.Error(failed)
	}
}
