package node_test

import (
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/fastpath/node"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/testenv"
)

// bridgedSibling6 is a second pod on the bridge, and routedSibling6 one behind a route.
const (
	bridgedSibling6 = "ip link set veth9 master cni0"
	routedSibling6  = "ip addr add fe80::1/64 dev veth9 nodad; ip route add fd00:f4:1::3/128 dev veth9"
)

// tracked6 has the node track connections of IPv6, which it does where rules ask for their state.
const tracked6 = "nft 'table ip6 tracked { chain c { type filter hook forward priority 10; ct state established accept; }; }'"

// siblingWirings6 are those of nodes with several pods that have both versions of IP. A bridge has packets of its
// pods meet the rules for IPv6, or leads them past these.
var siblingWirings6 = []siblingWiring{
	siblingOf6(dualStack[0], "", tracked6, bridgedSibling6, false),
	siblingOf6(dualStack[0], " without rules", "for f in /proc/sys/net/bridge/bridge-nf-call-ip6tables; do if [ -e $f ]; then echo 0 > $f; fi; done", bridgedSibling6, false),
	siblingOf6(dualStack[1], "", tracked6, routedSibling6, true),
	siblingOf6(dualStack[2], "", tracked6, bridgedSibling6, false),
	siblingOf6(dualStack[3], "", "", routedSibling6, true),
}

func siblingOf6(w wiring, kind, script, add string, routed bool) siblingWiring {
	return siblingWiring{wiring{w.name + kind, w.node + wire6 + script, w.pod}, siblings6, add, routed, false}
}

// Over IPv6, packets are carried between pods of one node, however the node leads them there, and wherever its
// own routes lead.
func TestEnableSiblingIPv6(t *testing.T) {
	for _, w := range wiringsHere(siblingWirings6) {
		t.Run(w.name, w.checkEnableSibling)
	}
}

// What would be carried of it is what the network hands on, to the byte.
func TestShadowSiblingIPv6(t *testing.T) {
	for _, w := range wiringsHere(siblingWirings6) {
		t.Run(w.name, func(t *testing.T) { w.checkShadowSibling(t, w.server()) })
	}
}

// The bridge forgets pods whose frames it does not see. They are carried all the same, or again: it announces
// what it forgets, and what it learns of the next frame.
func TestSiblingIPv6OutlastsItsEntries(t *testing.T) {
	b := newSibling(t, siblingWirings6[0])
	testenv.Shell(t, b.nodes[0].Path(), "ip link set cni0 type bridge ageing_time 100")
	b.learnNeighbours(t)
	exchange := b.flow(t, b.server())
	b.carry(t)
	flushConntrack(t, b.nodes[0])
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); {
		b.untilAllCarried(t, exchange)
	}
}

// A pod that is made anew, behind another device, is carried to again.
func TestSiblingIPv6MadeAnew(t *testing.T) {
	for _, w := range siblingWirings6[:3] {
		t.Run(w.name, func(t *testing.T) {
			b := newSibling(t, w)
			b.learnNeighbours(t)
			exchange := b.flow(t, b.server())
			b.carry(t)
			flushConntrack(t, b.nodes[0])
			b.untilAllCarried(t, exchange)
			testenv.Shell(t, b.nodes[0].Path(), "ip link del veth9")
			b.addPod(t, w)
			b.learnNeighbours(t)
			b.untilAllCarried(t, b.flow(t, b.server()))
		})
	}
}

// To a Service whose pod is a sibling, packets are translated: they stay slow, and arrive. Those few are looked at that
// come when as many have been sent as before a flow is learned, and then that begins anew.
func TestSiblingServiceOfIPv6StaysSlow(t *testing.T) {
	for _, w := range []siblingWiring{siblingWirings6[0], siblingWirings6[2]} {
		t.Run(w.name, func(t *testing.T) {
			b := newSibling(t, w)
			testenv.Shell(t, b.nodes[0].Path(), "nft 'table ip6 service { chain c { type nat hook prerouting priority -100; ip6 daddr fd00:f9::a udp dport 53 dnat to [fd00:f4:1::3]:7777; }; }'")
			b.learnNeighbours(t)
			direct, translated := b.flow(t, b.server()), b.flow(t, "[fd00:f9::a]:53")
			b.carry(t)
			flushConntrack(t, b.nodes[0])
			b.untilAllCarried(t, direct)
			before, learned := b.carriedNow(t), b.toBeLearned(t)
			for range 50 {
				testenv.Must(t, translated())
			}
			if now := b.toBeLearned(t); now > learned {
				t.Errorf("each packet of %d flows that are not to be carried is looked at", now-learned)
			}
			if now := b.carriedNow(t); now > before {
				t.Errorf("%d packets of a translated flow are carried", now-before)
			}
			b.untilAllCarried(t, direct)
		})
	}
}

// toBeLearned counts the candidates of IPv6 on the node that have sent enough packets to be learned of.
func (b *siblingNode) toBeLearned(t *testing.T) (n int) {
	t.Helper()
	const size, packets, learnAfter = 32, 28, 8 // of struct candidate
	table, err := ebpf.LoadPinnedMap(bpf.TableFile(b.pins6(t, 0), "candidates"), nil)
	testenv.Must(t, err)
	defer table.Close()
	var set uint32
	var ways [4 * size]byte
	all := table.Iterate()
	for all.Next(&set, &ways) {
		for at := packets; at < len(ways); at += size {
			if ways[at] >= learnAfter {
				n++
			}
		}
	}
	testenv.Must(t, all.Err())
	return n
}

// pins6 is the folder of the pins for IPv6 on a node.
func (c *cluster) pins6(t *testing.T, i int) string {
	t.Helper()
	id, err := host.ID(c.nodes[i].Path())
	testenv.Must(t, err)
	return filepath.Join(node.Root, strconv.FormatUint(id.Ino, 10), "ipv6", "bpf")
}
