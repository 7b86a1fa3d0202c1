package cni

var flannelConfigs = []Object{configMap("kube-flannel", "kube-flannel-cfg"), configMap("kube-system", "kube-flannel-cfg")}

var flannel = Plugin{
	Name: "Flannel", Objects: flannelConfigs, Devices: []string{"flannel*", "cni0"},
	Settings: func(found APIObjects) (all []PluginSetting) {
		for _, o := range flannelConfigs {
			all = append(all, settings(o, structured(found.text(o, "net-conf.json")),
				"Network", "Backend.Type", "Backend.MTU", "Backend.VNI", "Backend.Port", "Backend.DirectRouting", "Backend.GBP", "Backend.MacPrefix")...)
		}
		return all
	},
}
