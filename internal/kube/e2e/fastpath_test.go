package e2e_test

import (
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/testenv/clustertest"
)

// carriedPackets is the metric of packets that left a node on the fast path.
var carriedPackets = regexp.MustCompile(`venturi_fastpath_packets_total\{family="IPv4",outcome="carried_out"\} (\S+)`)

// The chart brings the fast path to every node: it carries flows between the pods of a comparison, and
// when the chart is uninstalled the nodes are as before.
func TestClusterFastPath(t *testing.T) {
	p := newPlugin(t)
	h := newHelm(t, p, "privileged")
	measuring := &helm{p, h.program, p.namespace(t, "restricted")} // its token is not to reach the privileged pods
	p.toolPods(t, p.namespace(t, "restricted"), "a", "b")          // where there is no pod there is nothing to carry
	names, measurers, nodes := h.names(t), measuring.names(t), p.settledStates(t)
	const image = "image.name=" + clustertest.VenturiImage + ",image.pullPolicy=Never,"
	if out, err := h.run("install", "net", chart, "--set", image+"watch.enabled=false,fastPath.enabled=true"); err != nil {
		t.Fatalf("install: %v: %s", err, out)
	}
	if out, err := measuring.run("install", "net", chart, "--set", image+"paths={pod},loads={tcp_lat},interval=10s,budget=2s"); err != nil {
		t.Fatalf("install what measures: %v: %s", err, out)
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
			seen[name] = text
			if strings.Contains(text, "venturi_fastpath_carrying{family=\"IPv4\",reason=\"\"} 1") {
				if m := carriedPackets.FindStringSubmatch(text); m != nil {
					if packets, _ := strconv.ParseFloat(m[1], 64); packets > 100 {
						carrying++
					}
				}
			}
		}
		return carrying == len(p.Nodes)
	})
	measuring.uninstall(t, measurers)
	h.uninstall(t, names)
	p.wantStates(t, nodes)
}
