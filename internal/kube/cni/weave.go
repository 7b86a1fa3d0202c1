package cni

var weaveAgent = Object{"apps", "v1", "daemonsets", "kube-system", "weave-net"}

var weave = Plugin{
	Name: "Weave Net", Objects: []Object{weaveAgent}, Devices: []string{"weave", "vxlan-6784", "vethwe-*"},
	Settings: func(found APIObjects) []PluginSetting {
		return environment(weaveAgent, found[weaveAgent], "WEAVE_MTU", "WEAVE_NO_FASTDP", "IPALLOC_RANGE", "NO_MASQ_LOCAL")
	},
}
