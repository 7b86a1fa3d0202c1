package tool

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/venturi-net/venturi/result"
)

// Netperf is in Debian's non-free only, so nobody may count on it. Its server is a program
// of its own.
var Netperf = &Tool{
	Name:    "netperf",
	Package: "netperf, in non-free",
	Loads: []Load{
		{Name: "tcp_lat", Min: 1, Max: 1 << 20, Size: 1, Meaning: "mean RTT/2, from the rate of TCP_RR"},
		{Name: "udp_lat", Min: 1, Max: maxUDP, Size: 1, Meaning: "mean RTT/2, from the rate of UDP_RR; " + netperfWaits},
		{Name: "tcp_rr", Min: 1, Max: 1 << 20, Size: 1, Metric: result.RoundTrip, Meaning: "MEAN_LATENCY of TCP_RR: mean round trip"},
		{Name: "udp_rr", Min: 1, Max: maxUDP, Size: 1, Metric: result.RoundTrip, Meaning: "MEAN_LATENCY of UDP_RR: mean round trip; " + netperfWaits},
		{Name: "tcp_bw", Min: 1, Max: 1 << 20, Size: 16 << 10, Meaning: "TCP_STREAM at the receiver"},
		{Name: "udp_bw", Min: 1, Max: maxUDP, Size: 65507, Meaning: "UDP_STREAM at the receiver"},
	},
	serverName: "netserver",
	port:       netperfPort,
	server:     func(Job) []string { return []string{"-D", "-4", "-p", strconv.Itoa(netperfPort)} },
	client:     netperfClient,
	parse:      netperfParse,
}

const (
	netperfPort  = 12865
	netperfWaits = "a lost message is waited for to the end"
)

// netperfTests are netperf's names of our loads.
var netperfTests = map[string]string{
	"tcp_lat": "TCP_RR", "udp_lat": "UDP_RR", "tcp_rr": "TCP_RR", "udp_rr": "UDP_RR", "tcp_bw": "TCP_STREAM", "udp_bw": "UDP_STREAM",
}

// The keys of its answer that are read.
const (
	netperfElapsed      = "ELAPSED_TIME"
	netperfRate         = "TRANSACTION_RATE"
	netperfMean         = "MEAN_LATENCY" // us
	netperfSent         = "LOCAL_SEND_CALLS"
	netperfSentBytes    = "LOCAL_BYTES_SENT"
	netperfReplies      = "LOCAL_RECV_CALLS"
	netperfReplyBytes   = "LOCAL_BYTES_RECVD"
	netperfArrived      = "REMOTE_RECV_CALLS"
	netperfArrivedBytes = "REMOTE_BYTES_RECVD"
)

func netperfClient(j Job) []string {
	size := strconv.Itoa(j.Size)
	args := []string{"-4", "-H", j.To.Addr.String(), "-p", strconv.Itoa(netperfPort),
		"-l", strconv.Itoa(int(j.Duration / time.Second)), "-P", "0", "-t", netperfTests[j.Load], "--"}
	if isStream(j) {
		args = append(args, "-m", size)
	} else {
		args = append(args, "-r", size+","+size)
	}
	keys := []string{netperfElapsed, netperfRate, netperfSent, netperfSentBytes,
		netperfReplies, netperfReplyBytes, netperfArrived, netperfArrivedBytes}
	if j.Metric == result.RoundTrip {
		keys = append(keys, netperfMean) // asked for, it reads the clock twice a transaction
	}
	// Its datagrams are not routed by default.
	return append(args, "-R", "1", "-k", strings.Join(keys, ","))
}

// netperfParse reads lines of KEY=VALUE. A stream of TCP arrives in other pieces than
// it was sent, so what arrived is counted by its bytes.
func netperfParse(j Job, out []byte) (Result, error) {
	values := map[string]float64{}
	for line := range strings.Lines(string(out)) {
		key, text, ok := strings.Cut(strings.TrimSpace(line), "=")
		if v, err := strconv.ParseFloat(text, 64); ok && err == nil {
			values[key] = v
		}
	}
	arrived, arrivedBytes := netperfReplies, netperfReplyBytes
	need := []string{netperfElapsed, netperfSent, netperfSentBytes}
	switch {
	case isStream(j):
		arrived, arrivedBytes = netperfArrived, netperfArrivedBytes
	case j.Metric == result.RoundTrip:
		need = append(need, netperfMean)
	default:
		need = append(need, netperfRate)
	}
	for _, key := range append(need, arrived, arrivedBytes) {
		if _, ok := values[key]; !ok {
			return Result{}, fmt.Errorf("it has no %s", key)
		}
	}
	elapsed, bytes := values[netperfElapsed], values[arrivedBytes]
	r := Result{
		Sent:     Totals{Messages: count(values[netperfSent]), Bytes: count(values[netperfSentBytes])},
		Received: Totals{Messages: count(values[arrived]), Bytes: count(bytes)},
		Elapsed:  secondsToDuration(elapsed),
	}
	if j.Load == "tcp_bw" {
		r.Received.Messages = count(bytes / float64(j.Size))
	}
	switch j.Metric {
	case result.OneWay:
		r.Value = 1e9 / (2 * values[netperfRate])
	case result.RoundTrip:
		r.Value = 1e3 * values[netperfMean]
	case result.Messages:
		r.Value = float64(r.Received.Messages) / elapsed
	default:
		r.Value = 8 * bytes / elapsed
	}
	return r, nil
}

// isStream tells a job that sends one way.
func isStream(j Job) bool { return strings.HasSuffix(j.Load, "_bw") }
