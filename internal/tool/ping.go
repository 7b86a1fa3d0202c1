package tool

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/venturi-net/venturi/result"
)

// Ping is iputils' ping. It needs no server: the far end's kernel answers.
var Ping = &Tool{
	Name:    "ping",
	Package: "iputils-ping",
	Loads: []Load{
		// Its reply shows a time only where the request has room for one.
		{Name: "ping", Min: 16, Max: maxUDP, Size: 56, Metric: result.RoundTrip, Paced: true,
			Meaning: "median round trip from when each request was sent until the kernel has its reply, in steps of 1 us"},
	},
	client:     pingClient,
	parse:      pingParse,
	versionArg: "-V",
}

// pingRate is how many requests a second a job has that names no rate: the write-ups send
// one a second, and a run here has only seconds.
const pingRate = 100

func pingClient(j Job) []string {
	rate := j.Rate
	if rate <= 0 {
		rate = pingRate
	}
	count := max(1, int(rate*j.Duration.Seconds()))
	return []string{"-n", "-i", strconv.FormatFloat(1/rate, 'f', 6, 64),
		"-c", strconv.Itoa(count), "-s", strconv.Itoa(j.Size),
		// Replies that are lost would be awaited for ten seconds.
		"-W", "1", j.To.Addr.String()}
}

// pingParse reads the line of each reply, because the mean at the end is in whole
// microseconds, and the counts of the summary.
func pingParse(j Job, out []byte) (Result, error) {
	r := Result{Elapsed: j.Duration}
	var sum float64
	var all []float64
	counted, summary := int64(0), false
	for line := range strings.Lines(string(out)) {
		if ms, ok := pingTime(line); ok {
			sum += ms * 1e6
			all = append(all, ms*1e6)
			counted++
			continue
		}
		if sent, received, ok := pingCounts(line); ok {
			r.Sent = Totals{Messages: sent, Bytes: sent * int64(j.Size)}
			r.Received = Totals{Messages: received, Bytes: received * int64(j.Size)}
			summary = true
		}
	}
	switch {
	case !summary:
		return Result{}, errors.New("it has no line of packets transmitted and received")
	case counted == 0 || r.Received.Messages < counted || r.Sent.Messages < r.Received.Messages:
		return Result{}, fmt.Errorf("it tells of %d replies to %d requests, and times %d of them", r.Received.Messages, r.Sent.Messages, counted)
	}
	r.Value, r.Median = sum/float64(counted), steppedMedian(all, pingStep)
	return r, nil
}

// pingStep is what ping counts round trips below 1 ms in, ns.
const pingStep = 1000

// steppedMedian is the median of values that were cut to steps: where between two steps it is
// follows from how many values lie on either side of its own.
func steppedMedian(values []float64, step float64) float64 {
	slices.Sort(values)
	at := values[len(values)/2]
	below, equal := 0, 0
	for _, v := range values {
		switch {
		case v < at-step/2:
			below++
		case v <= at+step/2:
			equal++
		}
	}
	return max(0, at-step/2+step*(float64(len(values))/2-float64(below))/float64(equal))
}

// pingTime reads "64 bytes from 10.0.0.2: icmp_seq=1 ttl=64 time=0.024 ms". A duplicate,
// which is marked, answers nothing.
func pingTime(line string) (ms float64, ok bool) {
	_, text, found := strings.Cut(line, " time=")
	if !found || strings.Contains(line, "DUP!") || strings.Contains(line, "BAD CHECKSUM") {
		return 0, false
	}
	text, found = strings.CutSuffix(strings.TrimSpace(text), " ms")
	v, err := strconv.ParseFloat(text, 64)
	return v, found && err == nil && v >= 0 && v < float64(time.Hour/time.Millisecond)
}

// pingCounts reads "5 packets transmitted, 4 received, +1 duplicates, 20% packet loss".
func pingCounts(line string) (sent, received int64, ok bool) {
	n, err := fmt.Sscanf(line, "%d packets transmitted, %d received", &sent, &received)
	return sent, received, n == 2 && err == nil && sent >= 0 && received >= 0
}
