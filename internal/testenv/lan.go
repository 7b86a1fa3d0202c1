package testenv

import (
	"fmt"
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/netcfg"
)

// LAN makes namespaces that a bridge joins. Each has a device eth0 with an address of the network,
// such as 198.51.100: the first one .1, the next .2. They go with the test.
func LAN(t testing.TB, network string, count int) (nodes []*netcfg.Namespace) {
	t.Helper()
	w, err := netcfg.Owned(Claim(t))
	Must(t, err)
	create := func(name string) *netcfg.Namespace {
		n, err := w.Create(w.Name(name))
		Must(t, err)
		t.Cleanup(n.Close)
		return n
	}
	bridge := create("wire")
	var script strings.Builder
	script.WriteString("ip link add br0 type bridge\nip link set br0 up\n")
	for i := range count {
		n := create(fmt.Sprint("m", i+1))
		fmt.Fprintf(&script, "ip link add p%d type veth peer name eth0 netns %s\nip link set p%[1]d master br0 up\n", i, n.Name())
		nodes = append(nodes, n)
	}
	Shell(t, bridge.Path(), script.String())
	for i, n := range nodes {
		Shell(t, n.Path(), fmt.Sprintf("ip link set lo up\nip addr add %s.%d/24 dev eth0\nip link set eth0 up", network, i+1))
	}
	return nodes
}
