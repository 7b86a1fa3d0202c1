package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/venturi-net/venturi/internal/bench/pods"
	"github.com/venturi-net/venturi/internal/compare"
	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/stats"
	"github.com/venturi-net/venturi/internal/tool"
	"github.com/venturi-net/venturi/internal/verify"
	"github.com/venturi-net/venturi/result"
)

// peerLoads is the traffic of programs that people check a network with. Unlike our
// own loads, their datagrams are one-way: no answer comes back.
var peerLoads = []peerLoad{
	{tool.Iperf3, "udp_bw", 16, result.Messages, "iperf3 -u -l 16"},
	{tool.Iperf3, "tcp_bw", 1 << 16, result.Bandwidth, "iperf3 -l 64K"},
	{tool.Netperf, "udp_bw", 1, result.Messages, "netperf -t UDP_STREAM -m 1"},
	{tool.Netperf, "tcp_bw", 1 << 16, result.Bandwidth, "netperf -t TCP_STREAM -m 64K"},
	{tool.Netperf, "udp_lat", 1, result.OneWay, "netperf -t UDP_RR"},
	{tool.Netperf, "tcp_lat", 1, result.OneWay, "netperf -t TCP_RR"},
}

type peerLoad struct {
	tool   *tool.Tool
	load   string
	size   int // bytes of a message
	metric result.Metric
	name   string // as its users write it
}

// peerLabs are the paths of each lab, beside the host network. A machine has one fast
// path, and none beside a path that is to be measured without.
var peerLabs = [][]string{overlayPaths, routedPaths, {"macvlan"}}

// oneWayShare is how many of the packets of a one-way load the fast path must carry,
// its first ones included.
const oneWayShare = 0.99

// peers measures all paths with the programs that are installed.
func peers(ctx context.Context, w io.Writer, h compare.Host, budget time.Duration, seed uint64) (limits []verify.Requirement, err error) {
	var loads []peerLoad
	for _, l := range peerLoads {
		if err := l.tool.Installed(); err != nil {
			fmt.Fprintf(w, "left out: %s: %v\n", l.name, err)
			continue
		}
		loads = append(loads, l)
	}
	if len(loads) == 0 {
		return nil, tool.Iperf3.Installed() // which says what to install
	}
	for _, paths := range peerLabs {
		more, err := peersOf(ctx, w, h, paths, loads, budget, seed)
		if err != nil {
			return nil, err
		}
		limits = append(limits, more...)
	}
	return limits, nil
}

// peersOf measures the paths of one lab, in turn with the host network.
func peersOf(ctx context.Context, w io.Writer, h compare.Host, paths []string, loads []peerLoad, budget time.Duration, seed uint64) (limits []verify.Requirement, err error) {
	b, err := verify.OpenComparer(ctx, fastRequest(paths, 0, seed), h)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	cpus, err := host.AllowedCPUs()
	if err != nil {
		return nil, err
	}
	t := peerTable{arms: b.Session.Lab().Arms, rng: rand.New(rand.NewPCG(seed, 6))}
	t.client, t.server = compare.ChooseCPUs(cpus)
	rounds := max(minStates, int(budget/(time.Duration(len(loads)*len(t.arms))*tool.MinDuration)))
	fmt.Fprintf(w, "\n%s beside the host network, 0 Services, %d runs of %v each in random order\n\n",
		strings.Join(paths, " and "), rounds, tool.MinDuration)
	fmt.Fprintf(w, "%-30s %-12s %14s  %-22s %s\n", "load", "path", "median", "ratio to host", "carried")
	for _, l := range loads {
		runs, err := t.measure(ctx, l, rounds)
		if err != nil {
			return nil, err
		}
		limits = append(limits, t.print(w, l, runs)...)
	}
	return limits, nil
}

// peerTable measures the arms of a lab, of which the first is the host network.
type peerTable struct {
	arms           []lab.Arm
	client, server int // cores
	rng            *rand.Rand
}

// peerRuns is what one arm did.
type peerRuns struct {
	values        []float64 // by round
	carried, slow uint64    // packets
}

// share is how many of the packets were carried; NaN: there is no fast path.
func (r peerRuns) share() float64 { return float64(r.carried) / float64(r.carried+r.slow) }

func (t *peerTable) measure(ctx context.Context, l peerLoad, rounds int) ([]peerRuns, error) {
	runs := make([]peerRuns, len(t.arms))
	for range rounds {
		for _, i := range t.rng.Perm(len(t.arms)) {
			arm := t.arms[i]
			before, err := pods.CountsOf(arm.Pins)
			if err != nil {
				return nil, err
			}
			r, err := l.tool.Run(ctx, tool.Job{Load: l.load, Size: l.size, Metric: l.metric, Duration: tool.MinDuration,
				From: arm.Client(), To: arm.Server(), ClientCPU: t.client, ServerCPU: t.server})
			if err != nil {
				return nil, fmt.Errorf("measure %s: %w", arm.Name, err)
			}
			after, err := pods.CountsOf(arm.Pins)
			if err != nil {
				return nil, err
			}
			runs[i].values = append(runs[i].values, r.Value)
			runs[i].add(before, after)
		}
	}
	return runs, nil
}

// add counts what the fast path carried between two looks, and what it did not.
func (r *peerRuns) add(before, after [bpf.Counts]uint64) {
	carried, slow := pods.Carried(before, after)
	r.carried, r.slow = r.carried+carried, r.slow+slow
}

func (t *peerTable) print(w io.Writer, l peerLoad, runs []peerRuns) (limits []verify.Requirement) {
	for i, arm := range t.arms {
		ratio, share := "", ""
		if i > 0 {
			ratio = interval(ratioOf(logRatios(runs[i].values, runs[0].values)))
		}
		if arm.Pins != nil {
			share = fmt.Sprintf("%.2f %%", 100*runs[i].share())
		}
		fmt.Fprintf(w, "%-30s %-12s %14s  %-22s %s\n", l.name, arm.Name,
			verify.FormatFigure(result.Cell{Metric: l.metric}, stats.Median(slices.Clone(runs[i].values))), ratio, share)
		if arm.Pins != nil && l.load == "udp_bw" {
			limits = append(limits, verify.Requirement{Text: fmt.Sprintf("peers: %s carries %s of the packets of %s, more than %.0f %%", arm.Name, share, l.name, 100*oneWayShare),
				Holds: runs[i].share() > oneWayShare})
		}
	}
	return limits
}

// logRatios are the logarithms of ratios, pair by pair.
func logRatios(a, b []float64) (logs []float64) {
	for i := range a {
		logs = append(logs, math.Log(a[i]/b[i]))
	}
	return logs
}
