package path_test

import (
	"crypto/rand"
	"slices"
	"testing"

	"github.com/venturi-net/venturi/internal/feature"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/path"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/traffic"
	"github.com/venturi-net/venturi/internal/verr"
)

// Between subnets there is a second header, and within one there is none.
func TestIPIPAcrossSubnets(t *testing.T) {
	testenv.Root(t)
	if answer, _ := feature.IPIP.Ask(); answer == feature.No {
		t.Skip("this kernel has no ipip device")
	}
	wire, err := lab.ParseWire("csum=off")
	testenv.Must(t, err)
	l := testenv.Lab(t, lab.Options{Wire: wire, Hosts: 4, Paths: []string{"ipip", "ipip:mode=cross-subnet,subnets=2"}})
	arm, r := l.Arms[1], newReader(l, 1)
	for to, want := range []string{
		// m1 and m3 are in the first subnet, m2 and m4 in the second: each in turn
		// has an address of it, from the block of the first machine that is in it.
		1: "eth ip(m1.t1>m2.t1 df ttl63) ip(m1.pod1>m2.pod1 df ttl63) udp(sum)",
		2: "eth ip(m1.pod1>m3.pod1 df ttl63) udp(sum)",
		3: "eth ip(m1.t1>m2.t2 df ttl63) ip(m1.pod1>m4.pod1 df ttl63) udp(sum)",
	} {
		if to == 0 {
			continue
		}
		payload := make([]byte, 100)
		rand.Read(payload)
		frames := traffic.Capture(t, l.Machines[0].Namespace, "wire0", func() {
			testenv.Must(t, traffic.Exchange(t, arm.Ends[0][0], arm.Ends[to][0], payload))
		})
		var got []string
		for _, f := range frames {
			if text, carried := r.read(f); slices.Equal(carried, payload) {
				got = append(got, text)
			}
		}
		if len(got) == 0 || got[0] != want {
			t.Errorf("to %s: %v, want %s", l.Machines[to].Name, got, want)
		}
	}
}

// A subnet has as many addresses as it has.
func TestIPIPSubnets(t *testing.T) {
	for spec, hosts := range map[string]int{"ipip:subnets=2": 124, "ipip": 250, "ipip:mode=cross-subnet,subnets=4": 248} {
		arms, err := path.Arms([]string{spec}, nil)
		testenv.Must(t, err)
		if err := path.Allocate(arms, hosts); err != nil {
			t.Errorf("%s on %d machines: %v", spec, hosts, err)
		}
		if arms[0].Options.Int("subnets") == 1 {
			continue
		}
		if err := path.Allocate(arms, hosts+1); verr.Code(err) != verr.Usage {
			t.Errorf("%s on %d machines: %v, want an error for a user", spec, hosts+1, err)
		}
	}
}
