package tool

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/result"
)

// Iperf3 measures streams and datagrams.
var Iperf3 = &Tool{
	Name:    "iperf3",
	Package: "iperf3",
	Loads: []Load{
		{Name: "tcp_bw", Min: 1, Max: 1 << 20, Size: 128 << 10, Parallel: true, Paced: true,
			Meaning: "what the receiver read, by its own clock, from the first byte on"},
		// Its own header has 16 bytes. Its default is what the path's MTU leaves.
		{Name: "udp_bw", Min: 16, Max: maxUDP, Size: 1400, Parallel: true, Paced: true,
			Meaning: "what the receiver read, by its own clock; without --rate as fast as it goes, where iperf3 itself sends 1 Mb/s"},
	},
	port: iperf3Port,
	server: func(Job) []string {
		return []string{"--server", "--port", strconv.Itoa(iperf3Port)}
	},
	client: iperf3Client,
	parse:  iperf3Parse,
}

const iperf3Port = 5201

func iperf3Client(j Job) []string {
	args := []string{"--client", j.To.Addr.String(),
		"--port", strconv.Itoa(iperf3Port),
		"--time", strconv.Itoa(int(j.Duration / time.Second)),
		"--length", strconv.Itoa(j.Size),
		"--interval", "0", // no reports on the way
		"--json",
	}
	if j.Flows > 1 {
		args = append(args, "--parallel", strconv.Itoa(j.Flows))
	}
	// Its default for UDP is 1 Mbit/s. It takes bits, and of each flow.
	bits := j.Rate / float64(max(1, j.Flows))
	if j.Load == "udp_bw" {
		args, bits = append(args, "--udp"), bits*8*float64(j.Size)
	}
	return append(args, "--bitrate", strconv.FormatFloat(bits, 'f', 0, 64))
}

// iperf3Report is what we read of its JSON. UDP: end.sum mixes the sender's
// bytes with the receiver's loss, so only sum_sent and sum_received count.
// Numbers are read as floats: old versions print some integers as such.
type iperf3Report struct {
	Error string `json:"error"`
	Start struct {
		Test struct {
			Protocol  string  `json:"protocol"`
			BlockSize float64 `json:"blksize"`
		} `json:"test_start"`
	} `json:"start"`
	End struct {
		Sent     *iperf3Sum `json:"sum_sent"`
		Received *iperf3Sum `json:"sum_received"`
	} `json:"end"`
}

type iperf3Sum struct {
	Seconds     float64 `json:"seconds"`
	Bytes       float64 `json:"bytes"`
	Retransmits float64 `json:"retransmits"`
}

func iperf3Parse(j Job, out []byte) (Result, error) {
	var report iperf3Report
	if err := json.Unmarshal(out, &report); err != nil {
		return Result{}, err
	}
	if report.Error != "" {
		return Result{}, errors.New(sanitize.Text(report.Error))
	}
	sent, received, size := report.End.Sent, report.End.Received, report.Start.Test.BlockSize
	if sent == nil || received == nil || !(received.Seconds > 0) || !(size >= 1) {
		return Result{}, errors.New("it has no figures of sender and receiver (iperf3 is older than 3.7?)")
	}
	if int(size) != j.Size {
		return Result{}, fmt.Errorf("it ran with messages of %v bytes, not %d", size, j.Size)
	}
	r := Result{
		Sent:     Totals{Messages: count(sent.Bytes / size), Bytes: count(sent.Bytes)},
		Received: Totals{Messages: count(received.Bytes / size), Bytes: count(received.Bytes)},
		Elapsed:  secondsToDuration(received.Seconds),
		Value:    8 * received.Bytes / received.Seconds,
	}
	// A sender without such a count says nothing, or -1, which old versions print as 2^64.
	if n := count(sent.Retransmits); n > 0 && j.Load == "tcp_bw" {
		r.Retransmits = n
	}
	if j.Metric == result.Messages {
		r.Value /= 8 * size
	}
	return r, nil
}
