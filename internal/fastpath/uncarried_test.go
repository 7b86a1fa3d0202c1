package fastpath_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/fastpath"
)

// What is translated and stays slow is named, by the kind of the fast path; one that carries nothing
// translated names none. With IPVS, all that goes by it is named first.
func TestUncarried(t *testing.T) {
	nodePort, oneWay, beside := "traffic that comes to a NodePort", "one-way UDP that is translated", "traffic to a Service whose pod is on this node"
	const ipvs = "all traffic that this node leads to Services by IPVS"
	for _, c := range []struct {
		fastpath.Config
		want []string // how each kind begins
	}{
		{fastpath.Config{Kind: fastpath.Routed}, []string{"TCP that is masqueraded", nodePort, oneWay}},
		{fastpath.Config{Kind: fastpath.VXLAN}, []string{"traffic of pods outside the tunnel", nodePort, oneWay}},
		{fastpath.Config{Kind: fastpath.IPIP}, []string{"traffic of pods outside the tunnel", nodePort, oneWay}},
		{fastpath.Config{Kind: fastpath.Routed6}, []string{"TCP that is masqueraded", nodePort, oneWay, beside}},
		{fastpath.Config{Kind: fastpath.VXLAN6}, []string{"traffic of pods outside the tunnel", "TCP that is masqueraded", nodePort, oneWay, beside}},
		{fastpath.Config{Kind: fastpath.Routed6, NoNAT: true}, nil},
		{fastpath.Config{Kind: fastpath.Routed, NoNAT: true}, nil},
	} {
		check := func(hasIPVS bool, want []string) {
			got := fastpath.UncarriedWith(&c.Config, hasIPVS)
			same := len(got) == len(want)
			for i := 0; same && i < len(got); i++ {
				same = strings.HasPrefix(got[i].What, want[i]) && got[i].Why != ""
			}
			if !same {
				t.Errorf("%s, translated traffic left alone %v, IPVS %v: %+v", c.Kind, c.NoNAT, hasIPVS, got)
			}
		}
		check(false, c.want)
		if !c.NoNAT {
			c.want = slices.Insert(c.want, 0, ipvs)
		}
		check(true, c.want)
	}
}
