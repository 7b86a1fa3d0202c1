package rates

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/internal/compare"
	"github.com/venturi-net/venturi/internal/experiment"
	"github.com/venturi-net/venturi/internal/verify"
	"github.com/venturi-net/venturi/result"
)

// A ping beside streams through a tunnel whose packets one core receives, and then all cores. An
// idle ping is measured on both wires, because a core that sleeps until a packet comes makes it
// slow, too: what counts is by how much a stream makes it slower.
//
// What makes a ping wait is the receiving core's queue of packets, and a queue needs a core that
// is slower than the sender. So the wire's cards do not cut what tunnels carry: the sender, which
// does it, has little work with a packet, and the receiver much. Datagrams of one byte (udp_bw)
// take as much of the sender as of the receiver, and queue nowhere; those of quic do.

const (
	oneCore  = "rss=l3"
	allCores = "rss=l4"
	// crowdedWire is what both wires have in common.
	crowdedWire = "tunnel-tso=off,"
	// crowdedFlows are those of each stream, so that hashing has something to spread.
	crowdedFlows = 4
	// tunnelSegment is what a packet carries of a stream inside of VXLAN, bytes.
	tunnelSegment = 1398
)

// crowdedStreams are what runs beside the ping.
var crowdedStreams = []string{"tcp_bw", "quic"}

// crowdedPing is what a ping took.
type crowdedPing struct {
	median, p99 float64 // ns
	full        []string
}

// crowdedPings are the pings of a wire, by the load beside; that without one is "".
type crowdedPings map[string]crowdedPing

// crowdedCore plants what a card does that hashes no ports: one core carries a whole tunnel.
func (c RatesBench) crowdedCore(ctx context.Context, w io.Writer, h compare.Host) ([]verify.Requirement, error) {
	capacity, err := c.coreCapacity(ctx, h)
	if err != nil {
		return nil, err
	}
	rates := map[string]float64{"tcp_bw": capacity, "quic": math.Round(capacity / (8 * tunnelSegment))}
	fmt.Fprintf(w, "what one core receives of a tunnel: %.2f Gb/s; all streams offer as many packets\n\n", capacity/1e9)
	fmt.Fprintf(w, "%-8s %-8s %12s %12s  %s\n", "wire", "beside", "ping, p50", "p99", "full")
	pings := map[string]crowdedPings{}
	for _, wire := range []string{oneCore, allCores} {
		q := c.crowdedRequest(wire)
		q.Cells = []compare.CellSpec{{Load: "ping"}}
		for _, stream := range crowdedStreams {
			beside, err := compare.ParseBeside(fmt.Sprintf("%s@%.0f", stream, rates[stream]), experiment.SameCores)
			if err != nil {
				return nil, err
			}
			beside.Flows = crowdedFlows
			q.Cells = append(q.Cells, compare.CellSpec{Load: "ping", Background: beside})
		}
		s, err := measure(ctx, q, h)
		if err != nil {
			return nil, err
		}
		pings[wire] = crowdedPings{}
		for _, cell := range s.Cells {
			p := crowdedPingOf(&cell.Rows[0])
			pings[wire][besideOf(cell.Cell)] = p
			fmt.Fprintf(w, "%-8s %-8s %9.1f us %9.1f us  %s\n", wire, besideOf(cell.Cell), p.median/1000, p.p99/1000, listed(p.full))
		}
	}
	return judgeCrowded(pings[oneCore], pings[allCores]), nil
}

func (c RatesBench) crowdedRequest(wire string) compare.Request {
	q := c.request("vxlan")
	q.NoHost, q.Wire = true, crowdedWire+wire
	return q
}

// coreCapacity is what TCP carries where one core receives all, bit/s.
func (c RatesBench) coreCapacity(ctx context.Context, h compare.Host) (float64, error) {
	q := c.crowdedRequest(oneCore)
	q.Loads, q.Flows = []string{"tcp_bw"}, []int{crowdedFlows}
	s, err := measure(ctx, q, h)
	if err != nil {
		return 0, err
	}
	row, found := verify.RowOf(s, "vxlan", "tcp_bw", crowdedFlows)
	if !found || row.Value <= 0 {
		return 0, fmt.Errorf("the maximum of tcp_bw could not be measured")
	}
	return math.Round(row.Value), nil
}

func besideOf(c result.Cell) string {
	if c.Background == nil {
		return ""
	}
	return c.Background.Load
}

func crowdedPingOf(row *analysis.Row) crowdedPing {
	p := crowdedPing{median: row.Value, full: fullNames(row)}
	if row.Latency != nil {
		p.p99 = row.Latency.Histogram().Quantile(0.99)
	}
	return p
}

// crowdedLimit is by how much a stream must slow a ping down on one core, and how much more than on
// all cores.
const crowdedLimit = 1.5

// judgeCrowded holds the pings of both wires against the limits. The 99th percentiles of both are
// printed and not compared: beside a stream, they are how long the scheduler leaves a core to a
// thread of the load, which is the same however packets are spread.
func judgeCrowded(one, all crowdedPings) (limits []verify.Requirement) {
	for _, stream := range crowdedStreams {
		slower, spread := one[stream].median/one[""].median, all[stream].median/all[""].median
		tail := one[stream].p99 / one[""].p99
		only := slices.DeleteFunc(slices.Clone(one[stream].full), func(name string) bool { return slices.Contains(all[stream].full, name) })
		limits = append(limits,
			verify.Requirement{Text: fmt.Sprintf("beside %s, on one core: the median is at least %.1f times that of an idle ping (%.2f)",
				stream, crowdedLimit, slower), Holds: slower >= crowdedLimit},
			verify.Requirement{Text: fmt.Sprintf("beside %s, on one core: p99 is at least %.1f times that of an idle ping (%.2f)",
				stream, crowdedLimit, tail), Holds: tail >= crowdedLimit},
			verify.Requirement{Text: fmt.Sprintf("beside %s, on all cores: the median grows by a factor that is at least %.1f times smaller (%.2f / %.2f = %.2f)",
				stream, crowdedLimit, slower, spread, slower/spread), Holds: slower/spread >= crowdedLimit},
			verify.Requirement{Text: fmt.Sprintf("beside %s: a thread or core is full on one core only (%s)",
				stream, listed(only)), Holds: len(only) > 0})
	}
	return limits
}

// listed is names as a report prints them.
func listed(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return fmt.Sprint(names)
}

// fullNames are the threads and cores of a row that had no time left. A load that goes as
// fast as it can has none on any wire, so its own threads are left out.
func fullNames(row *analysis.Row) []string {
	var names []string
	for _, t := range row.Threads {
		if t.Full() && !t.Load {
			names = append(names, t.Name)
		}
	}
	if row.CPU != nil {
		for core, share := range row.CPU.ByCore {
			if share >= analysis.FullCore {
				names = append(names, core)
			}
		}
	}
	slices.Sort(names)
	return names
}
