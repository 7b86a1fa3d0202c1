package tune

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/search"
	"github.com/venturi-net/venturi/result"
)

func TestSampleOfRecord(t *testing.T) {
	rec := &result.Record{Plan: result.Plan{Cells: []result.Cell{{Name: "l", Load: latencyLoad}, {Name: "s", Load: streamLoad}, {Name: "p", Load: packetLoad}}}}
	h := result.NewRTT()
	for i := range int64(2000) {
		_ = h.RecordValue(1000 + i)
	}
	rtt, err := result.EncodeRTT(h)
	if err != nil {
		t.Fatal(err)
	}
	rec.Slices = []result.Slice{
		{Cell: "l", Latency: &result.Latency{Replies: 1, RTTMedian: 20}},
		{Cell: "l", Latency: &result.Latency{Replies: 1, RTTMedian: 40, RTT: rtt}},
		{Cell: "l", Latency: &result.Latency{Replies: 1, RTTMedian: 900}},
		{Cell: "s", Stream: &result.Stream{RateMessages: 5, RateNs: 1e9, RecvBytes: 100, Packets: 200, Retransmits: 4}},
		{Cell: "p", Stream: &result.Stream{RateMessages: 7, RateNs: 1e9, RecvBytes: 1}},
	}
	rec.Meters = []result.Meter{
		{Cell: "s", Name: "cpu", WallNs: 1000, Values: map[string]int64{"busy": 400, "steal": 10}},
		{Cell: "s", Name: "tcp", Values: map[string]int64{"tcp/out_segments": 100, "tcp/checksum_errors": 3}},
		{Cell: "p", Name: "udp", Values: map[string]int64{"udp/checksum_errors": 50}},
		{Cell: "s", Name: "links", Values: map[string]int64{"links/rx_dropped": 2}},
	}
	metrics := Metrics("balanced")
	s := sampleOf(rec, metrics)
	for i, want := range []float64{20, 2979, 2997, 5, 7, 4} {
		if math.Abs(s.Values[i]-want) > 0.001*want {
			t.Errorf("%s is %v, want %v", metrics[i].Name, s.Values[i], want)
		}
	}
	// Which tail is watched, the number of round trips decides.
	for replies, want := range map[int64]string{1: p99, minReplies - 1: p99, minReplies: p999} {
		rec.Slices[1].Latency.Replies = replies
		some := withTail(metrics, rec)
		if len(some) != len(metrics)-1 || some[1].Name != want || len(sampleOf(rec, some).Values) != len(some) {
			t.Errorf("%d round trips: %+v", replies, some)
		}
	}
	if want := []float64{0.02, 0.03, 0.02}; !slices.Equal(s.Troubles, want) || s.Void != "" {
		t.Errorf("troubles %v, want %v; void %q", s.Troubles, want, s.Void)
	}
	rec.Meters[0].Values["steal"] = 100
	if s := sampleOf(rec, metrics); !strings.Contains(s.Void, "10 %") {
		t.Errorf("void %q", s.Void)
	}
	// What was taken of several cores is a share of the time of them all.
	for _, core := range []string{"cpu0", "cpu1", "cpu5", "cpu11"} {
		rec.Meters[0].Values[core+"/busy"] = 100
	}
	if s := sampleOf(rec, metrics); s.Void != "" {
		t.Errorf("of 4 cores: void %q", s.Void)
	}
	rec.Meters[0].Values["steal"] = 240
	if s := sampleOf(rec, metrics); !strings.Contains(s.Void, " 6 %") {
		t.Errorf("of 4 cores: void %q", s.Void)
	}
	// A receiver that gets next to nothing is as bad as can be, and no gap.
	for _, c := range []struct {
		stream result.Stream
		want   float64
	}{
		{result.Stream{SentMessages: 1000, SendNs: 2e7, RecvMessages: 3, RateMessages: 3, RateNs: 2e7}, 150},
		{result.Stream{SentMessages: 1000, SendNs: 2e7}, 50},
		{result.Stream{SentMessages: 99, SendNs: 2e7}, math.NaN()},
	} {
		rec := &result.Record{Plan: rec.Plan, Slices: []result.Slice{{Cell: "p", Stream: &c.stream}}, Warnings: []result.Warning{{Cell: "p", Text: "shut"}}}
		if got := medianRate(packetLoad)(rec); math.Float64bits(got) != math.Float64bits(c.want) && got != c.want {
			t.Errorf("%+v is a rate of %v, want %v", c.stream, got, c.want)
		}
		if err := delivered(rec); (err == nil) != (c.stream.RecvMessages > 0) {
			t.Errorf("%+v came through: %v", c.stream, err)
		}
	}
	if err := delivered(&result.Record{Warnings: []result.Warning{{Cell: "l", Text: "shut"}}}); err == nil || err.Error() != "l: shut" {
		t.Errorf("error %v", err)
	}
}

// Who tunes for one thing gives some of another; who tunes for none, nothing.
func TestMetricsOfProfiles(t *testing.T) {
	for _, c := range []struct {
		profile, metric string
		role            search.Role
		margin          float64
	}{
		{"balanced", "latency", search.Goal, 0.03},
		{"balanced", "packets", search.Goal, 0.03},
		{"throughput", "throughput", search.Goal, 0.03},
		{"throughput", "latency", search.Guard, 0.25},
		{"throughput", "packets", search.Goal, 0.25},
		{"latency", "latency", search.Goal, 0.03},
		{"latency", "throughput", search.Guard, 0.25},
	} {
		all := Metrics(c.profile)
		i := slices.IndexFunc(all, func(m search.Metric) bool { return m.Name == c.metric })
		if all[i].Role != c.role || all[i].Margin != c.margin {
			t.Errorf("%s: %+v, want %s with a margin of %v", c.profile, all[i], c.role, c.margin)
		}
	}
}
