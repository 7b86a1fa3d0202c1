package e2e_test

import (
	"context"
	"encoding/json"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/doctor"
	"github.com/venturi-net/venturi/internal/doctor/cluster"
	"github.com/venturi-net/venturi/internal/kube/cni"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/verr"
)

// With the printed rights and nothing else, doctor reads every node, the network plugin and
// kube-proxy; without those to read settings it says so; and nothing is left.
func TestClusterDoctor(t *testing.T) {
	p := newPlugin(t)
	code, roles := p.run("rbac", "doctor", "--user", "jim")
	if code != 0 {
		t.Fatal(roles)
	}
	began := time.Now()
	r := p.doctor(t, "--kubeconfig", p.asUser(t, "jim", roles))
	t.Logf("it took %v", time.Since(began).Round(100*time.Millisecond))
	if len(r.Cluster.Nodes) != len(p.Nodes) || len(r.Machines) != len(p.Nodes) || len(r.Cluster.Unreached) > 0 {
		t.Fatalf("nodes: %+v", r.Cluster)
	}
	for _, n := range r.Cluster.Nodes {
		if n.MTU == 0 || n.Uplink == "" || !slices.ContainsFunc(n.Devices, func(d cluster.Device) bool { return d.Plugin == "Flannel" && d.MTU > 0 }) {
			t.Errorf("node %+v", n)
		}
		if n.ProxyMode != "iptables" && n.ProxyMode != "nftables" {
			t.Errorf("kube-proxy on %s: %q", n.Name, n.ProxyMode)
		}
	}
	if len(r.Cluster.Plugins) != 1 || r.Cluster.Plugins[0].Name != "Flannel" || !slices.ContainsFunc(r.Cluster.Plugins[0].Settings, func(s cni.PluginSetting) bool { return s.Name == "Type" && s.Value != "" }) {
		t.Errorf("plugins: %+v", r.Cluster.Plugins)
	}
	for _, f := range r.Findings {
		if f.Code == "cluster-not-read" || f.Code == "node-not-examined" || f.Code == "kube-proxy-mode-differs" {
			t.Errorf("%+v", f)
		}
	}
	p.nothingLeft(t, 0, everything...)
	blind := p.doctor(t, "--kubeconfig", p.asUser(t, "joan", strings.NewReplacer("jim", "joan", "name: venturi", "name: venturi-joan", "kube-proxy, ", "").Replace(roles)), "--nodes", p.Nodes[1].Name)
	if len(blind.Cluster.Nodes) != 1 || !slices.ContainsFunc(blind.Findings, func(f doctor.Finding) bool { return f.Code == "cluster-not-read" }) {
		t.Errorf("without a right: %+v", blind)
	}
	p.nothingLeft(t, 0, everything...)
}

// A node that is not ready, and one whose agent is killed while it reads, cost only themselves.
func TestClusterDoctorBadNodes(t *testing.T) {
	p := newPlugin(t)
	const ghost = "/api/v1/nodes/ghost"
	testenv.Must(t, p.Request(t.Context(), http.MethodPost, "/api/v1/nodes", map[string]any{"metadata": map[string]any{"name": "ghost"}}, nil))
	t.Cleanup(func() { testenv.Must(t, p.Request(context.Background(), http.MethodDelete, ghost, nil, nil)) })
	run := p.startDoctor(t, "--interval", "5s")
	await(t, "it reads both nodes", func() bool { return strings.Contains(run.stderr.String(), "reading 2 nodes") })
	for _, pid := range p.agents(t, "n2") {
		testenv.Must(t, syscall.Kill(pid, syscall.SIGKILL))
	}
	r := run.report(t)
	lost := map[string]string{}
	for _, u := range r.Cluster.Unreached {
		lost[u.Name] = u.Reason
	}
	if len(r.Cluster.Nodes) != 1 || r.Cluster.Nodes[0].Name != "n1" || len(lost) != 2 || lost["n2"] == "" || lost["ghost"] != "the node is not ready" {
		t.Errorf("%+v", r.Cluster)
	}
	if !slices.ContainsFunc(r.Findings, func(f doctor.Finding) bool { return f.Code == "node-not-examined" }) {
		t.Errorf("findings: %+v", r.Findings)
	}
	p.nothingLeft(t, 0, everything...)
}

// doctorRun is one of doctor that has started.
type doctorRun struct {
	*exec.Cmd
	stdout, stderr testenv.Output
}

func (p *plugin) startDoctor(t *testing.T, args ...string) *doctorRun {
	t.Helper()
	r := &doctorRun{}
	r.Cmd, _ = p.command(append([]string{"doctor", "--json"}, args...)...)
	r.Stdout, r.Stderr = &r.stdout, &r.stderr
	testenv.Must(t, r.Start())
	t.Cleanup(func() { _ = r.Process.Kill() })
	return r
}

// report waits for its end.
func (r *doctorRun) report(t *testing.T) *cluster.ClusterReport {
	t.Helper()
	_ = r.Wait()
	if code := r.ProcessState.ExitCode(); code != 0 && code != verr.Findings {
		t.Fatalf("exit code %d:\n%s", code, &r.stderr)
	}
	report := &cluster.ClusterReport{}
	if err := json.Unmarshal([]byte(r.stdout.String()), report); err != nil {
		t.Fatalf("%v in\n%s", err, &r.stdout)
	}
	return report
}

// doctor runs it, and gives its report.
func (p *plugin) doctor(t *testing.T, args ...string) *cluster.ClusterReport {
	t.Helper()
	return p.startDoctor(t, append([]string{"--interval", "200ms"}, args...)...).report(t)
}
