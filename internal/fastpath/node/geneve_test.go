package node_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/testenv"
)

// Geneve devices come and go while the fast path runs: it follows those of its port, whatever their names
// and VNIs. If a peer has another MAC, it finds that out although carried packets do not ask for it.
func TestFollowsGeneve(t *testing.T) {
	needsModules(t)
	c := newCluster(t, geneveMesh.node, geneveMesh.pod)
	c.answer(t)
	send := c.exchanges(t, "10.244.2.2:7777")
	exchange := func() error { return send(testenv.Timeout) }
	testenv.Must(t, exchange())
	for i := range c.nodes {
		c.enable(t, i, "0")
	}
	c.untilCarried(t, exchange)
	for i := range c.nodes {
		c.onNode(t, i, `
			ip link del geneveJ
			ip link add other address 02:00:00:00:ee:0I mtu 1450 type geneve id 8 remote 192.0.10.J
			ip addr add 10.255.0.I/24 dev other
			ip link set other up
			ip route add 10.244.J.0/24 via 10.255.0.J dev other`)
	}
	c.untilAnswered(t, send)
	c.untilCarried(t, exchange)

	c.onNode(t, 1, "ip link set other address 02:00:00:00:ee:09")
	c.onNode(t, 0, "ip neigh replace 10.255.0.2 lladdr 02:00:00:00:ee:02 dev other nud stale")
	c.untilAnswered(t, send)
	c.untilCarried(t, exchange)

	// One that gets what is not the other's any more.
	c.onNode(t, 0, "ip link add thief type geneve id 8 remote 192.0.10.9; ip link set thief up; ip link set thief type geneve id 8 remote 192.0.10.2")
	c.untilRefused(t, 0, "other", "may lose its packets to thief, which has the same remote, id and dstport")
	c.onNode(t, 0, "ip link del thief")
	c.untilAnswered(t, send)
	c.untilCarried(t, exchange)

	c.onNode(t, 0, "ip link set other type geneve id 8 remote 192.0.10.2 ttl inherit")
	c.untilRefused(t, 0, "other", "has attributes that the fast path does not support (ttl inherit)")
}

// onNode runs a script as a wiring's is run.
func (c *cluster) onNode(t *testing.T, i int, script string) {
	t.Helper()
	testenv.Shell(t, c.nodes[i].Path(), strings.NewReplacer("I", fmt.Sprint(i+1), "J", fmt.Sprint(2-i)).Replace(script))
}

// untilAnswered sends until a datagram is answered again.
func (c *cluster) untilAnswered(t *testing.T, send func(wait time.Duration) error) {
	t.Helper()
	var err error
	for end := time.Now().Add(testenv.Timeout); time.Now().Before(end); {
		if err = send(host.ScaleTimeout(100 * time.Millisecond)); err == nil {
			return
		}
	}
	t.Fatalf("after %v there is no answer: %v; %+v; %+v", testenv.Timeout, err, c.status(t, 0), c.status(t, 1))
}
