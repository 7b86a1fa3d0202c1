package path_test

import (
	"fmt"
	"testing"

	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/testenv"
)

// wires are the network cards that traffic is checked over.
var wires = []string{
	"",
	"tunnel-tso=off",
	"tso=off,tunnel-tso=off,gro=on",
	"csum=off",
	"mtu=9000",
	"mtu=576",
}

// Every path of the table carries content unharmed, both ways, whatever the
// wire's cards can do, also behind the packet filter of a node, and two arms
// of one path do not disturb each other. Whether anything is left afterwards
// is what TestMain looks for.
func TestTraffic(t *testing.T) {
	testenv.Root(t)
	for _, services := range []int{0, 30} {
		for _, text := range wires {
			wire, err := lab.ParseWire(text)
			if err != nil {
				t.Fatal(err)
			}
			t.Run(fmt.Sprintf("%s,services=%d", wire, services), func(t *testing.T) {
				paths := append(raisable(), raisable()...)
				l := testenv.Lab(t, lab.Options{Paths: paths, Wire: wire, Services: services})
				if len(l.Arms) != len(paths) {
					t.Fatalf("lab has %d arms, want %d", len(l.Arms), len(paths))
				}
				for _, arm := range l.Arms {
					t.Run(arm.Name, func(t *testing.T) { carries(t, arm, wire) })
				}
			})
		}
	}
}

func carries(t *testing.T, arm lab.Arm, wire lab.Wire) {
	from, to := arm.From(), arm.To()
	want := wire.MTU - arm.Overhead
	if arm.Path == "ovs-vlan" {
		want = wire.MTU // a card carries one tag beyond its MTU
	}
	if from.MTU != want || to.MTU != want {
		t.Errorf("MTU %d and %d, want %d: the wire's less the overhead", from.MTU, to.MTU, want)
	}
	checkTCP(t, from, to)
	checkTCP(t, to, from)
	const headers = 28 // IPv4 and UDP
	sizes := []int{1, from.MTU - headers, from.MTU - headers + 1, 3*from.MTU + 7}
	checkUDP(t, from, to, sizes)
	checkUDP(t, to, from, sizes)
}

// The baseline and its copy are the same ends: what differs between them is
// noise.
func TestHostTwice(t *testing.T) {
	l := testenv.Lab(t, lab.Options{Paths: []string{"host", "host"}})
	a, b := l.Arms[0], l.Arms[1]
	if a.Name != "host" || b.Name != "host.2" {
		t.Errorf("arms are called %s and %s, want host and host.2", a.Name, b.Name)
	}
	if a.From() != b.From() || a.To() != b.To() {
		t.Errorf("ends differ: %v and %v", a, b)
	}
	if pods := len(l.Machines[0].Pods) + len(l.Machines[1].Pods); pods != 0 {
		t.Errorf("lab has %d pods, want none", pods)
	}
}

// Every arm but host has ends of its own.
func TestArmsAreApart(t *testing.T) {
	l := testenv.Lab(t, lab.Options{Paths: []string{"routed", "vxlan", "routed", "vxlan"}})
	owner := map[string]string{}
	for _, arm := range l.Arms {
		for _, key := range []string{arm.From().Addr.String(), arm.To().Addr.String(), arm.From().Namespace, arm.To().Namespace} {
			if other := owner[key]; other != "" {
				t.Errorf("%s and %s both have %s", other, arm.Name, key)
			}
			owner[key] = arm.Name
		}
	}
}
