package node_test

import (
	"encoding/binary"
	"errors"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/testenv"
)

// siblingChange ends what one pod of a node sends to another, or what comes back.
type siblingChange struct {
	name      string
	wiring    int // of the wirings of a version of IP
	service   bool
	setup     string
	do, undo  string
	forgets   bool // connections are forgotten after it
	unchanged bool // packets are still delivered
}

// siblingChanges are those over IPv4.
var siblingChanges = []siblingChange{
	{name: "rule", do: `nft 'table ip deny { chain c { type filter hook forward priority 0; meta l4proto udp drop; }; }'`, undo: "nft delete table ip deny"},
	{name: "rule for what comes back", do: `nft 'table ip deny { chain c { type filter hook forward priority 0; ip saddr 10.244.1.3 drop; }; }'`, undo: "nft delete table ip deny"},
	{name: "rule that does not meet it", do: `nft 'table ip deny { chain c { type filter hook forward priority 0; ip saddr 10.244.1.9 drop; }; }'`, undo: "nft delete table ip deny", unchanged: true},
	{name: "rule of the bridge", do: `nft 'table bridge deny { chain c { type filter hook forward priority 0; ether type ip drop; }; }'`, undo: "nft delete table bridge deny"},
	{name: "rule of the bridge for one port", wiring: 1, do: `nft 'table bridge deny { chain c { type filter hook forward priority 0; oifname "veth9" ether type ip drop; }; }'`, undo: "nft delete table bridge deny"},
	{name: "rule for IPv4 where bridges ask none", wiring: 1, do: `nft 'table ip deny { chain c { type filter hook forward priority 0; meta l4proto udp drop; }; }'`, undo: "nft delete table ip deny", unchanged: true},
	{name: "bridges ask the rules for IPv4", wiring: 1, setup: `nft 'table ip deny { chain c { type filter hook forward priority 0; meta l4proto udp drop; }; }'`,
		do: "echo 1 > /proc/sys/net/bridge/bridge-nf-call-iptables", undo: "echo 0 > /proc/sys/net/bridge/bridge-nf-call-iptables; nft delete table ip deny"},
	{name: "isolated ports", do: "bridge link set dev veth0 isolated on; bridge link set dev veth9 isolated on", undo: "bridge link set dev veth0 isolated off; bridge link set dev veth9 isolated off"},
	{name: "port that does not forward", do: "bridge link set dev veth9 state 0", undo: "bridge link set dev veth9 state 3"},
	{name: "port that learns from nobody", do: "bridge fdb replace 02:00:00:00:ee:03 dev veth9 master static; bridge link set dev veth9 learning off locked on; bridge fdb del 02:00:00:00:ee:03 dev veth9 master",
		undo: "bridge link set dev veth9 learning on locked off"},
	{name: "forwarding entry", do: "bridge fdb replace 02:00:00:00:ee:03 dev veth0 master static sticky", undo: "bridge fdb del 02:00:00:00:ee:03 dev veth0 master; bridge fdb replace 02:00:00:00:ee:03 dev veth9 master dynamic"},
	{name: "forwarding entry there and back", do: "bridge fdb replace 02:00:00:00:ee:03 dev veth0 master static sticky; sleep 0.2; bridge fdb replace 02:00:00:00:ee:03 dev veth9 master dynamic", undo: "true", unchanged: true},
	{name: "port that is taken off", do: "ip link set veth9 nomaster", undo: "ip link set veth9 master cni0"},
	{name: "device down", do: "ip link set veth9 down", undo: "ip link set veth9 up"},
	{name: "chain where a port sends", do: `nft 'table netdev deny { chain c { type filter hook egress device "veth9" priority 0; meta l4proto udp drop; }; }'`, undo: "nft delete table netdev deny"},
	{name: "chain where a port receives", do: `nft 'table netdev deny { chain c { type filter hook ingress device "veth0" priority 0; meta l4proto udp drop; }; }'`, undo: "nft delete table netdev deny"},
	{name: "connections forgotten that rules let in no more", setup: `nft 'table ip deny { chain c { type filter hook forward priority 0; ct state new drop; }; }'`, forgets: true, undo: "nft delete table ip deny"},
	{name: "Service without rules for it", service: true, do: `nft 'table ip deny { chain c { type filter hook prerouting priority -300; ip daddr 10.96.0.10 drop; }; }'`, undo: "nft delete table ip deny"},
	{name: "rule for the Service as source", service: true, do: `nft 'table ip deny { chain c { type filter hook postrouting priority 150; ct original ip daddr 10.96.0.10 drop; }; }'`, undo: "nft delete table ip deny"},
	{name: "Service whose pod goes", service: true, do: "nft flush chain ip service c", forgets: true, undo: "nft add rule ip service c ip daddr 10.96.0.10 udp dport 53 dnat to 10.244.1.3:7777"},
	{name: "Service where bridges ask no rules", service: true, do: "echo 0 > /proc/sys/net/bridge/bridge-nf-call-iptables", undo: "echo 1 > /proc/sys/net/bridge/bridge-nf-call-iptables"},

	{name: "routed: rule", wiring: 2, do: `nft 'table ip deny { chain c { type filter hook forward priority 0; meta l4proto udp drop; }; }'`, undo: "nft delete table ip deny"},
	{name: "routed: route", wiring: 2, do: "ip route replace blackhole 10.244.1.3/32", undo: "ip route replace 10.244.1.3/32 dev veth9 scope link"},
	{name: "routed: policy rule", wiring: 2, do: "ip rule add pref 7 from 10.244.1.3 to 10.244.1.2 blackhole", undo: "ip rule del pref 7"},
	{name: "routed: forwarding", wiring: 2, do: "echo 0 > /proc/sys/net/ipv4/conf/veth9/forwarding", undo: "echo 1 > /proc/sys/net/ipv4/conf/veth9/forwarding"},
	{name: "routed: neighbour", wiring: 2, do: "ip neigh replace 10.244.1.3 lladdr 02:00:00:00:99:99 dev veth9 nud permanent", undo: "ip neigh replace 10.244.1.3 lladdr 02:00:00:00:ee:03 dev veth9 nud reachable"},
	{name: "routed: Service whose pod goes", wiring: 2, service: true, do: "nft flush chain ip service c", forgets: true, undo: "nft add rule ip service c ip daddr 10.96.0.10 udp dport 53 dnat to 10.244.1.3:7777"},
}

