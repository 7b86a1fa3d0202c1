package cni

var ciliumConfig = configMap("kube-system", "cilium-config")

var cilium = Plugin{
	Name: "Cilium", Objects: []Object{ciliumConfig}, Devices: []string{"cilium_*", "lxc*"},
	Settings: func(found APIObjects) []PluginSetting {
		data := field(found[ciliumConfig], "data")
		return settings(ciliumConfig, data, "routing-mode", "tunnel", "tunnel-protocol", "auto-direct-node-routes", "kube-proxy-replacement", "datapath-mode",
			"enable-host-legacy-routing", "enable-bpf-masquerade", "enable-ipv4-masquerade", "mtu", "enable-bandwidth-manager", "enable-bbr",
			"enable-ipv4-big-tcp", "install-no-conntrack-iptables-rules", "bpf-lb-acceleration", "bpf-lb-mode", "enable-wireguard", "enable-ipsec", "enable-hubble")
	},
}
