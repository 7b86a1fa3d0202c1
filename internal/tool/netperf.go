package tool

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/venturi-net/venturi/result"
)

// Netperf is not in [Table]: Debian has it in non-free only, so nobody may count on
// it. Its server is a program of its own.
var Netperf = &Tool{
	Name:    "netperf",
	Package: "netperf, in non-free",
	Loads: []Load{
		{Name: "tcp_lat", Min: 1, Max: 1 << 20},
		{Name: "udp_lat", Min: 1, Max: maxUDP},
		{Name: "tcp_bw", Min: 1, Max: 1 << 20},
		{Name: "udp_bw", Min: 1, Max: maxUDP},
	},
	serverName: "netserver",
	port:       netperfPort,
	server:     func(Job) []string { return []string{"-D", "-4", "-p", strconv.Itoa(netperfPort)} },
	client:     netperfClient,
	parse:      netperfParse,
}

const netperfPort = 12865

// netperfTests are netperf's names of our loads.
var netperfTests = map[string]string{
	"tcp_lat": "TCP_RR", "udp_lat": "UDP_RR", "tcp_bw": "TCP_STREAM", "udp_bw": "UDP_STREAM",
}

// The keys of its answer that are read.
const (
	netperfElapsed      = "ELAPSED_TIME"
	netperfRate         = "TRANSACTION_RATE"
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
	if strings.HasSuffix(j.Load, "_lat") {
		args = append(args, "-r", size+","+size)
	} else {
		args = append(args, "-m", size)
	}
	// Its datagrams are not routed by default.
	return append(args, "-R", "1", "-k", strings.Join([]string{netperfElapsed, netperfRate, netperfSent, netperfSentBytes,
		netperfReplies, netperfReplyBytes, netperfArrived, netperfArrivedBytes}, ","))
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
	arrived, arrivedBytes := netperfArrived, netperfArrivedBytes
	if j.Metric == result.OneWay {
		arrived, arrivedBytes = netperfReplies, netperfReplyBytes
	}
	for _, key := range []string{netperfElapsed, netperfSent, netperfSentBytes, arrived, arrivedBytes} {
		if _, ok := values[key]; !ok {
			return Result{}, fmt.Errorf("it has no %s", key)
		}
	}
	elapsed, bytes := values[netperfElapsed], values[arrivedBytes]
	r := Result{
		Sent:     Totals{Messages: int64(values[netperfSent]), Bytes: int64(values[netperfSentBytes])},
		Received: Totals{Messages: int64(values[arrived]), Bytes: int64(bytes)},
		Elapsed:  time.Duration(elapsed * float64(time.Second)),
	}
	if j.Load == "tcp_bw" {
		r.Received.Messages = int64(bytes) / int64(j.Size)
	}
	switch j.Metric {
	case result.OneWay:
		r.Value = 1e9 / (2 * values[netperfRate])
	case result.Messages:
		r.Value = float64(r.Received.Messages) / elapsed
	default:
		r.Value = 8 * bytes / elapsed
	}
	return r, nil
}
