package cluster

import (
	"fmt"
	"slices"
	"strings"

	"github.com/venturi-net/venturi/internal/doctor"
	"github.com/venturi-net/venturi/internal/kube/cni"
)

// Rule judges what the nodes of a cluster have together.
type Rule struct {
	doctor.Facts
	Check func(ClusterView) []doctor.Finding // fills in place and evidence, and the nodes
}

// Table lists the rules of clusters.
var Table = []Rule{uplinkMTU, pluginMTU, proxyMode, calicoChecksum, kubeOVNBalancer, severalPlugins, notExamined, notRead}

// complete fills in what a finding has of its rule.
func (r Rule) complete(f doctor.Finding) doctor.Finding {
	f.Code, f.Title, f.Severity, f.Effect, f.Knob, f.Value, f.Do = r.Code, r.Title, r.Severity, r.Effect, r.Knob, r.Value, r.Do
	if f.Place == "" {
		f.Place = "the cluster"
	}
	return f
}

var uplinkMTU = Rule{
	Facts: doctor.Facts{
		Code: "nodes-mtu-differ", Title: "The nodes' own networks have different MTUs", Severity: doctor.Warning,
		Looks:  "the devices that have the nodes' addresses",
		Effect: doctor.Impact{Size: "packets larger than another node's MTU are lost or fragmented, and tunnels over the nodes' networks have different MTUs", Source: "kernel: path MTU discovery; no isolated number was found", Grade: "C"},
		Do:     "give all nodes the same MTU",
	},
	Check: func(v ClusterView) []doctor.Finding {
		mtu := func(n NodeView) string {
			if n.MTU == 0 {
				return "" // its address is on no device that has one, such as lo
			}
			return fmt.Sprint(n.MTU)
		}
		return differing(v, "MTU between nodes", func(n NodeView) string {
			if n.MTU == 0 {
				return ""
			}
			return n.Uplink + " " + mtu(n)
		}, mtu)
	},
}

var pluginMTU = Rule{
	Facts: doctor.Facts{
		Code: "cni-mtu-differs", Title: "A device of the network plugin has different MTUs on different nodes", Severity: doctor.Warning,
		Looks:  "devices that the network plugin creates under the same name on each node",
		Effect: doctor.Impact{Size: "each new connection first loses a full packet, and then learns the MTU; where the ICMP message is filtered, connections hang", Source: "Calico issues 5575 and 8868", Grade: "B"},
		Do:     "restart the plugin's agent on the nodes with the old MTU; pods keep the MTU with which they were created",
	},
	Check: func(v ClusterView) (all []doctor.Finding) {
		var devices []string
		for _, n := range v.Nodes {
			for _, d := range n.Devices {
				if !strings.HasPrefix(d.Name, "cali") && !strings.HasPrefix(d.Name, "lxc") && !slices.Contains(devices, d.Name) { // those are pods'
					devices = append(devices, d.Name)
				}
			}
		}
		for _, name := range devices {
			mtu := func(n NodeView) string {
				for _, d := range n.Devices {
					if d.Name == name {
						return fmt.Sprint(d.MTU)
					}
				}
				return ""
			}
			all = append(all, differing(v, "MTU of "+name, mtu, mtu)...)
		}
		return all
	},
}

var proxyMode = Rule{
	Facts: doctor.Facts{
		Code: "kube-proxy-mode-differs", Title: "kube-proxy does not run in the same mode on all nodes", Severity: doctor.Warning,
		Looks:  "kube-proxy's rules on the nodes, and its ConfigMap",
		Effect: doctor.Impact{Size: "the cost of Services differs by node; rules of an earlier mode stay until they are cleaned up, and packets pass both sets", Source: "Kubernetes documentation of kube-proxy; no isolated number was found", Grade: "C"},
		Do:     "restart kube-proxy on the nodes with the old mode, and remove that mode's rules with kube-proxy --cleanup",
	},
	Check: func(v ClusterView) []doctor.Finding {
		mode := func(n NodeView) string { return n.ProxyMode }
		if all := differing(v, "rules of kube-proxy", mode, mode); len(all) > 0 {
			return all
		}
		set, found := v.proxySetting(), v.proxyFound()
		if set == "" || found == "" || found == set {
			return nil
		}
		return []doctor.Finding{{Machines: names(v.Nodes), Evidence: []doctor.Evidence{
			{Read: "configmaps/kube-system/kube-proxy", Value: "mode " + set}, {Read: "rules of kube-proxy", Value: found}}}}
	},
}

// proxyFound is the mode of kube-proxy's rules on the first node that has any; empty: on none.
func (v ClusterView) proxyFound() string {
	for _, n := range v.Nodes {
		if n.ProxyMode != "" {
			return n.ProxyMode
		}
	}
	return ""
}

// proxySetting is the mode that kube-proxy's ConfigMap names; empty: it was not found.
func (v ClusterView) proxySetting() string {
	if len(v.Proxy) == 0 {
		return ""
	}
	for _, s := range v.Proxy {
		if s.Name == "mode" {
			return s.Value
		}
	}
	return cni.DefaultProxyMode
}

