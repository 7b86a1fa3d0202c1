package tool

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/result"
)

// What the real programs printed, and what must be read from it.
var outputs = []struct {
	file   string
	tool   *Tool
	load   string
	size   int
	metric result.Metric
	want   Result
}{
	{"qperf-tcp_lat-1.txt", &qperf, "tcp_lat", 1, result.OneWay,
		Result{Value: 6288.31945, Sent: Totals{159026, 159026}, Received: Totals{159025, 159025}, Elapsed: 2 * time.Second}},
	{"qperf-udp_lat-1.txt", &qperf, "udp_lat", 1, result.OneWay,
		Result{Value: 5592.48147, Sent: Totals{178812, 178812}, Received: Totals{178811, 178811}, Elapsed: 2 * time.Second}},
	{"qperf-tcp_bw-65536.txt", &qperf, "tcp_bw", 65536, result.Bandwidth,
		Result{Value: 29100343296, Sent: Totals{111008, 7275020288}, Received: Totals{111009, 7275085824}, Elapsed: 2 * time.Second}},
	{"qperf-udp_bw-1.txt", &qperf, "udp_bw", 1, result.Messages,
		Result{Value: 366535.5, Sent: Totals{753943, 753943}, Received: Totals{733071, 733071}, Elapsed: 2 * time.Second}},
	{"qperf-udp_bw-65507.txt", &qperf, "udp_bw", 65507, result.Bandwidth,
		Result{Value: 7746595792, Sent: Totals{29578, 1937566046}, Received: Totals{29564, 1936648948}, Elapsed: 2 * time.Second}},
	{"netperf-tcp_lat-1.txt", Netperf, "tcp_lat", 1, result.OneWay,
		Result{Value: 1e9 / 2 / 29203.408, Sent: Totals{58443, 58443}, Received: Totals{58443, 58443}, Elapsed: 2 * time.Second}},
	{"netperf-udp_lat-1.txt", Netperf, "udp_lat", 1, result.OneWay,
		Result{Value: 1e9 / 2 / 18220.372, Sent: Totals{36442, 36442}, Received: Totals{36442, 36442}, Elapsed: 2 * time.Second}},
	{"netperf-tcp_bw-65536.txt", Netperf, "tcp_bw", 65536, result.Bandwidth,
		Result{Value: 8 * 1059472229 / 2.01, Sent: Totals{16166, 1059454976}, Received: Totals{16166, 1059472229}, Elapsed: 2010 * time.Millisecond}},
	{"netperf-udp_bw-1.txt", Netperf, "udp_bw", 1, result.Messages,
		Result{Value: 16834 / 2.5, Sent: Totals{21847, 21847}, Received: Totals{16834, 16834}, Elapsed: 2500 * time.Millisecond}},
	{"iperf3-tcp_bw-65536.json", Iperf3, "tcp_bw", 65536, result.Bandwidth,
		Result{Value: 8 * 5990645760 / 2.002798, Sent: Totals{91430, 5991956480}, Received: Totals{91410, 5990645760}, Elapsed: 2002798 * time.Microsecond, Retransmits: 91}},
	{"netperf-tcp_rr-1.txt", Netperf, "tcp_rr", 1, result.RoundTrip,
		Result{Value: 55180, Sent: Totals{36212, 36212}, Received: Totals{36212, 36212}, Elapsed: 2 * time.Second}},
	{"ping-56.txt", Ping, "ping", 56, result.RoundTrip,
		Result{Value: 25550, Median: 23500.0, Sent: Totals{20, 1120}, Received: Totals{20, 1120}, Elapsed: 2 * time.Second}},
	{"sockperf-udp_lat-14.txt", &sockperf, "udp_lat", 14, result.OneWay,
		Result{Value: 24134.0, Sent: Totals{32107, 449498}, Received: Totals{32107, 449498}, Elapsed: 1550 * time.Millisecond}},
	{"iperf3-udp_bw-16.json", Iperf3, "udp_bw", 16, result.Messages,
		Result{Value: 5047792 / 16 / 2.002505, Sent: Totals{780780, 12492480}, Received: Totals{315487, 5047792}, Elapsed: 2002505 * time.Microsecond}},
}

