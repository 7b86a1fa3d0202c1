package e2e_test

import (
	"fmt"
	"math"
	"net/netip"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/internal/stats"
	"github.com/venturi-net/venturi/internal/testenv"
)

// samePods are two pods on two nodes, which are measured in several ways.
type samePods struct {
	*plugin
	namespace string
	paths     map[string][2]podNet // the client's end of each, and the server's
}

func newSamePods(t testing.TB) *samePods {
	t.Helper()
	p := newPlugin(t)
	p.file = p.link(t, "venturi") // as the plugin, it knows only clusters
	s := &samePods{p, p.namespace(t, "restricted"), map[string][2]podNet{}}
	p.toolPods(t, s.namespace, "cart", "db")
	nets := p.podNets(t, s.namespace)
	var host, pod [2]podNet
	for i, name := range []string{"cart", "db"} {
		pod[i] = nets[name]
		n := p.node(t, pod[i].node)
		host[i] = podNet{n.Name, netip.MustParseAddr(n.IP), fmt.Sprintf("/proc/%d/ns/net", n.PID)}
	}
	s.paths["host"], s.paths["pod"] = host, pod
	return s
}

// agreeLoads are those whose ratios are compared.
var agreeLoads = []string{"tcp_lat", "tcp_bw"}

// measure runs a comparison of some length, wants it to have been between the same ends as every
// other, and gives the ratio of pod to host for each load, as a tool has measured it.
func (s *samePods) measure(t testing.TB, tool string, args ...string) map[string]stats.Ratio {
	t.Helper()
	rec, said := s.compareFor(t, append([]string{"--load", strings.Join(agreeLoads, ",")}, args...)...)
	for _, arm := range rec.Plan.Arms {
		ends := s.paths[strings.TrimSuffix(arm.Name, ".copy")]
		if arm.From != ends[0].addr.String() || arm.To != ends[1].addr.String() {
			t.Fatalf("%v: %s leads from %s to %s, not %s to %s", args, arm.Name, arm.From, arm.To, ends[0].addr, ends[1].addr)
		}
	}
	sum, err := analysis.Analyze(rec, analysis.Options{})
	testenv.Must(t, err)
	ratios := map[string]stats.Ratio{}
	for _, c := range sum.Cells {
		for _, row := range c.Rows {
			if c.Cell.Tool() == tool && row.Arm.Name == "pod" && row.Ratio != nil {
				ratios[strings.TrimPrefix(c.Cell.Load, tool+":")] = *row.Ratio
			}
		}
	}
	if len(ratios) != len(agreeLoads) {
		t.Fatalf("%v: there are ratios of %v:\n%s", args, ratios, said)
	}
	return ratios
}

// byCluster measures as a user of a cluster does; its agents are pods.
func (s *samePods) byCluster(t testing.TB, args ...string) map[string]stats.Ratio {
	t.Helper()
	return s.measure(t, "", append([]string{"--kube", "--node-agents", "--from", s.namespace + "/cart", "--to", s.namespace + "/db"}, args...)...)
}

// attach is the argument for a path, by the name that a record is to have for it.
func (s *samePods) attach(path, name string) string {
	ends := s.paths[path]
	return fmt.Sprintf("attach:%s,from=ns:%s,to=ns:%s,from-addr=%s,to-addr=%s", name, ends[0].netns, ends[1].netns, ends[0].addr, ends[1].addr)
}

// byAttach measures from outside of the cluster, by a process that enters the namespaces of the same
// nodes and pods; a tool measures beside Venturi's loads if one is named.
func (s *samePods) byAttach(t testing.TB, tool string, args ...string) map[string]stats.Ratio {
	t.Helper()
	for _, name := range []string{"host", "pod"} {
		args = append(args, s.attach(name, name))
	}
	if tool != "" {
		args = append(args, "--tool", tool)
	}
	return s.measure(t, tool, args...)
}

// qperfFigure is a result as qperf prints it with --unify_units.
var qperfFigure = regexp.MustCompile(`(?:latency|bw) +=+ +([0-9.,]+)`)

// qperfByHand runs qperf as the write-ups do, a server in the one namespace and a client in the other, for
// some rounds on both paths.
func (s *samePods) qperfByHand(t testing.TB, rounds int) map[string]stats.Ratio {
	t.Helper()
	of := map[string][]float64{}
	for range rounds {
		host, pod := s.qperf(t, "host"), s.qperf(t, "pod")
		for i, load := range agreeLoads {
			of[load] = append(of[load], pod[i]/host[i])
		}
	}
	ratios := map[string]stats.Ratio{}
	for _, load := range agreeLoads {
		ratios[load] = stats.Ratio{Value: stats.Median(of[load]), Open: true}
	}
	return ratios
}

