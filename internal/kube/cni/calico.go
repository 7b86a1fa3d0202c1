package cni

var (
	calicoPools = Object{Group: "crd.projectcalico.org", Version: "v1", Resource: "ippools"}
	calicoFelix = Object{Group: "crd.projectcalico.org", Version: "v1", Resource: "felixconfigurations"}
	calicoMap   = configMap("kube-system", "calico-config")
)

var calico = Plugin{
	Name: "Calico", Objects: []Object{calicoPools, calicoFelix, calicoMap}, Devices: []string{"vxlan.calico", "wireguard.cali", "cali*"},
	Settings: func(found APIObjects) (all []PluginSetting) {
		for _, pool := range found.items(calicoPools) {
			name, _ := field(pool, "metadata", "name").(string)
			for _, s := range settings(calicoPools, pool, "spec.cidr", "spec.ipipMode", "spec.vxlanMode", "spec.natOutgoing", "spec.disabled") {
				s.From += "/" + name
				all = append(all, s)
			}
		}
		for _, felix := range found.items(calicoFelix) {
			name, _ := field(felix, "metadata", "name").(string)
			for _, s := range settings(calicoFelix, felix, "spec.bpfEnabled", "spec.nftablesMode", "spec.vxlanMTU", "spec.ipipMTU", "spec.wireguardMTU",
				"spec.mtuIfacePattern", "spec.featureDetectOverride", "spec.bpfExternalServiceMode", "spec.nftablesFlowTableOffload") {
				s.From += "/" + name
				all = append(all, s)
			}
		}
		return append(all, settings(calicoMap, found[calicoMap], "data.calico_backend", "data.veth_mtu")...)
	},
}
