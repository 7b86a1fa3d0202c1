package e2e_test

import (
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/clustertest"
)

// carriedPackets is the metric of packets that left a node on the fast path.
var carriedPackets = regexp.MustCompile(`venturi_fastpath_packets_total\{outcome="carried_out"\} (\S+)`)

// The chart brings the fast path to every node: it carries flows between the pods of a comparison, and
// when the chart is uninstalled the nodes are as before.
func TestClusterFastPath(t *testing.T) {
	p := newPlugin(t)
	h := newHelm(t, p, "privileged")
	p.toolPods(t, p.namespace(t, "restricted"), "a", "b") // where there is no pod there is nothing to carry
	names, nodes := h.names(t), p.fastPathState(t)
	out, err := h.run("install", "net", chart, "--set", "fastPath.enabled=true,image.name="+clustertest.VenturiImage+
		",image.pullPolicy=Never,paths={pod},loads={tcp_lat},interval=10s,budget=2s")
	if err != nil {
		t.Fatalf("install: %v: %s", err, out)
	}
	seen := map[string]string{}
	defer func() {
		if t.Failed() {
			t.Logf("seen last: %v", seen)
		}
	}()
	await(t, "both nodes carry packets", func() bool {
		carrying := 0
		for _, pod := range h.names(t) {
			name, ok := strings.CutPrefix(pod, "pods/")
			if !ok || !strings.Contains(name, "fastpath") {
				continue
			}
			var text string
			if err := p.Request(t.Context(), http.MethodGet, "/api/v1/namespaces/"+h.namespace+"/pods/"+name+":9138/proxy/metrics", nil, &text); err != nil {
				text = err.Error()
			}
			if seen[name] = text; strings.Contains(text, "venturi_fastpath_carrying{reason=\"\"} 1") {
				if m := carriedPackets.FindStringSubmatch(text); m != nil {
					if packets, _ := strconv.ParseFloat(m[1], 64); packets > 100 {
						carrying++
					}
				}
			}
		}
		return carrying == len(p.Nodes)
	})
	h.uninstall(t, names)
	var now []string
	for end := time.Now().Add(time.Minute); !slices.Equal(now, nodes) && time.Now().Before(end); time.Sleep(time.Second) {
		now = p.fastPathState(t) // what is left of a pod may go after it
	}
	for i := range now {
		if now[i] != nodes[i] {
			t.Errorf("node %s: %s", p.Nodes[i].Name, testenv.Difference(nodes[i], now[i]))
		}
	}
	for _, n := range p.Nodes {
		if open := p.openOn(t, n.PID); open > 0 {
			t.Errorf("%d transactions are open on %s", open, n.Name)
		}
	}
}

// fastPathState is, of each node, what a fast path adds: devices, queueing disciplines, and its files.
func (p *plugin) fastPathState(t *testing.T) (nodes []string) {
	t.Helper()
	for _, n := range p.Nodes {
		nodes = append(nodes, p.onNode(t, n.Name, "sh", "-c",
			"ip -br link show | cut -d' ' -f1; tc qdisc show; find /run/venturi-fastpath -mindepth 1 2>/dev/null; cat /sys/kernel/rcu_expedited; sysctl -a --pattern '^net\\.(core|ipv4\\.(conf|tcp)|netfilter\\.nf_conntrack_tcp)' 2>/dev/null; true"))
	}
	return nodes
}
