package cni

var (
	kubeRouterConfig = configMap("kube-system", "kube-router-cfg")
	kubeRouterAgent  = Object{"apps", "v1", "daemonsets", "kube-system", "kube-router"}
)

var kubeRouter = Plugin{
	Name: "kube-router", Objects: []Object{kubeRouterConfig, kubeRouterAgent}, Devices: []string{"kube-bridge", "kube-dummy-if", "tun-*"},
	Settings: func(found APIObjects) []PluginSetting {
		all := arguments(kubeRouterAgent, found[kubeRouterAgent], "run-router", "run-firewall", "run-service-proxy", "enable-overlay", "overlay-type", "overlay-encap",
			"enable-pod-egress", "auto-mtu")
		cfg := structured(found.text(kubeRouterConfig, "cni-conf.json"))
		all = append(all, settings(kubeRouterConfig, cfg, "bridge", "mtu")...)
		plugins, _ := field(cfg, "plugins").([]any)
		for _, p := range plugins {
			all = append(all, settings(kubeRouterConfig, p, "bridge", "mtu")...)
		}
		return all
	},
}
