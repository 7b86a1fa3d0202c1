package e2e_test

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/mesh"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/verr"
)

// With the printed rights and nothing else, mesh measures between all nodes at both levels; two
// nodes are not judged; and nothing is left.
func TestClusterMesh(t *testing.T) {
	p := newPlugin(t)
	for level, args := range map[string][]string{"pods": nil, "nodes": {"--node-agents"}} {
		t.Run(level, func(t *testing.T) {
			code, roles := p.run(append([]string{"rbac", "mesh", "--user", "meg"}, args...)...)
			if code != 0 {
				t.Fatal(roles)
			}
			began := time.Now()
			r := p.mesh(t, append([]string{"--kubeconfig", p.asUser(t, "meg", roles)}, args...)...)
			t.Logf("it took %v", time.Since(began).Round(100*time.Millisecond))
			if r.Network != level || len(r.Nodes) != len(p.Nodes) || len(r.Lost)+len(r.Broken) > 0 || r.Passes != 3 {
				t.Errorf("%+v", r)
			}
			pairs := len(p.Nodes) * (len(p.Nodes) - 1) / 2
			for _, l := range r.Loads {
				if len(l.Pairs) != pairs || l.Median == nil || *l.Median <= 0 || l.SlowNode != nil {
					t.Errorf("%+v", l)
				}
			}
			p.nothingLeft(t, 0, everything...)
		})
	}
	code, said := p.run("mesh", "--nodes", p.Nodes[0].Name)
	if code != verr.Usage || !strings.Contains(said, "a pair takes two") {
		t.Errorf("one node: code %d\n%s", code, said)
	}
	p.nothingLeft(t, 0, everything...)
}

// checkMeshLoses wants a node whose agent is killed in the middle of it to cost only itself.
func checkMeshLoses(t *testing.T, p *plugin, node string) {
	t.Helper()
	const passes = 8
	cmd, _ := p.command("mesh", "--json", "--passes", strconv.Itoa(passes))
	var out bytes.Buffer
	said := &testenv.Output{}
	cmd.Stdout, cmd.Stderr = &out, said
	testenv.Must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	await(t, "its pairs have more than half of their passes", func() bool { return strings.Contains(said.String(), "pass 6") })
	for _, pid := range p.agents(t, node) {
		testenv.Must(t, syscall.Kill(pid, syscall.SIGKILL))
	}
	_ = cmd.Wait()
	r := readMesh(t, &out)
	if cmd.ProcessState.ExitCode() != verr.Partial || len(r.Lost) != 1 || r.Lost[0].Name != node || r.Passes != passes {
		t.Errorf("exit code %d: %+v:\n%s", cmd.ProcessState.ExitCode(), r, said)
	}
	for _, l := range r.Loads {
		if len(l.Pairs) != len(p.Nodes)*(len(p.Nodes)-1)/2 {
			t.Errorf("%s: %+v", l.Load, l.Pairs)
		}
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
	return readMesh(t, &out)
}

func readMesh(t *testing.T, out *bytes.Buffer) *mesh.Survey {
	t.Helper()
	r := &mesh.Survey{}
	if err := json.Unmarshal(out.Bytes(), r); err != nil {
		t.Fatalf("%v in\n%s", err, out)
	}
	return r
}
