package doctor

import "strings"

// kubeProxyMode tells from a machine's own namespace how kube-proxy has set up Services
// there; empty: not at all, as far as was seen.
func (v *View) kubeProxyMode() string {
	s := v.home()
	if s == nil {
		return ""
	}
	if s.deviceByName("kube-ipvs0") != nil {
		return "ipvs"
	}
	for _, c := range s.Chains {
		switch {
		case c.Table == "kube-proxy":
			return "nftables"
		case strings.HasPrefix(c.Name, "KUBE-SVC-") || c.Name == "KUBE-SERVICES":
			return "iptables"
		}
	}
	return ""
}
