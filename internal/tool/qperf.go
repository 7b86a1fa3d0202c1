package tool

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/venturi-net/venturi/result"
)

// maxUDP is the largest payload of an IPv4 datagram.
const maxUDP = 65507

var qperf = Tool{
	Name:    "qperf",
	Package: "qperf",
	Loads: []Load{
		{Name: "tcp_lat", Min: 1, Max: 1 << 30, Size: 1, Meaning: "mean RTT/2, one message at a time"},
		{Name: "udp_lat", Min: 1, Max: maxUDP, Size: 1,
			Meaning: "mean RTT/2, one message at a time; a lost one is waited for to the end, and that wait is in the mean"},
		{Name: "tcp_bw", Min: 1, Max: 1 << 30, Size: 64 << 10, Meaning: "whole messages at the receiver, by its clock of 10 ms"},
		{Name: "udp_bw", Min: 1, Max: maxUDP, Size: 32 << 10, Meaning: "datagrams at the receiver, by its clock of 10 ms"},
	},
	port:   qperfPort,
	server: func(Job) []string { return []string{"--listen_port", strconv.Itoa(qperfPort)} },
	client: qperfClient,
	parse:  qperfParse,
}

// qperf talks on one port and measures on another. Its own default for the
// second is a random one, which a firewall or a TIME_WAIT could hit.
const (
	qperfPort     = 19765
	qperfDataPort = 19766
)

func qperfClient(j Job) []string {
	return []string{j.To.Addr.String(),
		"--listen_port", strconv.Itoa(qperfPort),
		"--ip_port", strconv.Itoa(qperfDataPort),
		"--time", strconv.Itoa(int(j.Duration / time.Second)),
		"--msg_size", strconv.Itoa(j.Size),
		"--precision", "9",
		"--unify_units", "--unify_nodes", "--use_bits_per_sec", "--verbose_more_stat",
		j.Load, // last: an option only holds for the tests after it
	}
}

// qperfParse reads lines such as "    latency   =  9327.53161 ns" under the
// name of the test. With unified units each key has always the same unit.
func qperfParse(j Job, out []byte) (Result, error) {
	values, err := qperfValues(j.Load, string(out))
	if err != nil {
		return Result{}, err
	}
	var missing error
	get := func(key string) float64 {
		v, ok := values[key]
		if !ok {
			missing = errors.Join(missing, fmt.Errorf("it has no %s", key))
		}
		return v
	}
	totals := func(side string) Totals {
		return Totals{Messages: count(get(side + "_msgs [/]")), Bytes: count(get(side + "_bytes [bytes]"))}
	}
	r := Result{Sent: totals("loc_send"), Elapsed: j.Duration}
	switch {
	case j.Metric == result.OneWay:
		r.Received = totals("loc_recv")
		r.Value = get("latency [ns]")
	case j.Metric == result.Messages:
		r.Received = totals("rem_recv")
		r.Value = get("msg_rate [/sec]")
	case j.Load == "udp_bw":
		r.Received = totals("rem_recv")
		r.Value = get("recv_bw [bits/sec]")
	default:
		r.Received = totals("rem_recv")
		r.Value = get("bw [bits/sec]")
	}
	return r, missing
}

// qperfValues gives every value under "key [unit]"; a plain number has the unit "/".
func qperfValues(test, out string) (map[string]float64, error) {
	values := map[string]float64{}
	inside := false
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		if name, isHead := strings.CutSuffix(line, ":"); isHead {
			inside = name == test
			continue
		}
		key, rest, ok := strings.Cut(line, "=")
		if !ok || !inside {
			continue
		}
		fields := strings.Fields(rest)
		if len(fields) == 0 {
			return nil, fmt.Errorf("no value in %.200q", line)
		}
		v, err := strconv.ParseFloat(fields[0], 64)
		if err != nil {
			continue // a setting in words, not a figure
		}
		unit := "/"
		if len(fields) > 1 {
			unit = fields[1]
		}
		values[strings.TrimSpace(key)+" ["+unit+"]"] = v
	}
	if len(values) == 0 {
		return nil, fmt.Errorf("no result of %s in %.200q", test, out)
	}
	return values, nil
}
