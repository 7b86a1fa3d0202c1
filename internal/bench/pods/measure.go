package pods

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/stats"
)

// Load is what is sent on a flow.
type Load string

// The loads, as those of a lab are called: requests of 8 bytes in turn, and messages of 64 KiB.
const (
	TCPLatency Load = "tcp_lat"
	UDPLatency Load = "udp_lat"
	TCPStream  Load = "tcp_bw"
)

// Arm is one way from a client to a server.
type Arm struct {
	Name     string
	From, To host.Endpoint
	Port     uint16         // of the server
	Via      netip.AddrPort // of the Service that the client sends to; zero: the server's own
	Pins     []string       // of the fast paths that carry it; nil: none does
}

// Plan is what to measure.
type Plan struct {
	Arms                 []Arm
	Loads                []Load
	ClientCPU, ServerCPU int
	Seed                 uint64
	Budget               time.Duration
	Series, Rounds       int // at least so many series, each of so many rounds of new flows
	Slice                time.Duration
}

// Row is what one load did on one arm.
type Row struct {
	Load           Load
	Arm            Arm
	Requests, Lost int64
	Carried, Slow  uint64 // packets, as its fast paths count them

	logs [][]float64 // by series and round, of values; NaN: a slice without an answer
}

// Share is how many of the packets were carried; NaN: there is no fast path.
func (r Row) Share() float64 { return float64(r.Carried) / float64(r.Carried+r.Slow) }

// Typical is the median of all slices: nanoseconds, or bytes a second.
func (r Row) Typical() float64 {
	return math.Exp(stats.Median(slices.DeleteFunc(slices.Concat(r.logs...), math.IsNaN)))
}

// RatiosTo is the logarithm of the ratio to another row, one a series: the median of the rounds in which
// both have a figure.
func (r Row) RatiosTo(base Row) (logs []float64) {
	for i, rounds := range r.logs {
		var ratios []float64
		for j, v := range rounds {
			if ratio := v - base.logs[i][j]; !math.IsNaN(ratio) {
				ratios = append(ratios, ratio)
			}
		}
		if len(ratios) > 0 {
			logs = append(logs, stats.Median(ratios))
		}
	}
	return logs
}

// Run measures all loads on all arms in turn, in a random order each round, with new flows for each
// series, until the budget is used up.
func (p Plan) Run(ctx context.Context) (rows []Row, err error) {
	for _, l := range p.Loads {
		for _, a := range p.Arms {
			rows = append(rows, Row{Load: l, Arm: a})
		}
	}
	rng, start := rand.New(rand.NewPCG(p.Seed, 7)), time.Now()
	for series := 0; ; series++ {
		began := time.Now()
		for i := range p.Loads {
			if err := p.series(ctx, rng, rows[i*len(p.Arms):][:len(p.Arms)]); err != nil {
				return nil, err
			}
		}
		if series+1 >= p.Series && time.Since(start)+time.Since(began) > p.Budget {
			return rows, nil
		}
	}
}

// series measures one load on all arms.
func (p Plan) series(ctx context.Context, rng *rand.Rand, rows []Row) (err error) {
	flows := make([]*flow, len(rows))
	for i := range rows {
		if flows[i], err = openFlow(rows[i].Arm, rows[i].Load, p.ClientCPU, p.ServerCPU); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, flows[i].close()) }()
		if err := rows[i].warm(ctx, flows[i], p.Slice); err != nil {
			return err
		}
		rows[i].logs = append(rows[i].logs, nil)
	}
	for range p.Rounds {
		for _, i := range rng.Perm(len(rows)) {
			if err := ctx.Err(); err != nil {
				return err
			}
			s, carried, slow, err := rows[i].slice(flows[i], p.Slice)
			if err != nil {
				return err
			}
			r := &rows[i]
			value := math.NaN() // an end that was held up for long answered nothing
			if s.value > 0 {
				value = math.Log(s.value)
			}
			last := &r.logs[len(r.logs)-1]
			*last = append(*last, value)
			r.Requests, r.Lost, r.Carried, r.Slow = r.Requests+s.requests, r.Lost+s.lost, r.Carried+carried, r.Slow+slow
		}
	}
	for _, r := range rows {
		if last := r.logs[len(r.logs)-1]; !slices.ContainsFunc(last, func(v float64) bool { return !math.IsNaN(v) }) {
			return fmt.Errorf("measure %s on %s: in %d slices, none of the requests was answered", r.Load, r.Arm.Name, len(last))
		}
	}
	return nil
}

// carriedShare is how much of a slice must be carried before a figure is one of the fast path.
const carriedShare = 0.9

// warmTimeout bounds the wait until a flow is learned.
var warmTimeout = host.ScaleTimeout(10 * time.Second)

// warm sends on a flow until the fast path carries it.
func (r *Row) warm(ctx context.Context, f *flow, d time.Duration) error {
	before, err := CountsOf(r.Arm.Pins)
	if err != nil {
		return err
	}
	for end := time.Now().Add(warmTimeout); ; {
		_, carried, slow, err := r.slice(f, d)
		switch {
		case err != nil:
			return err
		case r.Arm.Pins == nil || float64(carried) >= carriedShare*float64(carried+slow) && carried > 0:
			return nil
		case time.Now().After(end):
			after, err := CountsOf(r.Arm.Pins)
			return errors.Join(err, fmt.Errorf("after %v, %s on %s has %d packets carried and %d slow; since it began: %s",
				warmTimeout, r.Load, r.Arm.Name, carried, slow, CountsText(before, after)))
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

func (r *Row) slice(f *flow, d time.Duration) (s slice, carried, slow uint64, err error) {
	before, err := CountsOf(r.Arm.Pins)
	if err != nil {
		return s, 0, 0, err
	}
	if s, err = f.run(d); err != nil {
		return s, 0, 0, fmt.Errorf("measure %s on %s: %w", r.Load, r.Arm.Name, err)
	}
	after, err := CountsOf(r.Arm.Pins)
	carried, slow = Carried(before, after)
	return s, carried, slow, err
}

// Carried is how many packets fast paths carried between two readings, and how many they did not.
func Carried(before, after [bpf.Counts]uint64) (carried, slow uint64) {
	for c := range bpf.Counts {
		n := after[c] - before[c]
		if c == bpf.CarriedOut || c == bpf.CarriedIn {
			carried += n
		} else {
			slow += n
		}
	}
	return carried, slow
}

// CountsOf is what the programs of fast paths have counted, by the folders of their pins; zero without any.
func CountsOf(pins []string) (packets [bpf.Counts]uint64, err error) {
	for _, folder := range pins {
		of, err := fastpath.ReadStats(folder)
		if err != nil {
			return packets, err
		}
		for _, s := range of {
			packets[s.Count] += s.Packets
		}
	}
	return packets, nil
}

// CountsText lists how many packets each counter gained between two readings.
func CountsText(before, after [bpf.Counts]uint64) string {
	var all []string
	for c := range bpf.Counts {
		if n := after[c] - before[c]; n > 0 {
			all = append(all, fmt.Sprintf("%d %s", n, c))
		}
	}
	return strings.Join(all, ", ")
}