func TestParse(t *testing.T) {
	for _, o := range outputs {
		t.Run(o.file, func(t *testing.T) {
			j := Job{Load: o.load, Size: o.size, Metric: o.metric, Duration: 2 * time.Second}
			got, err := o.tool.parse(j, fixture(t, o.file))
			if err != nil {
				t.Fatal(err)
			}
			got.Elapsed = got.Elapsed.Round(time.Microsecond)
			if math.Abs(got.Value-o.want.Value) < 1e-6*o.want.Value {
				got.Value = o.want.Value
			}
			if math.Abs(got.Median-o.want.Median) < 1e-3 {
				got.Median = o.want.Median
			}
			if got != o.want {
				t.Errorf("got  %+v\nwant %+v", got, o.want)
			}
		})
	}
}

// What a tool says when it could not measure must not become a figure.
func TestParseRefuses(t *testing.T) {
	cases := []struct {
		name string
		tool *Tool
		j    Job
		out  string
		want string
	}{
		{"qperf could not send", &qperf, Job{Load: "udp_bw", Size: 65508, Metric: result.Bandwidth}, string(fixture(t, "qperf-udp_bw-65508.txt")), "no loc_send_msgs"},
		{"qperf of another test", &qperf, Job{Load: "udp_lat", Size: 1, Metric: result.OneWay}, string(fixture(t, "qperf-tcp_lat-1.txt")), "no result of udp_lat"},
		{"qperf in another unit", &qperf, Job{Load: "tcp_lat", Size: 1, Metric: result.OneWay}, "tcp_lat:\n latency = 6 us\n", "no latency [ns]"},
		{"qperf without output", &qperf, Job{Load: "tcp_lat", Size: 1, Metric: result.OneWay}, "", "no result"},
		{"qperf cut off", &qperf, Job{Load: "tcp_lat", Size: 1, Metric: result.OneWay}, "tcp_lat:\n    latency   =\n", "no value"},
		{"netperf without output", Netperf, Job{Load: "udp_bw", Size: 1, Metric: result.Messages}, "", "no ELAPSED_TIME"},
		{"netperf of another test", Netperf, Job{Load: "tcp_lat", Size: 1, Metric: result.OneWay}, "ELAPSED_TIME=2.00\nLOCAL_SEND_CALLS=1\nLOCAL_BYTES_SENT=1\n", "no TRANSACTION_RATE"},
		{"iperf3 refused", Iperf3, Job{Load: "tcp_bw", Size: 65536}, string(fixture(t, "iperf3-refused.json")), "unable to connect to server"},
		{"iperf3 at another size", Iperf3, Job{Load: "tcp_bw", Size: 100}, string(fixture(t, "iperf3-tcp_bw-65536.json")), "65536 bytes, not 100"},
		{"iperf3 cut off", Iperf3, Job{Load: "tcp_bw", Size: 65536}, string(fixture(t, "iperf3-tcp_bw-65536.json"))[:700], "JSON"},
		{"ping without replies", Ping, Job{Load: "ping", Size: 56}, string(fixture(t, "ping-lost.txt")), "0 replies to 3 requests"},
		{"ping without output", Ping, Job{Load: "ping", Size: 56}, "", "no line of packets"},
		{"ping without its summary", Ping, Job{Load: "ping", Size: 56}, "64 bytes from 1.1.1.1: icmp_seq=1 ttl=64 time=0.024 ms\n", "no line of packets"},
		{"ping of duplicates", Ping, Job{Load: "ping", Size: 56}, "64 bytes from 1.1.1.1: icmp_seq=1 ttl=64 time=0.024 ms (DUP!)\n1 packets transmitted, 1 received", "times 0"},
		{"sockperf without output", &sockperf, Job{Load: "udp_lat", Size: 14, Metric: result.OneWay}, "", "no line"},
		{"sockperf cut off", &sockperf, Job{Load: "udp_lat", Size: 14, Metric: result.OneWay}, string(fixture(t, "sockperf-udp_lat-14.txt"))[:500], "no line"},
		{"netperf without a mean", Netperf, Job{Load: "tcp_rr", Size: 1, Metric: result.RoundTrip}, string(fixture(t, "netperf-tcp_lat-1.txt")), "no MEAN_LATENCY"},
		{"iperf3 without figures", Iperf3, Job{Load: "tcp_bw", Size: 65536}, "{}", "no figures"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r, err := c.tool.parse(c.j, []byte(c.out))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %+v, %v; want an error with %q", r, err, c.want)
			}
		})
	}
}

