package e2e

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/agenttest"
)

// natMode is how the flows of a scene are translated.
type natMode string

const (
	noNAT natMode = ""
	// toService: pod a is the client of a Service, whose pod is b: the first machine translates
	// the destination of what pod a sends.
	toService natMode = "to a Service"
	// ofService: pod b is the client, and pod a that of the Service: the second machine
	// translates the source of what pod a sends.
	ofService natMode = "of a Service"
)

// servicePorts is how far the ports of a Service over UDP are from those of its pods.
const servicePorts = 100

// virtual is the address of a Service, of which each client has one of its own.
func (s *scene) virtual() netip.Addr { return netip.MustParseAddr("10.96.201.1") }

// servedAtB is the port over UDP at which pod b is, and servedAtA the one at which it finds
// pod a.
func (s *scene) servedAtB() int {
	if s.nat == toService {
		return portB + servicePorts
	}
	return portB
}

func (s *scene) servedAtA() int {
	if s.nat == ofService {
		return portA + servicePorts
	}
	return portA
}

// translate has a machine translate what is for the Service, until the test is over.
func (s *scene) translate(l *lab.Lab) {
	m, client, pod, from, to := l.Machines[0], s.arm.Client().Addr, s.arm.Server().Addr, portB, s.servedAtB()
	switch s.nat {
	case noNAT:
		return
	case ofService:
		m, client, pod, from, to = l.Machines[1], pod, client, s.servedAtA(), portA
	}
	shell(s.t, m, nil, fmt.Sprintf(`nft 'table ip replay%[1]d { chain c { type nat hook prerouting priority -100;
		ip saddr %[6]s ip daddr %[2]s udp dport %[3]d dnat to %[4]s:%[5]d; ip saddr %[6]s ip daddr %[2]s dnat to %[4]s; }; }'`,
		s.view.index, s.virtual(), from, pod, to, client))
	s.t.Cleanup(func() { shell(s.t, m, nil, fmt.Sprintf("nft delete table ip replay%d", s.view.index)) })
}

// serviceReplays are cases of what a pod can send to a Service, or as one.
var serviceReplays = slices.Concat(sizesOf, headersOf, brokenOf, icmpOf, fragmentsOf, segmentsOf, gsoOf)

// Of a Service's traffic, too, the fast path delivers what the slow path does, byte for byte.
func TestFastPathReplaysServices(t *testing.T) {
	requireFastPath(t)
	requireTools(t)
	wires := []string{"", "csum=off", "tso=off,gro=on"}
	if agenttest.InGuest() {
		wires = wires[:1] // its CPU takes its time
	}
	for _, text := range wires {
		wire, err := lab.ParseWire(text)
		testenv.Must(t, err)
		l := testenv.Lab(t, lab.Options{Paths: scenes(), Wire: wire, Services: 30})
		for i := 0; i < len(l.Arms); i += 2 {
			for _, nat := range []natMode{toService, ofService} {
				t.Run(fmt.Sprintf("%s %s %s", wire, l.Arms[i].Path, nat), func(t *testing.T) {
					pin(t)
					for _, m := range l.Machines {
						forgetConnections(t, m)
					}
					slow, fast := newNATScene(t, l, i, nat), newNATScene(t, l, i+1, nat)
					for _, c := range serviceReplays {
						if !c.bursts || takesBursts() {
							c.compare(t, slow, fast)
						}
					}
					if nat == toService { // what is translated waits for an answer
						for _, s := range []*scene{slow, fast} {
							s.sendOneWay()
							s.staysSlow()
						}
					}
				})
			}
		}
		testenv.Must(t, l.Down())
	}
}
