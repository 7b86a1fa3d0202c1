package discover_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/topology"
	"github.com/venturi-net/venturi/internal/testenv"
)

// Where kube-proxy is in its mode IPVS, a plan says that traffic to Services stays slow.
func TestPlanNamesIPVS(t *testing.T) {
	s := newSite(t, newWriter(t), 0)
	testenv.Must(t, s.sh(flannel))
	names := func() bool {
		return slices.ContainsFunc(s.plan(t, topology.IPv4).Uncarried, func(u fastpath.Uncarried) bool { return strings.Contains(u.What, "IPVS") })
	}
	if names() {
		t.Error("without IPVS, the plan names it")
	}
	testenv.Must(t, s.sh("ip link add kube-ipvs0 type bridge"))
	if !names() {
		t.Error("the plan does not name it")
	}
}