var calicoChecksum = Rule{
	Facts: doctor.Facts{
		Code: "calico-vxlan-checksum", Title: "Calico's tunnel offloads checksums on a kernel where that was broken", Severity: doctor.Warning,
		Looks:  "vxlan.calico with tx-checksum-ip-generic on, on kernel 6.12",
		Effect: doctor.Impact{Size: "200 Mbit/s instead of more than 9 Gbit/s", Source: "Calico issue 11435", Grade: "B"},
		Knob:   "virt.tx_csum", Value: "off",
		Do: "check that it helps with your network cards: where offload works, switching it off costs throughput; the setting is lost when Calico recreates the device",
	},
	Check: func(v ClusterView) (all []doctor.Finding) {
		for _, n := range v.Nodes {
			for _, d := range n.Devices {
				if d.Name == "vxlan.calico" && d.Checksums && strings.HasPrefix(n.Kernel, "6.12.") {
					all = append(all, doctor.Finding{Machines: []string{n.Name}, Device: d.Name, Place: d.Name, Evidence: []doctor.Evidence{
						{Read: "kernel", Value: n.Kernel}, {Read: "ethtool features of vxlan.calico", Value: "tx-checksum-ip-generic: on"}}})
				}
			}
		}
		return all
	},
}

var kubeOVNBalancer = Rule{
	Facts: doctor.Facts{
		Code: "kubeovn-lb-beside-kube-proxy", Title: "Kube-OVN balances Services that kube-proxy balances too", Severity: doctor.Note,
		Looks:  "arguments of kube-ovn-controller, and kube-proxy's rules on the nodes",
		Effect: doctor.Impact{Size: "about 20 % of CPU: every packet passes connection tracking for OVN's load balancer", Source: "Kube-OVN documentation", Grade: "B"},
		Knob:   "kubeovn.lb",
		Do:     "Services of custom VPCs and underlay subnets need OVN's load balancer: switch it off only where there are none",
	},
	Check: func(v ClusterView) []doctor.Finding {
		for _, p := range v.Plugins {
			if p.Name != "Kube-OVN" || v.proxyFound() == "" {
				continue
			}
			enabled := doctor.Evidence{Read: "arguments of kube-ovn-controller", Value: "--enable-lb is not set; the default is on"}
			for _, s := range p.Settings {
				if s.Name == "enable-lb" {
					enabled.Value = "--enable-lb=" + s.Value
				}
			}
			if strings.HasSuffix(enabled.Value, "=false") {
				return nil
			}
			return []doctor.Finding{{Machines: names(v.Nodes), Evidence: []doctor.Evidence{enabled, {Read: "rules of kube-proxy", Value: v.proxyFound()}}}}
		}
		return nil
	},
}

var severalPlugins = Rule{
	Facts: doctor.Facts{
		Code: "several-cnis", Title: "The cluster has settings of several network plugins", Severity: doctor.Note,
		Looks:  "ConfigMaps, custom resources and DaemonSets of network plugins",
		Effect: doctor.Impact{Size: "one plugin may have been replaced, and its devices and rules left behind on the nodes", Source: "no number", Grade: "C"},
		Do:     "it may be intended: Cilium or Calico for policies beside another plugin's network",
	},
	Check: func(v ClusterView) []doctor.Finding {
		if len(v.Plugins) < 2 {
			return nil
		}
		var found []doctor.Evidence
		for _, p := range v.Plugins {
			var on []NodeView
			for _, n := range v.Nodes {
				for _, d := range n.Devices {
					if d.Plugin == p.Name {
						on = append(on, n)
						break
					}
				}
			}
			text := "no devices of it on any node"
			if len(on) > 0 {
				text = "devices of it on " + nodeList(on, v.Nodes)
			}
			found = append(found, doctor.Evidence{Read: "settings of " + p.Name, Value: text})
		}
		return []doctor.Finding{{Evidence: found}}
	},
}

var notExamined = Rule{
	Facts: doctor.Facts{
		Code: "node-not-examined", Title: "A node was not examined", Severity: doctor.Note,
		Looks:  "nodes that are not ready, on which no agent starts, or whose agent fails",
		Effect: doctor.Impact{Size: "problems on that node are missing in this report", Source: "no number", Grade: "C"},
	},
	Check: func(v ClusterView) (all []doctor.Finding) {
		for _, n := range v.Unreached {
			all = append(all, doctor.Finding{Place: "node " + n.Name, Evidence: []doctor.Evidence{{Read: "node " + n.Name, Value: n.Reason}}})
		}
		return all
	},
}

var notRead = Rule{
	Facts: doctor.Facts{
		Code: "cluster-not-read", Title: "Settings of the cluster could not be read", Severity: doctor.Note,
		Looks:  "the API's answers",
		Effect: doctor.Impact{Size: "a network plugin may be missing in this report", Source: "no number", Grade: "C"},
		Do:     "`kubectl venturi rbac doctor` prints the rights that are needed",
	},
	Check: func(v ClusterView) []doctor.Finding {
		if len(v.unread) == 0 {
			return nil
		}
		f := doctor.Finding{}
		for _, u := range v.unread {
			f.Evidence = append(f.Evidence, doctor.Evidence{Read: u.Object, Value: u.Reason})
		}
		return []doctor.Finding{f}
	},
}

// differing is a finding where a value differs among the nodes that have one; text is how a
// node's is printed.
func differing(v ClusterView, what string, text, value func(NodeView) string) []doctor.Finding {
	if values, _ := byValue(v.Nodes, value); len(values) < 2 {
		return nil
	}
	f := doctor.Finding{}
	texts, groups := byValue(v.Nodes, text)
	for _, t := range texts {
		f.Evidence = append(f.Evidence, doctor.Evidence{Read: what + " on " + nodeList(groups[t], v.Nodes), Value: t})
		f.Machines = append(f.Machines, names(groups[t])...)
	}
	return []doctor.Finding{f}
}
