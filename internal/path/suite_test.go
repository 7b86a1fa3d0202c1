package path_test

import (
	"slices"
	"testing"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/agenttest"
	"github.com/venturi-net/venturi/internal/testenv/traffic"
)

// Every path of the table carries content unharmed, both ways, whatever the
// wire's cards can do, and two arms of one path do not disturb each other.
// Whether anything is left afterwards is what TestMain looks for.
func TestTraffic(t *testing.T) {
	if agenttest.InShortGuest() { // an emulated CPU takes ten minutes for all of it
		carryOver(t, []string{"", "tso=off,tunnel-tso=off,gro=on"}, 0, pick(t, first))
		return
	}
	wires := traffic.Wires
	if !testenv.Long() && !agenttest.InGuest() {
		wires = traffic.FewWires
	}
	carryOver(t, wires, 0, pick(t, func(v variant, nth int) int {
		switch {
		case nth > 0:
			return 0
		case v.pairable:
			return 2
		}
		return 1
	}))
}

// The same holds behind the packet filter of a node, for paths that go through
// it. What daemons do has nothing to do with that.
func TestTrafficBehindServices(t *testing.T) {
	carryOver(t, []string{"", "tso=off,tunnel-tso=off,gro=on", "csum=off"}, 30, pick(t, func(v variant, nth int) int {
		if nth == 0 && v.pairable {
			return 1
		}
		return 0
	}))
}

func carryOver(t *testing.T, wires []string, services int, list []variant) {
	for some := range slices.Chunk(list, atOnce()) {
		carryTogether(t, wires, services, some)
	}
}

func carryTogether(t *testing.T, wires []string, services int, list []variant) {
	var labs []lab.Options
	for _, wire := range wires {
		o := labOf(t, list, wire)
		o.Services = services
		labs = append(labs, o)
	}
	inTurn(t, labs, func(l *lab.Lab, o lab.Options) {
		if len(l.Arms) != len(list) {
			t.Fatalf("lab has %d arms, want %d", len(l.Arms), len(list))
		}
		for i, arm := range l.Arms {
			list[i].run(t, o.Wire.String()+" "+arm.Name, func(t *testing.T) { carries(t, arm, o.Wire.MTU-list[i].less, list[i].parts) })
		}
	})
}

// pair is two ends of traffic.
type pair struct{ from, to host.Endpoint }

func carries(t *testing.T, arm lab.Arm, mtu, parts int) {
	from, to := arm.Client(), arm.Server()
	if from.MTU != mtu || to.MTU != mtu {
		t.Errorf("MTU %d and %d, want %d", from.MTU, to.MTU, mtu)
	}
	most := from.MTU - traffic.UDPHeaders
	greatest := 65507
	if parts > 0 {
		greatest = min(greatest, parts*((from.MTU-20)&^7)-8) // what one fragment carries is whole blocks of 8
	}
	sizes := []int{1, most, most + 1, 3*from.MTU + 7, greatest}
	for _, way := range []pair{{from, to}, {to, from}} {
		traffic.CheckTCP(t, way.from, way.to)
		traffic.CheckUDP(t, way.from, way.to, sizes)
		traffic.CheckSegments(t, way.from, way.to)
		traffic.CheckMTU(t, way.from, way.to)
	}
}

// Every driver with all the options that the suite has for it.
func TestVariants(t *testing.T) {
	testenv.Root(t)
	for list := range slices.Chunk(all(t), atOnce()) {
		t.Run(list[0].spec, func(t *testing.T) {
			l := raise(t, list)
			for i, arm := range l.Arms {
				list[i].run(t, arm.Name, func(t *testing.T) { podsTalk(t, arm, list[i]) })
			}
			areApart(t, l, list)
			measures(t, l, list)
		})
	}
}

// podsTalk: the k-th pods of two machines do, each pair by its own tunnel if
// there are several.
func podsTalk(t *testing.T, arm lab.Arm, v variant) {
	if len(arm.Ends[0]) != v.pods || len(arm.Ends[1]) != v.pods {
		t.Fatalf("%s: %d and %d pods, want %d", v.spec, len(arm.Ends[0]), len(arm.Ends[1]), v.pods)
	}
	for k := range arm.Ends[0] {
		a, b := arm.Ends[0][k], arm.Ends[1][k]
		if want := lab.DefaultWire().MTU - v.less; a.MTU != want || b.MTU != want {
			t.Errorf("%s, pod %d: MTU %d and %d, want %d", v.spec, k+1, a.MTU, b.MTU, want)
		}
		traffic.CheckTCP(t, a, b)
		traffic.CheckUDP(t, b, a, []int{1, a.MTU - traffic.UDPHeaders, 3 * a.MTU})
		traffic.CheckMTU(t, a, b)
	}
}

// The baseline and its copy are the same ends: what differs between them is
// noise.
func TestHostTwice(t *testing.T) {
	l := testenv.Lab(t, lab.Options{Paths: []string{"host", "host"}})
	a, b := l.Arms[0], l.Arms[1]
	if a.Name != "host" || b.Name != "host.2" {
		t.Errorf("arms are called %s and %s, want host and host.2", a.Name, b.Name)
	}
	if a.Client() != b.Client() || a.Server() != b.Server() {
		t.Errorf("ends differ: %v and %v", a, b)
	}
	if pods := len(l.Machines[0].Pods) + len(l.Machines[1].Pods); pods != 0 {
		t.Errorf("lab has %d pods, want none", pods)
	}
}

// areApart: every pod of every arm has an address of its own and, unless it is
// the machine itself, a namespace.
func areApart(t *testing.T, l *lab.Lab, list []variant) {
	owner := map[string]string{}
	for i, arm := range l.Arms {
		for m, ends := range arm.Ends {
			for _, end := range ends {
				keys := []string{end.Addr.String()}
				if end.Namespace != l.Machines[m].Namespace {
					keys = append(keys, end.Namespace)
				}
				for _, key := range keys {
					if other := owner[key]; other != "" {
						t.Errorf("%s and %s both have %s", other, list[i].spec, key)
					}
					owner[key] = list[i].spec
				}
			}
		}
	}
}