// qperf gives its figure for each of the loads on a path.
func (s *samePods) qperf(t testing.TB, path string) (figures []float64) {
	t.Helper()
	ends := s.paths[path]
	in := func(end podNet, core int, args ...string) *exec.Cmd {
		return exec.CommandContext(t.Context(), "nsenter", append([]string{"--net=" + end.netns, "taskset", "--cpu-list", strconv.Itoa(core), "qperf"}, args...)...)
	}
	server := in(ends[1], 1)
	testenv.Must(t, server.Start())
	out, err := in(ends[0], 0, append([]string{ends[1].addr.String(), "--wait_server", "10", "--time", "2", "--unify_units", "--precision", "6"}, agreeLoads...)...).CombinedOutput()
	_ = server.Process.Kill()
	_ = server.Wait()
	found := qperfFigure.FindAllStringSubmatch(string(out), -1)
	if err != nil || len(found) != len(agreeLoads) {
		t.Fatalf("qperf on the path %s: %v: %s", path, err, out)
	}
	for _, f := range found {
		figure, err := strconv.ParseFloat(strings.ReplaceAll(f[1], ",", ""), 64)
		testenv.Must(t, err)
		figures = append(figures, figure)
	}
	return figures
}

// Between the same pods, `compare --kube` and `compare attach:` measure the same ratio to the host
// network, and qperf runs in them, too. How near they are is for [BenchmarkClusterAgrees]: here
// their intervals overlap, in one of a few runs of both on a machine that others use.
func TestClusterAgrees(t *testing.T) {
	s := newSamePods(t)
	apart := slices.Clone(agreeLoads)
	for try := 0; len(apart) > 0; try++ {
		if try == 4 {
			t.Fatalf("the intervals of %v never overlapped", apart)
		}
		length := []string{"--series", "6", "--rounds", "4"}
		kube, attach := s.byCluster(t, length...), s.byAttach(t, "", length...)
		apart = slices.DeleteFunc(apart, func(load string) bool {
			k, a := kube[load], attach[load]
			t.Logf("%s, pod to host: --kube %.3f [%.3f, %.3f], attach %.3f [%.3f, %.3f]", load, k.Value, k.Lo, k.Hi, a.Value, a.Lo, a.Hi)
			return !k.Open && !a.Open && k.Lo <= a.Hi && a.Lo <= k.Hi
		})
	}
	for load, r := range s.byAttach(t, "qperf", "--series", "1", "--rounds", "2") {
		t.Logf("%s, pod to host: --tool qperf %.3f", load, r.Value)
	}
	for load, r := range s.qperfByHand(t, 1) {
		t.Logf("%s, pod to host: qperf by hand %.3f", load, r.Value)
	}
	s.nothingLeft(t, 0, everything...)
}

// agreeLimit is how far the ratios of two ways of measuring may be apart.
const agreeLimit = 0.03

// In turn, the same pods are measured by all ways: what changes on the machine meets all of them.
// `make bench-cluster` runs it on a quiet machine.
func BenchmarkClusterAgrees(b *testing.B) {
	s := newSamePods(b)
	ways := []struct {
		name    string
		measure func() map[string]stats.Ratio
	}{
		{"compare attach:", func() map[string]stats.Ratio { return s.byAttach(b, "", "--budget", "20s") }},
		{"--tool qperf", func() map[string]stats.Ratio { return s.byAttach(b, "qperf", "--series", "2", "--rounds", "2") }},
		{"qperf by hand", func() map[string]stats.Ratio { return s.qperfByHand(b, 3) }},
	}
	logs := map[string][][]float64{} // of the ratio of --kube to that of each way, by load and way
	for b.Loop() {
		kube := s.byCluster(b, "--budget", "20s")
		for _, way := range ways {
			for load, r := range way.measure() {
				name := load + " by " + way.name
				logs[name] = append(logs[name], []float64{math.Log(kube[load].Value / r.Value)})
				b.Logf("%s: %.3f; --kube %.3f", name, r.Value, kube[load].Value)
			}
		}
	}
	for _, load := range agreeLoads {
		for _, way := range ways {
			name := load + " by " + way.name
			r, ok := stats.FromRounds(logs[name], stats.Design{Confidence: 0.95})
			half, closed := r.HalfWidth()
			text := fmt.Sprintf("%s: the ratio of pod to host by --kube is %.3f [%.3f, %.3f] of it; limit: within %.0f %%", name, r.Value, r.Lo, r.Hi, 100*agreeLimit)
			switch {
			case !ok || !closed || half > agreeLimit:
				b.Errorf("cannot tell: %s", text)
			case math.Abs(math.Log(r.Value)) > math.Log1p(agreeLimit):
				b.Errorf("MISSED: %s", text)
			default:
				b.Logf("holds: %s", text)
			}
		}
	}
}
