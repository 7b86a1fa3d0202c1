package k8s

import (
	"slices"
	"strings"

	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/internal/yamledit"
)

// ciliumValues gives where the chart of Cilium takes what the agent calls
// otherwise.
var ciliumValues = map[string]string{
	"routing-mode":                        "routingMode",
	"tunnel":                              "tunnel", // until 1.14
	"auto-direct-node-routes":             "autoDirectNodeRoutes",
	"ipv4-native-routing-cidr":            "ipv4NativeRoutingCIDR",
	"kube-proxy-replacement":              "kubeProxyReplacement",
	"enable-bpf-masquerade":               "bpf.masquerade",
	"enable-ipv4-masquerade":              "enableIPv4Masquerade",
	"enable-host-legacy-routing":          "bpf.hostLegacyRouting",
	"datapath-mode":                       "bpf.datapathMode",
	"enable-ipv4-big-tcp":                 "enableIPv4BIGTCP",
	"enable-ipv6-big-tcp":                 "enableIPv6BIGTCP",
	"install-no-conntrack-iptables-rules": "installNoConntrackIptablesRules",
	"enable-bandwidth-manager":            "bandwidthManager.enabled",
	"enable-bbr":                          "bandwidthManager.bbr",
	"bpf-lb-acceleration":                 "loadBalancer.acceleration",
	"bpf-lb-mode":                         "loadBalancer.mode",
	"bpf-map-dynamic-size-ratio":          "bpf.mapDynamicSizeRatio",
	"bpf-distributed-lru":                 "bpf.distributedLRU.enabled",
	"preallocate-bpf-maps":                "bpf.preallocateMaps",
	"enable-bpf-clock-probe":              "bpfClockProbe",
	"enable-hubble":                       "hubble.enabled",
	"monitor-aggregation-interval":        "bpf.monitorInterval",
}

// ciliumRoots are keys by which a file of values is known to be for Cilium's chart.
var ciliumRoots = []string{"routingMode", "tunnel", "tunnelProtocol", "autoDirectNodeRoutes", "ipv4NativeRoutingCIDR", "kubeProxyReplacement",
	"bpf", "bandwidthManager", "hubble", "loadBalancer", "k8sServiceHost", "ipam", "operator", "cni", "encryption", "endpointRoutes", "enableIPv4Masquerade"}

// ciliumSettings finds Cilium's settings in a file: its ConfigMap, what a
// CiliumNodeConfig lays over that on some nodes, or the values of its chart.
func ciliumSettings(f manifest) (settings, error) {
	o, err := f.findOne("ConfigMap", "cilium-config")
	if err == nil {
		return mappingSettings{f: f, pos: o.pos, keys: dottedKey("data"), strings: true}, nil
	}
	if verr.Code(err) != verr.Missing {
		return nil, err
	}
	if o, found := renamedConfig(f); found {
		return mappingSettings{f: f, pos: o.pos, keys: dottedKey("data"), strings: true}, nil
	}
	node, nodeErr := f.findOne("CiliumNodeConfig", "")
	if nodeErr == nil {
		return mappingSettings{f: f, pos: node.pos, keys: dottedKey("spec", "defaults"), strings: true, fragment: true}, nil
	}
	if verr.Code(nodeErr) != verr.Missing {
		return nil, nodeErr
	}
	if all := f.objects(); len(all) == 1 && all[0].kind == "" && slices.ContainsFunc(ciliumRoots, func(k string) bool { return yamledit.IndexOf(all[0].node, k) >= 0 }) {
		return mappingSettings{f: f, pos: all[0].pos, keys: func(key string) []string { return strings.Split(ciliumValues[key], ".") }}, nil
	}
	return nil, err
}

// renamedConfig finds the one ConfigMap of another name that has what only
// Cilium's has.
func renamedConfig(f manifest) (object, bool) {
	var found []object
	for _, o := range f.objects() {
		data := yamledit.Lookup(o.node, "data")
		if o.kind == "ConfigMap" && data != nil && (yamledit.Lookup(data, "identity-allocation-mode") != nil || yamledit.Lookup(data, "kube-proxy-replacement") != nil) {
			found = append(found, o)
		}
	}
	if len(found) != 1 {
		return object{}, false
	}
	return found[0], true
}

// restartCilium is how such a change comes into effect, and how it goes.
const (
	restartCilium = "the agents read it when they start: kubectl -n kube-system rollout restart ds/cilium; try it on one pair of nodes first, by a CiliumNodeConfig"
	undoCilium    = "the file gets its old bytes back; apply it and restart the agents again"
	undoPods      = undoCilium + ", and restart the pods: their devices were created with the new setting"
)

// ciliumNeeds says in a note what else must be so for a setting to do anything.
func ciliumNeeds(r knob.Reading, what ...string) knob.Reading {
	r.Note = strings.Join(append(what, restartCilium), "; ")
	return r
}

// replacesKubeProxy tells whether Cilium replaces kube-proxy, in the old
// words or the new ones.
func replacesKubeProxy(s settings) bool {
	text, _ := s.get("kube-proxy-replacement")
	return text == "true" || text == "strict"
}

// isNative tells whether packets go without a tunnel.
func isNative(s settings) bool {
	mode, _ := s.get("routing-mode")
	old, _ := s.get("tunnel")
	return mode == "native" || mode == "" && old == "disabled"
}

// masqueradesInBPF tells whether nothing is left to iptables that leaves the node.
func masqueradesInBPF(s settings) bool {
	all, there := s.get("enable-ipv4-masquerade")
	return isOn(s, "enable-bpf-masquerade") || there && all == "false"
}

// routesInBPF tells whether packets pass by the host's own stack, as far as
// the file says it.
func routesInBPF(s settings) bool {
	return !isOn(s, "enable-host-legacy-routing") && replacesKubeProxy(s) && masqueradesInBPF(s)
}
