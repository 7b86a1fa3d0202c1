package audit_test

import (
	"errors"
	"net/netip"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/fastpathtest"
)

// Established flows pass the rules of policy engines by the state of their connection. Where an engine
// has a set say which hosts may send tunnel packets, each of those asks the set.
func TestRulingsOfPolicies(t *testing.T) {
	for _, e := range fastpathtest.PolicyEngines() {
		n := testenv.Netns(t)
		testenv.InNetns(t, n.Path(), func() (err error) {
			for name, kind := range e.IPSets {
				err = errors.Join(err, netlink.IpsetCreate(name, kind, netlink.IpsetCreateOptions{Family: netlink.FAMILY_V4}))
			}
			return err
		})
		e.Load(t, n, e.Rules(netip.MustParseAddr("10.244.1.2"), "veth0"))
		for _, port := range []uint16{0, 4789} {
			if got := auditRuleset(t, n, port); got.PerPacket != "" || got.ReadsConnMark || got.IPSets != nil {
				t.Errorf("%s with port %d: %+v", e.Name, port, got)
			}
		}
		if got := auditRuleset(t, n, 0).PerPacketUnreplied; got == "" {
			t.Errorf("%s: flows without a reply are taken for established", e.Name)
		}
		if e.Name != "Felix" {
			continue
		}
		e.Load(t, n, fastpathtest.Felix{Prefix: "veth", Port: 7777, VXLAN: true, Pods: []fastpathtest.FelixPod{{Device: "veth0", Policy: true}}}.Rules())
		if got := auditRuleset(t, n, 4789); got.PerPacket != "" || !slices.Equal(got.IPSets, []string{fastpathtest.FelixHosts}) {
			t.Errorf("with VXLAN: fickle %q, depends on %q", got.PerPacket, got.IPSets)
		}
	}
}
