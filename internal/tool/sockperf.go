package tool

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/venturi-net/venturi/result"
)

// sockperf times each of its requests. Its messages have a header of 14 bytes.
var sockperf = Tool{
	Name:    "sockperf",
	Package: "sockperf",
	Loads: []Load{
		{Name: "tcp_lat", Min: 14, Max: maxUDP, Size: 14, Meaning: sockperfMeaning},
		{Name: "udp_lat", Min: 14, Max: maxUDP, Size: 14, Meaning: sockperfMeaning},
	},
	port: sockperfPort,
	server: func(j Job) []string {
		return append([]string{"server", "--port", strconv.Itoa(sockperfPort), "--ip", j.To.Addr.String()}, sockperfTransport(j)...)
	},
	client: func(j Job) []string {
		return append([]string{"ping-pong", "--port", strconv.Itoa(sockperfPort), "--ip", j.To.Addr.String(),
			"--time", strconv.Itoa(int(j.Duration / time.Second)), "--msg-size", strconv.Itoa(j.Size)}, sockperfTransport(j)...)
	},
	parse: sockperfParse,
}

const (
	sockperfPort    = 11111
	sockperfMeaning = "mean RTT/2 of each request, without its first 400 ms and last 50 ms"
)

func sockperfTransport(j Job) []string {
	if strings.HasPrefix(j.Load, "tcp") {
		return []string{"--tcp"}
	}
	return nil
}

// sockperfParse reads the lines "[Valid Duration] RunTime=1.550 sec; SentMessages=2;
// ReceivedMessages=2" and "Summary: Latency is 13.916 usec", which may be colored.
func sockperfParse(j Job, out []byte) (Result, error) {
	var r Result
	valid, latency := false, false
	for line := range strings.Lines(string(out)) {
		if _, text, ok := strings.Cut(line, "[Valid Duration] "); ok {
			var seconds float64
			var sent, received int64
			n, err := fmt.Sscanf(text, "RunTime=%f sec; SentMessages=%d; ReceivedMessages=%d", &seconds, &sent, &received)
			valid = n == 3 && err == nil
			r.Sent = Totals{Messages: sent, Bytes: sent * int64(j.Size)}
			r.Received = Totals{Messages: received, Bytes: received * int64(j.Size)}
			r.Elapsed = secondsToDuration(seconds)
		}
		if _, text, ok := strings.Cut(line, "Summary: Latency is "); ok {
			us, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(text), " usec"), 64)
			r.Value, latency = us*1e3, err == nil
		}
	}
	if !valid || !latency {
		return Result{}, errors.New("it has no line of its valid duration, or none of its latency")
	}
	if j.Metric != result.OneWay {
		return Result{}, fmt.Errorf("it has no figure %q", j.Metric)
	}
	return r, nil
}
