package doctor

import (
	"testing"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/nft"
)

// kube-proxy's mode is told by what it leaves in the machine's own namespace.
func TestKubeProxyMode(t *testing.T) {
	for want, s := range map[string]Netns{
		"":         {Chains: []nft.ChainSummary{{Table: "filter", Name: "INPUT"}}},
		"iptables": {Chains: []nft.ChainSummary{{Table: "nat", Name: "PREROUTING"}, {Table: "nat", Name: "KUBE-SERVICES"}}},
		"nftables": {Chains: []nft.ChainSummary{{Table: "kube-proxy", Name: "services"}}},
		"ipvs":     {Chains: []nft.ChainSummary{{Table: "nat", Name: "KUBE-SERVICES"}}, Devices: []host.NetDevice{{Name: "kube-ipvs0"}}},
	} {
		s.Home = true
		pod := &Netns{Chains: []nft.ChainSummary{{Table: "kube-proxy", Name: "services"}}}
		if got := Judge(&View{Netns: []*Netns{pod, &s}}, Options{}).KubeProxy; got != want {
			t.Errorf("found %q, want %q", got, want)
		}
	}
}
