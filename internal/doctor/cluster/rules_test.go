package cluster

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/doctor"
	"github.com/venturi-net/venturi/internal/kube"
	"github.com/venturi-net/venturi/internal/kube/cni"
)

// sound is a cluster where nothing is off.
func sound() ClusterView {
	v := ClusterView{Plugins: []PluginView{{"Calico", nil}}, Proxy: []cni.PluginSetting{{Name: "clusterCIDR", Value: "10.0.0.0/8"}}} // it names no mode
	for _, name := range []string{"a", "b", "c"} {
		v.Nodes = append(v.Nodes, NodeView{ClusterNode: kube.ClusterNode{Name: name, Kernel: "6.12.9", Kubelet: "v1.34.4"}, Uplink: "eth0", MTU: 1500, ProxyMode: "iptables",
			Devices: []Device{{"Calico", "vxlan.calico", 1450, false}, {"Calico", "cali" + name, 1400, true}}})
	}
	return v
}

// Each rule finds its fault, and none finds one in a sound cluster.
func TestRules(t *testing.T) {
	for code, c := range map[string]struct {
		spoil func(*ClusterView)
		nodes string // that the finding names
	}{
		"nodes-mtu-differ":             {func(v *ClusterView) { v.Nodes[1].MTU = 9000 }, "a c b"},
		"cni-mtu-differs":              {func(v *ClusterView) { v.Nodes[2].Devices[0].MTU = 1410 }, "a b c"},
		"kube-proxy-mode-differs":      {func(v *ClusterView) { v.Nodes[0].ProxyMode = "nftables" }, "a b c"},
		"calico-vxlan-checksum":        {func(v *ClusterView) { v.Nodes[1].Devices[0].Checksums = true }, "b"},
		"kubeovn-lb-beside-kube-proxy": {func(v *ClusterView) { v.Plugins = []PluginView{{"Kube-OVN", nil}} }, "a b c"},
		"several-cnis":                 {func(v *ClusterView) { v.Plugins = append(v.Plugins, PluginView{"Flannel", nil}) }, ""},
		"node-not-examined":            {func(v *ClusterView) { v.Unreached = []kube.UnreachedNode{{Name: "d", Reason: "not ready"}} }, ""},
		"cluster-not-read":             {func(v *ClusterView) { v.unread = []kube.UnreadObject{{Object: "configmaps/x", Reason: "forbidden"}} }, ""},
	} {
		v := sound()
		c.spoil(&v)
		var codes []string
		for _, rule := range Table {
			for _, f := range rule.Check(v) {
				f = rule.complete(f)
				codes = append(codes, f.Code)
				if f.Place == "" || f.Title == "" || f.Effect.Size == "" || len(f.Evidence) == 0 || strings.Join(f.Machines, " ") != c.nodes {
					t.Errorf("%s: %+v", code, f)
				}
			}
		}
		if !slices.Equal(codes, []string{code}) {
			t.Errorf("%s: found %v", code, codes)
		}
	}
	for _, rule := range Table {
		if found := rule.Check(sound()); len(found) > 0 {
			t.Errorf("%s in a sound cluster: %+v", rule.Code, found)
		}
	}
	for _, ok := range []func(*ClusterView){
		func(v *ClusterView) {
			v.Plugins = []PluginView{{"Kube-OVN", []cni.PluginSetting{{Name: "enable-lb", Value: "false"}}}}
		},
		func(v *ClusterView) { v.Nodes[1].Devices[0].Checksums, v.Nodes[1].Kernel = true, "6.18.1" },
		func(v *ClusterView) { v.Proxy = nil; v.Nodes = v.Nodes[:1] },
	} {
		v := sound()
		ok(&v)
		for _, rule := range Table {
			if found := rule.Check(v); len(found) > 0 {
				t.Errorf("%s: %+v", rule.Code, found)
			}
		}
	}
	v := sound()
	v.Proxy = []cni.PluginSetting{{Name: "mode", Value: "nftables"}}
	if found := proxyMode.Check(v); len(found) != 1 || found[0].Evidence[0].Value != "mode nftables" {
		t.Errorf("a ConfigMap that says otherwise: %+v", found)
	}
}

// The documentation lists the rules.
func TestDocumented(t *testing.T) {
	text, err := os.ReadFile("../../../docs/kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range Table {
		if line := "| `" + rule.Code + "` | " + string(rule.Severity) + " | " + rule.Title + " |\n"; !strings.Contains(string(text), line) {
			t.Errorf("docs/kubernetes.md lacks\n%s", line)
		}
	}
}

// A person reads what the cluster is, once for all nodes that are alike, then the findings
// with the number of nodes that have them.
func TestPrint(t *testing.T) {
	v := sound()
	v.Nodes[1].MTU = 9000
	f := doctor.Finding{Code: "rings", Title: "Small rings", Severity: doctor.Warning, Place: "eth0", Evidence: []doctor.Evidence{}}
	r := &ClusterReport{Cluster: v, Report: doctor.Merge([]doctor.MachineReport{
		{Machine: "a", Report: &doctor.Report{Findings: []doctor.Finding{f}}}, {Machine: "b", Report: &doctor.Report{Findings: []doctor.Finding{f}}},
		{Machine: "c", Report: &doctor.Report{Findings: []doctor.Finding{f}}},
	}, func(command string, _ []string) string { return command })}
	r.applyRules()
	var out strings.Builder
	if err := Print(&out, r); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"nodes        3 examined\n", "kernel       6.12.9 on all 3 nodes\n", "MTU          eth0 1500 on a, c\n             eth0 9000 on b\n", "CNI          Calico\n",
		"kube-proxy   iptables on all 3 nodes\n             iptables in its ConfigMap\n", "  rings  Small rings\n    on 3 of 3 nodes\n    at      eth0 on all 3 nodes\n",
		"  nodes-mtu-differ  ", " by 8 rules"} {
		if !strings.Contains(out.String(), line) {
			t.Errorf("no %q in\n%s", line, &out)
		}
	}
}
