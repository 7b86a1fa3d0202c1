package e2e_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/internal/stats"
	"github.com/venturi-net/venturi/internal/testenv"
)

// fastLoads are those whose figures in the cluster are compared with the lab's.
var fastLoads = []string{"tcp_lat", "udp_lat", "tcp_bw"}

// figures are ratios of each path to the lab's host network, by path and load.
type figures map[string]map[string]float64

// compareWithLab measures the same two pods and their nodes in turn with the paths of a lab, in one run. As the
// cluster, the lab has a switch between its machines, and rules of Services.
func (s *samePods) compareWithLab(b *testing.B) figures {
	b.Helper()
	rec, _ := s.compareFor(b, "--load", strings.Join(fastLoads, ","), "--budget", "40s", "--wait", "--baseline", "host",
		"--hosts", "3", "--services", "10", "vxlan", "vxlan+fast", s.attach("host", "node"), s.attach("pod", "pod"))
	sum, err := analysis.Analyze(rec, analysis.Options{})
	testenv.Must(b, err)
	of := figures{}
	for _, c := range sum.Cells {
		for _, row := range c.Rows {
			if row.Ratio == nil {
				continue
			}
			if of[row.Arm.Name] == nil {
				of[row.Arm.Name] = map[string]float64{}
			}
			of[row.Arm.Name][c.Cell.Load] = row.Ratio.Value
		}
	}
	return of
}

// fastLimit is how much worse than the lab's the figures of a cluster may be, and fastWidth how far their
// intervals may reach to each side.
const fastLimit, fastWidth = 0.03, 0.04

// With the fast path enabled on both nodes, pods of the cluster reach the figures of vxlan+fast in a lab on
// the same machine, measured in turn with them. It is disabled again for each second run, which shows
// what the cluster's own network does. `make bench-cluster` runs it on a quiet machine.
func BenchmarkClusterFastPath(b *testing.B) {
	s := newSamePods(b)
	f := &fastPaths{plugin: s.plugin, program: s.file}
	s.qperf(b, "pod")                                                   // pods that have never sent anything are not carried
	inLab, gained := map[string][][]float64{}, map[string][][]float64{} // logs by load
	for round := 0; b.Loop(); round++ {
		measured := map[bool]figures{}
		for _, fast := range []bool{round%2 == 0, round%2 != 0} {
			disable := func() {}
			if fast {
				disable = f.enable(b)
			}
			measured[fast] = s.compareWithLab(b)
			disable()
		}
		for _, load := range fastLoads {
			on, off := measured[true], measured[false]
			b.Logf("%s, to the lab's host network: pods %.3f, without the fast path %.3f, nodes %.3f; in the lab vxlan+fast %.3f, vxlan %.3f",
				load, on["pod"][load], off["pod"][load], on["node"][load], on["vxlan+fast"][load], on["vxlan"][load])
			inLab[load] = append(inLab[load], []float64{math.Log(on["pod"][load] / on["vxlan+fast"][load])})
			gained[load] = append(gained[load], []float64{math.Log(on["pod"][load] / off["pod"][load])})
		}
	}
	design := stats.Design{Confidence: 0.95}
	for _, load := range fastLoads {
		r, ok := stats.FromRounds(inLab[load], design)
		least, most := 1-fastLimit, math.Inf(1) // of the lab's
		if load != "tcp_bw" {
			least, most = 0, 1+fastLimit
		}
		text := fmt.Sprintf("%s of pods is %.3f [%.3f, %.3f] of that of vxlan+fast in the lab; limit: no more than %.0f %% worse", load, r.Value, r.Lo, r.Hi, 100*fastLimit)
		half, closed := r.HalfWidth()
		switch {
		case !ok || !closed || half > fastWidth:
			b.Errorf("cannot tell: %s", text)
		case r.Hi < least || r.Lo > most: // the better end has to reach it, as in venturi-bench fast
			b.Errorf("MISSED: %s", text)
		default:
			b.Logf("holds: %s", text)
		}
		if g, ok := stats.FromRounds(gained[load], design); ok {
			b.Logf("%s of pods is %.3f [%.3f, %.3f] of that without the fast path", load, g.Value, g.Lo, g.Hi)
		}
	}
}
