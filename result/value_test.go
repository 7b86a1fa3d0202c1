package result_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/venturi-net/venturi/result"
)

func TestValue(t *testing.T) {
	lat := func(replies, sum int64) *result.Slice {
		return &result.Slice{Elapsed: int64(time.Second), Latency: &result.Latency{Replies: replies, RTTSum: sum}}
	}
	stream := func(messages, bytes, ns int64) *result.Slice {
		return &result.Slice{Stream: &result.Stream{RateMessages: messages, RateBytes: bytes, RateNs: ns}}
	}
	failed := lat(10, 1000)
	failed.Failed = "refused"
	for _, tc := range []struct {
		name string
		s    *result.Slice
		m    result.Metric
		want float64 // 0: none
	}{
		{"one way", lat(10, 160_000), result.OneWay, 8000},
		{"transactions", lat(10, 160_000), result.Transactions, 10},
		{"connections", lat(10, 160_000), result.Connections, 10},
		{"bandwidth", stream(1, 1250, 1000), result.Bandwidth, 1e10},
		{"messages", stream(5, 5, 1000), result.Messages, 5e6},
		{"no reply", lat(0, 0), result.OneWay, 0},
		{"no reply, rate", lat(0, 0), result.Transactions, 0},
		{"no time", lat(10, 0), result.OneWay, 0},
		{"nothing arrived", stream(0, 0, 1000), result.Bandwidth, 0},
		{"no clock", stream(5, 5, 0), result.Messages, 0},
		{"failed", failed, result.OneWay, 0},
		{"other kind", lat(10, 1000), result.Bandwidth, 0},
		{"other kind", stream(1, 1, 1), result.OneWay, 0},
		{"unknown metric", lat(10, 1000), "x", 0},
		{"empty", &result.Slice{}, result.OneWay, 0},
	} {
		got, ok := tc.s.Value(tc.m)
		if ok != (tc.want > 0) || math.Abs(got-tc.want) > 1e-6*tc.want {
			t.Errorf("%s: %v %v, want %v", tc.name, got, ok, tc.want)
		}
	}
}

func TestRTTRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 3))
	h := result.NewRTT()
	n := int64(0)
	for range 5000 {
		v := int64(math.Exp(r.Float64() * math.Log(float64(result.MaxRTT))))
		if err := h.RecordValue(v); err != nil {
			t.Fatalf("%d ns is in range: %v", v, err)
		}
		n++
	}
	if err := h.RecordValue(result.MaxRTT); err != nil {
		t.Fatal(err)
	}
	enc, err := result.EncodeRTT(h)
	if err != nil {
		t.Fatal(err)
	}
	back, err := result.DecodeRTT(enc)
	if err != nil || !back.Equals(h) {
		t.Fatalf("decoded histogram differs: %v", err)
	}
	buckets, err := result.RTTBuckets(enc)
	if err != nil {
		t.Fatal(err)
	}
	total, last := int64(0), int64(-1)
	for _, b := range buckets {
		if b.Value <= last || b.Count <= 0 {
			t.Fatalf("bucket %+v after value %d", b, last)
		}
		total, last = total+b.Count, b.Value
	}
	if total != n+1 {
		t.Errorf("%d values in buckets, %d were recorded", total, n+1)
	}
	if got := back.ValueAtPercentile(100); math.Abs(float64(got)/float64(result.MaxRTT)-1) > 1e-3 {
		t.Errorf("largest value %d, want %d within 0.1 %%", got, result.MaxRTT)
	}
}
