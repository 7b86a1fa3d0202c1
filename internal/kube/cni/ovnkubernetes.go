package cni

import (
	"slices"
	"strings"
)

var (
	ovnConfig       = configMap("ovn-kubernetes", "ovn-config")
	openshiftConfig = configMap("openshift-ovn-kubernetes", "ovnkube-config")
)

var ovnKubernetes = Plugin{
	Name: "OVN-Kubernetes", Objects: []Object{ovnConfig, openshiftConfig}, Devices: []string{"ovn-k8s-*"},
	Settings: func(found APIObjects) []PluginSetting {
		all := settings(ovnConfig, field(found[ovnConfig], "data"), "net_cidr", "svc_cidr", "mtu")
		for line := range strings.Lines(found.text(openshiftConfig, "ovnkube.conf")) {
			name, value, given := strings.Cut(line, "=")
			if name = strings.TrimSpace(name); given && slices.Contains([]string{"mtu", "routable-mtu", "cluster-subnets", "encap-port", "mode", "enable-udp-aggregation"}, name) {
				all = append(all, PluginSetting{name, strings.Trim(strings.TrimSpace(value), `"`), openshiftConfig.String()})
			}
		}
		return all
	},
}
