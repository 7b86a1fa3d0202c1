package cni

// KubeProxy is no plugin, and not in the table: it carries Services beside most of them.
var KubeProxy = Plugin{
	Name: "kube-proxy", Objects: []Object{proxyConfig}, Devices: []string{"kube-ipvs0"},
	Settings: func(found APIObjects) []PluginSetting {
		return settings(proxyConfig, structured(found.text(proxyConfig, "config.conf")), "mode", "clusterCIDR", "conntrack.maxPerCore", "ipvs.scheduler", "iptables.masqueradeAll")
	},
}

var proxyConfig = configMap("kube-system", "kube-proxy")

// DefaultProxyMode is kube-proxy's where its settings name none.
const DefaultProxyMode = "iptables"
