package e2e_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/mesh"
	"github.com/venturi-net/venturi/internal/verr"
)

// With the printed rights and nothing else, mesh measures between all nodes at both levels; two
// nodes are not judged; and nothing is left.
func TestClusterMesh(t *testing.T) {
	p := newPlugin(t)
	for level, args := range map[string][]string{"pods": nil, "nodes": {"--node-agents"}} {
		code, roles := p.run(append([]string{"rbac", "mesh", "--user", "meg"}, args...)...)
		if code != 0 {
			t.Fatal(roles)
		}
		began := time.Now()
		r := p.mesh(t, append([]string{"--kubeconfig", p.asUser(t, "meg", roles)}, args...)...)
		t.Logf("%s: it took %v", level, time.Since(began).Round(100*time.Millisecond))
		if r.Network != level || len(r.Nodes) != len(p.Nodes) || len(r.Lost)+len(r.Broken) > 0 || r.Passes != 3 {
			t.Errorf("%s: %+v", level, r)
		}
		pairs := len(p.Nodes) * (len(p.Nodes) - 1) / 2
		for _, l := range r.Loads {
			if len(l.Pairs) != pairs || l.Median == nil || *l.Median <= 0 || l.SlowNode != nil {
				t.Errorf("%s: %+v", level, l)
			}
		}
		p.nothingLeft(t, 0, everything...)
	}
	code, said := p.run("mesh", "--nodes", p.Nodes[0].Name)
	if code != verr.Usage || !strings.Contains(said, "a pair takes two") {
		t.Errorf("one node: code %d\n%s", code, said)
	}
	p.nothingLeft(t, 0, everything...)
}

// mesh runs it, and gives its report.
func (p *plugin) mesh(t *testing.T, args ...string) *mesh.Survey {
	t.Helper()
	cmd, said := p.command(append([]string{"mesh", "--json", "--passes", "3"}, args...)...)
	var out bytes.Buffer
	cmd.Stdout = &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v:\n%s", err, said)
	}
	r := &mesh.Survey{}
	if err := json.Unmarshal(out.Bytes(), r); err != nil {
		t.Fatalf("%v in\n%s", err, &out)
	}
	return r
}
