package e2e_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/doctor"
	"github.com/venturi-net/venturi/internal/doctor/cluster"
	"github.com/venturi-net/venturi/internal/kube/cni"
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

// doctor runs it, and gives its report.
func (p *plugin) doctor(t *testing.T, args ...string) *cluster.ClusterReport {
	t.Helper()
	cmd, said := p.command(append([]string{"doctor", "--json", "--interval", "200ms"}, args...)...)
	var out bytes.Buffer
	cmd.Stdout = &out
	_ = cmd.Run()
	if code := cmd.ProcessState.ExitCode(); code != 0 && code != verr.Findings {
		t.Fatalf("exit code %d:\n%s", code, said)
	}
	r := &cluster.ClusterReport{}
	if err := json.Unmarshal(out.Bytes(), r); err != nil {
		t.Fatalf("%v in\n%s", err, &out)
	}
	return r
}