// Where values are cut to steps, the median is between two.
func TestSteppedMedian(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{
		{[]float64{10, 10, 10, 10}, 10},
		{[]float64{10, 10, 11, 11}, 10.5},
		{[]float64{9, 10, 10, 10, 10, 11, 11, 11}, 10.25},
		{[]float64{5}, 5},
	} {
		if got := steppedMedian(c.values, 1); got != c.want {
			t.Errorf("%v: %v, want %v", c.values, got, c.want)
		}
	}
}

// A number that cannot be of a run is no figure, whatever the tool calls it.
func TestImplausible(t *testing.T) {
	for name, c := range map[string]struct {
		tool *Tool
		j    Job
		out  string
	}{
		"netperf's NaN":         {Netperf, Job{Load: "tcp_bw", Size: 1, Metric: result.Bandwidth}, "ELAPSED_TIME=NaN\nLOCAL_SEND_CALLS=1\nLOCAL_BYTES_SENT=1\nREMOTE_RECV_CALLS=1\nREMOTE_BYTES_RECVD=1\n"},
		"netperf's 1e300 bytes": {Netperf, Job{Load: "tcp_bw", Size: 1, Metric: result.Bandwidth}, "ELAPSED_TIME=2\nLOCAL_SEND_CALLS=1\nLOCAL_BYTES_SENT=1\nREMOTE_RECV_CALLS=1\nREMOTE_BYTES_RECVD=1e300\n"},
		"netperf's no time":     {Netperf, Job{Load: "tcp_bw", Size: 1, Metric: result.Bandwidth}, "ELAPSED_TIME=0\nLOCAL_SEND_CALLS=1\nLOCAL_BYTES_SENT=1\nREMOTE_RECV_CALLS=1\nREMOTE_BYTES_RECVD=1\n"},
		"sockperf's negative":   {&sockperf, Job{Load: "udp_lat", Size: 14, Metric: result.OneWay}, "[Valid Duration] RunTime=1.5 sec; SentMessages=-1; ReceivedMessages=-1\nSummary: Latency is 5 usec\n"},
		"sockperf's infinity":   {&sockperf, Job{Load: "udp_lat", Size: 14, Metric: result.OneWay}, "[Valid Duration] RunTime=1.5 sec; SentMessages=2; ReceivedMessages=2\nSummary: Latency is +Inf usec\n"},
		"ping's hour":           {Ping, Job{Load: "ping", Size: 56, Duration: time.Second}, "x time=9e99 ms\n1 packets transmitted, 1 received"},
		"iperf3's huge count":   {Iperf3, Job{Load: "tcp_bw", Size: 1}, `{"start":{"test_start":{"blksize":1}},"end":{"sum_sent":{"seconds":1,"bytes":1e30},"sum_received":{"seconds":1,"bytes":1e30}}}`},
		"iperf3's huge time":    {Iperf3, Job{Load: "tcp_bw", Size: 1}, `{"start":{"test_start":{"blksize":1}},"end":{"sum_sent":{"seconds":1e30,"bytes":1},"sum_received":{"seconds":1e30,"bytes":1}}}`},
	} {
		if r, err := c.tool.read(c.j, []byte(c.out)); err == nil {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// What a tool says in its own words may be meant for a terminal.
func TestNoEscapes(t *testing.T) {
	const evil = "\x1b]0;owned\a\x1b[2J\u202e"
	for _, tool := range Table {
		for _, l := range tool.Loads {
			for _, out := range []string{evil, l.Name + ":\n" + evil + "=\n", `{"error":"\u001b[2J"}`, "x time=" + evil + " ms\n"} {
				_, err := tool.read(Job{Load: l.Name, Size: l.Size, Duration: time.Second}, []byte(out))
				if err == nil || strings.ContainsAny(err.Error(), "\x1b\a\u202e") {
					t.Errorf("%s %s: %q", tool.Name, l.Name, err)
				}
			}
		}
	}
	p := &process{err: errors.New("exit status 1")}
	p.errs.Write([]byte(evil))
	if got := p.failure().Error(); strings.ContainsAny(got, "\x1b\a") {
		t.Errorf("a failure says %q", got)
	}
}

// A tool that writes without end is not kept in memory.
func TestOutputBounded(t *testing.T) {
	var o output
	chunk := make([]byte, 1<<20)
	for range 40 {
		if n, err := o.Write(chunk); n != len(chunk) || err != nil {
			t.Fatal(n, err)
		}
	}
	if o.Len() != mostOutput || !o.truncated {
		t.Errorf("%d bytes are kept, cut %v", o.Len(), o.truncated)
	}
}

func TestLost(t *testing.T) {
	r := Result{Sent: Totals{Messages: 10}, Received: Totals{Messages: 9}}
	if got := r.LostMessages(result.Messages); got != 1 {
		t.Errorf("stream: %d lost, want 1", got)
	}
	if got := r.LostMessages(result.OneWay); got != 0 {
		t.Errorf("ping-pong: %d lost, want 0: the last request was still out", got)
	}
	// A receiver may have read what the sender had not counted yet.
	r.Received.Messages = 11
	if got := r.LostMessages(result.Messages); got != 0 {
		t.Errorf("more received than sent: %d lost, want 0", got)
	}
}

// A job that makes no sense is a usage error before anything is started.
func TestJobRefused(t *testing.T) {
	good := Job{Load: "tcp_lat", Size: 1, Duration: 2 * time.Second}
	for name, spoil := range map[string]func(*Job){
		"unknown load":     func(j *Job) { j.Load = "sctp_lat" },
		"no size":          func(j *Job) { j.Size = 0 },
		"too large":        func(j *Job) { j.Load, j.Size = "udp_lat", 65508 },
		"too short":        func(j *Job) { j.Duration = time.Second },
		"half a second":    func(j *Job) { j.Duration = 2500 * time.Millisecond },
		"wrong metric":     func(j *Job) { j.Metric = result.Bandwidth },
		"no transactions":  func(j *Job) { j.Metric = result.Transactions },
		"latency of flood": func(j *Job) { j.Load, j.Metric = "tcp_bw", result.OneWay },
	} {
		j := good
		spoil(&j)
		if _, err := qperf.Run(t.Context(), j); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if err := Iperf3.Carries("udp_bw", 1); verr.Code(err) != verr.Usage {
		t.Errorf("iperf3 with one-byte datagrams: %v", err)
	}
	if _, err := Find("netcat"); verr.Code(err) != verr.Usage || !strings.Contains(err.Error(), "qperf, iperf3") {
		t.Errorf("unknown tool: %v", err)
	}
}

func TestMissing(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for _, tool := range Table {
		_, err := tool.Run(t.Context(), Job{Load: tool.Loads[0].Name, Size: tool.Loads[0].Size, Duration: 2 * time.Second})
		var e *verr.Error
		if !errors.As(err, &e) || e.Code != verr.Missing || !strings.Contains(e.Hint, "apt-get install "+tool.Package) {
			t.Errorf("%s: %v", tool.Name, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for i, o := range outputs {
		out, err := os.ReadFile(filepath.Join("testdata", o.file))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(i, out)
	}
	f.Fuzz(func(t *testing.T, i int, out []byte) {
		if i < 0 || i >= len(outputs) {
			return
		}
		o := outputs[i]
		j := Job{Load: o.load, Size: o.size, Metric: o.metric, Duration: time.Second}
		if r, err := o.tool.read(j, out); err == nil {
			if why := r.implausible(); why != "" {
				t.Errorf("%s: %+v from %q", why, r, out)
			}
		} else if strings.ContainsFunc(err.Error(), unicode.IsControl) {
			t.Errorf("the error is %q", err)
		}
	})
}

func fixture(t *testing.T, name string) []byte {
	t.Helper()
	out, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return out
}