// answers are datagrams that the second pod answers, one a millisecond.
type answers struct {
	number  atomic.Uint64
	last    atomic.Int64 // when the last answer came, nanoseconds of the wall clock
	longest atomic.Int64 // without an answer: nanoseconds
}

func (b *siblingNode) ask(t *testing.T, to string) *answers {
	t.Helper()
	a := &answers{}
	conn := b.openUDP(t, b.pods[0], b.clientAt(0), to)
	done := make(chan struct{}, 2)
	go func() {
		defer func() { done <- struct{}{} }()
		for n := uint64(0); ; n++ {
			if _, err := conn.Write(binary.BigEndian.AppendUint64(nil, n)); err != nil && isClosed(err) {
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	go func() {
		defer func() { done <- struct{}{} }()
		for buf := make([]byte, 8); ; {
			_, err := conn.Read(buf)
			switch {
			case err == nil:
				now := time.Now().UnixNano()
				a.longest.Store(max(a.longest.Load(), now-a.last.Swap(now)))
				a.number.Add(1)
			case isClosed(err):
				return
			}
		}
	}()
	t.Cleanup(func() { conn.Close(); <-done; <-done })
	return a
}

// siblingLimit is within what time a change takes hold: the best of a few tries must.
var siblingLimit = host.ScaleTimeout(100 * time.Millisecond)

const siblingTries = 12

// Whatever changes on a node while packets are carried between its pods, they end where the network
// would have ended them, soon after the change.
func TestSiblingFollowsChanges(t *testing.T) {
	followSiblingChanges(t, siblingWirings[:3], siblingChanges) // the fourth is as the third
}

func followSiblingChanges(t *testing.T, of []siblingWiring, changes []siblingChange) {
	t.Helper()
	for i, w := range of {
		var nodes [2]*siblingNode // the second carries
		var flows [2][2]*answers
		for n := range nodes {
			b := newSibling(t, w)
			nodes[n] = b
			if w.services {
				testenv.Shell(t, b.nodes[0].Path(), `nft 'table ip service { chain c { type nat hook prerouting priority -100; ip daddr 10.96.0.10 udp dport 53 dnat to 10.244.1.3:7777; }; }'`)
			}
			b.learnNeighbours(t)
			if n == 1 {
				b.carry(t)
			}
			flushConntrack(t, b.nodes[0])
			flows[n][0] = b.ask(t, b.server())
			if w.services {
				flows[n][1] = b.ask(t, serviceAddress)
			}
		}
		for _, c := range changes {
			if c.wiring != i {
				continue
			}
			flow := 0
			if c.service {
				flow = 1
			}
			t.Run(w.name+", "+c.name, func(t *testing.T) {
				var took []time.Duration
				for len(took) == 0 || slices.Min(took) > siblingLimit && len(took) < siblingTries {
					for n, b := range nodes {
						after := b.playChange(t, flows[n][flow], n == 1, c)
						if n == 1 {
							took = append(took, after)
						}
					}
				}
				t.Logf("took hold after %v", took)
				if slices.Min(took) > siblingLimit {
					t.Errorf("the change took hold after %v at best", slices.Min(took))
				}
			})
		}
	}
}

// playChange makes a change, waits until nothing is answered any more, tells how long after it the last
// answer came, and takes it back.
func (b *siblingNode) playChange(t *testing.T, a *answers, carries bool, c siblingChange) time.Duration {
	t.Helper()
	node := b.nodes[0].Path()
	if c.setup != "" {
		testenv.Shell(t, node, c.setup)
	}
	b.untilAnswered(t, a, carries)
	if c.do != "" {
		testenv.Shell(t, node, c.do)
	}
	if c.forgets {
		flushConntrack(t, b.nodes[0])
	}
	changed := time.Now()
	a.last.Store(changed.UnixNano())
	a.longest.Store(0)
	defer func() {
		testenv.Shell(t, node, c.undo)
		if c.forgets { // what was forwarded between the kernel tracking connections again and the rule is never translated
			flushConntrack(t, b.nodes[0])
		}
		b.untilAnswered(t, a, false)
	}()
	if c.unchanged {
		b.untilAnswered(t, a, carries)
		return time.Duration(a.longest.Load())
	}
	const silence = 300 * time.Millisecond
	for end := changed.Add(testenv.Timeout); ; time.Sleep(10 * time.Millisecond) {
		last := time.Unix(0, a.last.Load())
		if now := time.Now(); now.Sub(last) > silence && now.Sub(changed) > silence {
			return max(0, last.Sub(changed))
		}
		if time.Now().After(end) {
			t.Fatalf("after %v, there are still answers; carries: %v", testenv.Timeout, carries)
		}
	}
}

// untilAnswered waits until a hundred datagrams are answered, and as many packets are carried.
func (b *siblingNode) untilAnswered(t *testing.T, a *answers, carries bool) {
	t.Helper()
	const enough = 100
	before, was := a.number.Load(), uint64(0)
	if carries {
		was = b.carriedNow(t)
	}
	for end := time.Now().Add(testenv.Timeout); ; time.Sleep(20 * time.Millisecond) {
		n, packets := a.number.Load()-before, uint64(enough)
		if carries {
			packets = b.carriedNow(t) - was
		}
		if n >= enough && packets >= enough {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("after %v, %d datagrams are answered, and %d packets are carried: %v; %+v", testenv.Timeout, n, packets, carries, b.status(t, 0))
		}
	}
}

func isClosed(err error) bool { return errors.Is(err, net.ErrClosed) }
