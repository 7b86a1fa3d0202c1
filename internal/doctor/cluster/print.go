package cluster

import (
	"fmt"
	"io"
	"strings"

	"github.com/venturi-net/venturi/internal/doctor"
	"github.com/venturi-net/venturi/internal/sanitize"
)

// Print writes a report for a person: what the cluster is, then the findings.
func Print(w io.Writer, r *ClusterReport) error {
	var b strings.Builder
	v := r.Cluster
	row := func(what string, values ...string) {
		for _, value := range values {
			sanitize.Fprintf(&b, "%-12s %s\n", what, value)
			what = ""
		}
	}
	row("nodes", fmt.Sprintf("%d examined", len(v.Nodes)))
	row("kubelet", v.valueLines(func(n NodeView) string { return n.Kubelet })...)
	row("kernel", v.valueLines(func(n NodeView) string { return n.Kernel })...)
	row("MTU", v.valueLines(func(n NodeView) string { return fmt.Sprintf("%s %d", n.Uplink, n.MTU) })...)
	if len(v.Plugins) == 0 {
		row("CNI", "none that Venturi knows")
	}
	for _, p := range v.Plugins {
		var parts []string
		for _, s := range p.Settings {
			parts = append(parts, s.Name+"="+s.Value)
		}
		row("CNI", strings.TrimSuffix(p.Name+": "+strings.Join(parts, ", "), ": "))
		row("", v.valueLines(func(n NodeView) string {
			var devices []string
			for _, d := range n.Devices {
				if d.Plugin == p.Name && len(devices) <= maxNames {
					devices = append(devices, fmt.Sprintf("%s mtu %d", d.Name, d.MTU))
				}
			}
			return strings.Join(devices, ", ")
		})...)
	}
	modes := v.valueLines(func(n NodeView) string { return n.ProxyMode })
	if set := v.proxySetting(); set != "" {
		modes = append(modes, set+" in its ConfigMap")
	}
	if len(modes) == 0 {
		modes = []string{"not found"}
	}
	row("kube-proxy", modes...)
	b.WriteString("\n")
	if _, err := sanitize.Fprint(w, sanitize.Safe(b.String())); err != nil {
		return err
	}
	return doctor.Print(w, r.Report)
}

// valueLines gives the values that nodes have, each with the nodes that have it.
func (v ClusterView) valueLines(value func(NodeView) string) (lines []string) {
	values, groups := byValue(v.Nodes, value)
	for _, text := range values {
		lines = append(lines, text+" on "+nodeList(groups[text], v.Nodes))
	}
	return lines
}
