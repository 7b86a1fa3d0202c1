package fastpath_test

import (
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/fastpath"
)

// What is translated and stays slow is named, by the kind of the fast path; one that carries nothing
// translated names none.
func TestUncarried(t *testing.T) {
	nodePort, oneWay, beside := "traffic that comes to a NodePort", "one-way UDP that is translated", "traffic to a Service whose pod is on this node"
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
		got := fastpath.UncarriedWith(&c.Config)
		same := len(got) == len(c.want)
		for i := 0; same && i < len(got); i++ {
			same = strings.HasPrefix(got[i].What, c.want[i]) && got[i].Why != ""
		}
		if !same {
			t.Errorf("%s, translated traffic left alone %v: %+v", c.Kind, c.NoNAT, got)
		}
	}
}
