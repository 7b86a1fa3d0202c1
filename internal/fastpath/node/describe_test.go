package node_test

import (
	"os/exec"
	"testing"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/netcfg"
)

// describeIfFailed says where packets may have gone.
func (c *cluster) describeIfFailed(t *testing.T) *cluster {
	t.Cleanup(func() {
		if t.Failed() {
			c.describe(t)
		}
	})
	return c
}

func (c *cluster) describe(t *testing.T) {
	for i := range c.nodes {
		for name, n := range map[string]*netcfg.Namespace{"node": c.nodes[i], "pod": c.pods[i]} {
			cmd := exec.Command("sh", "-c", "ip -s link; ip route; ip neigh; cat /proc/net/snmp; nft list ruleset")
			var out []byte
			err := host.Do(n.Path(), func() (err error) { out, err = cmd.CombinedOutput(); return err })
			t.Logf("%s %d: %v\n%s", name, i, err, out)
		}
	}
}
