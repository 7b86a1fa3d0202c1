package e2e

import (
	"encoding/binary"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/kernel"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/agenttest"
	"github.com/venturi-net/venturi/internal/testenv/fastpathtest"
	"github.com/venturi-net/venturi/internal/testenv/traffic"
)

// stackedWire is a wire whose devices stand on others, as those of servers do.
type stackedWire struct {
	name  string
	cards int
	// script makes a machine's device on the wire, of the address MAC, on its cards.
	script  string
	spreads bool // flows are spread over the cards
	short   bool // it runs where there is little time
	native  bool // it needs no module: it runs on any machine, and not in guests
}

// QoS maps are by the priorities that TOS gives, and by those of tags.
const qosMaps = " egress-qos-map 2:3 4:5 6:7 ingress-qos-map 3:6 5:1"

var stackedWires = []stackedWire{
	{name: "macvlan, of a lab", cards: 1, native: true, short: true, script: "ip link add wire0 link card0 address MAC type macvlan mode private"},
	{name: "VLAN", cards: 1, script: "ip link add wire0 link card0 address MAC type vlan id 100" + qosMaps},
	{name: "QinQ", cards: 1, script: `
		ip link add outer0 link card0 type vlan protocol 802.1ad id 100
		ip link set outer0 up
		ip link add wire0 link outer0 address MAC type vlan id 200` + qosMaps},
	{name: "bond by hash", cards: 2, spreads: true, script: bondOf("wire0 address MAC", "wire0", "balance-xor xmit_hash_policy layer3+4")},
	{name: "VLAN on a bond by hash", cards: 2, spreads: true, short: true, script: bondOf("bond0", "bond0", "balance-xor xmit_hash_policy layer3+4") + `
		ip link set bond0 up
		ip link add wire0 link bond0 address MAC type vlan id 100` + qosMaps},
	// Of frames with two tags, the bond hashes the MACs alone.
	{name: "QinQ on a bond by hash", cards: 2, script: bondOf("bond0", "bond0", "balance-xor xmit_hash_policy layer3+4") + `
		ip link set bond0 up
		ip link add outer0 link bond0 type vlan protocol 802.1ad id 100
		ip link set outer0 up
		ip link add wire0 link outer0 address MAC type vlan id 200` + qosMaps},
	// The cards are joined by cables: the bonds may disagree on which of them is active.
	{name: "VLAN on a bond with a backup", cards: 2, script: bondOf("bond0", "bond0", "active-backup all_slaves_active 1") + `
		ip link set bond0 up
		ip link add wire0 link bond0 address MAC type vlan id 100`},
}

// bondOf makes a bond of both cards.
func bondOf(device, name, mode string) string {
	return fmt.Sprintf(`
		ip link add %s type bond mode %s miimon 50
		for card in card0 card1; do
			ip link set $card down
			ip link set $card master %s
		done`, device, mode, name)
}

// up makes the wire. Its cards have MACs of their own.
func (w stackedWire) up(ends []netcfg.VethEnd, join func(name string, ends []netcfg.VethEnd) error) error {
	for n := range w.cards {
		cards := slices.Clone(ends)
		for i := range cards {
			cards[i].Name, cards[i].MAC = fmt.Sprint("card", n), net.HardwareAddr{0x02, 0xca, 0x5d, 0, byte(n), byte(i)}
		}
		if err := join(fmt.Sprint("card", n), cards); err != nil {
			return err
		}
	}
	for _, end := range ends {
		script := strings.ReplaceAll(w.script, "MAC", end.MAC.String()) + "\nip link set wire0 up"
		if err := host.Do(end.In.Path(), func() error { return runScript(script) }); err != nil {
			return err
		}
	}
	return nil
}

// cardsBelow names the cards of a machine whose device on the wire stands on them.
func cardsBelow(t *testing.T, m lab.Machine) (cards []string) {
	t.Helper()
	testenv.InNetns(t, m.Namespace, func() error {
		links, err := host.Links()
		for _, l := range links {
			if strings.HasPrefix(l.Attrs().Name, "card") {
				cards = append(cards, l.Attrs().Name)
			}
		}
		return err
	})
	return cards
}

// lowerObstacles are at a device below the wire.
var lowerObstacles = []obstacle{
	{name: "chain below", add: "nft 'add table netdev obstacle" + nftChain + "ingress device card0 priority 0; }'", del: "nft 'delete table netdev obstacle'", device: "WIRE", reason: "stands on card0, which has an nftables chain"},
	{name: "filter below", add: "tc qdisc add dev card0 clsact; tc filter add dev card0 ingress" + someFilter, del: "tc qdisc del dev card0 clsact", device: "WIRE", reason: "stands on card0, which has tc filters at its ingress"},
	{name: "classes below, by marks", add: marks + "tc qdisc add dev card0 root handle 7: htb default 1; tc filter add dev card0 parent 7:" + someFilter, del: "tc qdisc del dev card0 root; nft 'delete table ip obstacle'", device: "WIRE", reason: "has a queueing discipline htb at card0 with filters, which may depend on marks that rules set (ip obstacle c)"},
	{name: "program below", build: lowerProgram, device: "WIRE", reason: "stands on card0, which has a BPF program obstacle at its ingress"},
	{name: "filter below, by device", add: "tc qdisc add dev card0 clsact; tc filter add dev card0 egress" + filterByDevice, del: "tc qdisc del dev card0 clsact", device: "WIRE", reason: "has a queueing discipline clsact at card0 with filters of kind u32 by indev, which may depend on more than the packet itself"},
	{name: "program below, out", build: egressProgram("card0"), device: "WIRE", reason: "stands on card0, which has a BPF program obstacle at its egress, which may depend on more than the packet itself"},
}

