package cni

var (
	kubeOVNSubnets    = Object{Group: "kubeovn.io", Version: "v1", Resource: "subnets"}
	kubeOVNController = Object{"apps", "v1", "deployments", "kube-system", "kube-ovn-controller"}
	kubeOVNAgent      = Object{"apps", "v1", "daemonsets", "kube-system", "kube-ovn-cni"}
)

var kubeOVN = Plugin{
	Name: "Kube-OVN", Objects: []Object{kubeOVNSubnets, kubeOVNController, kubeOVNAgent}, Devices: []string{"ovn0"},
	Settings: func(found APIObjects) (all []PluginSetting) {
		all = append(all, arguments(kubeOVNController, found[kubeOVNController], "network-type", "enable-lb", "enable-np", "ls-ct-skip-dst-lport-ips")...)
		all = append(all, arguments(kubeOVNAgent, found[kubeOVNAgent], "mtu", "enable-mirror", "encap-checksum", "set-vxlan-tx-off", "iface")...)
		for _, subnet := range found.items(kubeOVNSubnets) {
			name, _ := field(subnet, "metadata", "name").(string)
			for _, s := range settings(kubeOVNSubnets, subnet, "spec.cidrBlock", "spec.gatewayType", "spec.natOutgoing", "spec.mtu", "spec.vlan", "spec.enableLb") {
				s.From += "/" + name
				all = append(all, s)
			}
		}
		return all
	},
}
