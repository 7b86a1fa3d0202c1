package cni

var antreaConfig = configMap("kube-system", "antrea-config")

var antrea = Plugin{
	Name: "Antrea", Objects: []Object{antreaConfig}, Devices: []string{"antrea-*"},
	Settings: func(found APIObjects) []PluginSetting {
		return settings(antreaConfig, structured(found.text(antreaConfig, "antrea-agent.conf")), "trafficEncapMode", "tunnelType", "tunnelCsum", "trafficEncryptionMode",
			"defaultMTU", "noSNAT", "antreaProxy.enable", "antreaProxy.proxyAll", "ovsDatapathType")
	},
}