// lowerProgram is a program where a card receives.
func lowerProgram(t *testing.T, m lab.Machine, _, _ string) (detach func()) {
	t.Helper()
	if !kernel.HasTCX() {
		return nil
	}
	_, detach = attach(t, m, "card0", ebpf.AttachTCXIngress)
	return detach
}

// Over wires that stand on VLANs, bonds and both, flows are carried, rules hold, what leaves is what
// leaves without the fast path, tags included, and what is below the wire is watched. VLANs and bonds are
// of modules, which change the machine that loads them.
func TestFastPathOnStackedWires(t *testing.T) {
	requireFastPath(t)
	all := agenttest.ChosenPart() == agenttest.AllTests
	for _, w := range stackedWires {
		if !w.short && !all || w.native == agenttest.InGuest() {
			continue
		}
		t.Run(w.name, func(t *testing.T) {
			paths := []string{"vxlan:vni=100", "vxlan+fast:vni=101"}
			if all {
				paths = append(paths, "routed", "routed+fast")
			}
			l := testenv.Lab(t, lab.Options{Paths: paths, StackWire: w.up})
			for i := 1; i < len(l.Arms); i += 2 {
				t.Run(l.Arms[i].Path, func(t *testing.T) {
					w.checkCarried(t, l, l.Arms[i], w.native || all)
					if w.native {
						return // no tags and no choice of cards
					}
					pin(t)
					slow, fast := newScene(t, l, i-1), newScene(t, l, i)
					for _, c := range slices.Concat(podReplays, wireReplays) {
						if c.concerns(slow) && (all || c.carried) {
							c.compare(t, slow, fast)
						}
					}
				})
			}
		})
	}
}

// checkCarried checks what becomes of a flow that is carried, and of one that meets obstacles.
func (w stackedWire) checkCarried(t *testing.T, l *lab.Lab, arm lab.Arm, meetsObstacles bool) {
	m := l.Machines[0]
	config, err := fastpath.Load(filepath.Join(filepath.Dir(arm.Pins[0]), "fast.json"))
	testenv.Must(t, err)
	traffic.CheckTCP(t, arm.Client(), arm.Server())
	fastpathtest.CheckForbid(t, arm, m)
	if w.cards > 1 {
		w.checkCards(t, l, arm)
	}
	fastpathtest.WithFlow(t, arm, func(exchange func(time.Duration) error) {
		fastpathtest.WaitCarried(t, arm, exchange)
		for _, o := range lowerObstacles {
			if !meetsObstacles {
				break
			}
			t.Run(o.name, func(t *testing.T) { o.check(t, m, arm, config.Devices, exchange, func() {}) })
		}
		if w.cards == 1 {
			return
		}
		for _, state := range []string{"down", "up"} { // of a card, which the other end of its cable follows
			testenv.InNetns(t, m.Namespace, func() error { return runScript("ip link set card0 " + state) })
			fastpathtest.WaitAnswered(t, exchange, true)
			fastpathtest.WaitCarried(t, arm, exchange)
		}
	})
}

// checkCards wants all packets of a flow on one card of a bond, from the first one, which is slow, to those
// that are carried.
func (w stackedWire) checkCards(t *testing.T, l *lab.Lab, arm lab.Arm) {
	t.Helper()
	const flows = 6
	m := l.Machines[1]
	taps := map[string]int{}
	for _, card := range cardsBelow(t, m) {
		taps[card] = traffic.OpenTap(t, m.Namespace, card) // what it sends, too
		defer unix.Close(taps[card])
		testenv.Must(t, unix.SetsockoptInt(taps[card], unix.SOL_PACKET, unix.PACKET_VNET_HDR, 1))
	}
	for range flows {
		fastpathtest.WithFlow(t, arm, func(exchange func(time.Duration) error) { fastpathtest.WaitCarried(t, arm, exchange) })
	}
	cardOf, used := map[string]string{}, map[string]bool{}
	for card, tap := range taps {
		for _, f := range readFrames(t, tap) {
			flow := innerFlow(f.bytes)
			if flow == "" {
				continue
			}
			if other, known := cardOf[flow]; known && other != card {
				t.Errorf("packets of %s are on %s and on %s", flow, other, card)
			}
			cardOf[flow], used[card] = card, true
		}
	}
	if len(cardOf) < 2*flows || w.spreads && len(used) < w.cards {
		t.Errorf("flows %v, want %d on the cards, which the bond chooses", cardOf, 2*flows)
	}
}

// innerFlow names the addresses and ports of a pod's datagram on the wire; "": it is none.
func innerFlow(b []byte) string {
	for len(b) > ethLen+tagLen && isTag(b[12:]) {
		b = b[tagLen:]
	}
	const ports = ethLen + ipLen
	if len(b) < ports+udpLen || binary.BigEndian.Uint16(b[12:]) != unix.ETH_P_IP || b[ethLen+9] != unix.IPPROTO_UDP {
		return ""
	}
	if binary.BigEndian.Uint16(b[ports+2:]) == vxlanPort {
		return innerFlow(b[min(len(b), ports+udpLen+vxlanLen):])
	}
	return fmt.Sprintf("%v:%d > %v:%d", net.IP(b[ethLen+12:ethLen+16]), binary.BigEndian.Uint16(b[ports:]), net.IP(b[ethLen+16:ethLen+20]), binary.BigEndian.Uint16(b[ports+2:]))
}
