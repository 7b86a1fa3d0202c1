package fastpath_test

import (
	"testing"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/topology"
)

// A tunnel that has the name of the one that the programs were loaded for is told from it, by its own kind.
func TestOtherTunnel(t *testing.T) {
	const again = ": disable it, and enable it again"
	geneve := fastpath.Config{Kind: fastpath.Geneve, Port: 6081}
	vxlan, ipip := fastpath.Config{Kind: fastpath.VXLAN, Port: 8472}, fastpath.Config{Kind: fastpath.IPIP}
	for _, c := range []struct {
		config fastpath.Config
		tunnel *topology.Encap
		want   string
	}{
		{vxlan, &topology.Encap{Port: 8472}, ""},
		{vxlan, &topology.Encap{Port: 4789}, "uses UDP port 4789, and the fast path was enabled for port 8472" + again},
		{vxlan, &topology.Encap{IPIP: true}, "is of kind ipip, and the fast path was enabled for vxlan" + again},
		{vxlan, &topology.Encap{Geneve: true, Port: 8472}, "is of kind geneve, and the fast path was enabled for vxlan" + again},
		{geneve, &topology.Encap{Geneve: true, Port: 6081}, ""},
		{geneve, &topology.Encap{Geneve: true, Port: 6082}, "uses UDP port 6082, and the fast path was enabled for port 6081" + again},
		{geneve, &topology.Encap{Port: 6081}, "is of kind vxlan, and the fast path was enabled for geneve" + again},
		{ipip, &topology.Encap{IPIP: true}, ""},
		{ipip, &topology.Encap{Port: 4789}, "is of kind vxlan, and the fast path was enabled for ipip" + again},
		{fastpath.Config{Kind: fastpath.Routed}, nil, ""},
	} {
		if got := fastpath.OtherTunnel(&c.config, topology.NextHop{Encap: c.tunnel}); got != c.want {
			t.Errorf("a fast path of kind %s, and the tunnel %+v: %q, want %q", c.config.Kind, c.tunnel, got, c.want)
		}
	}
}
