package path_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/traffic"
	"github.com/venturi-net/venturi/internal/verr"
)

// protoBGP is RTPROT_BGP, which marks the routes that were learned.
const protoBGP = 186

// learned lists the routes that a machine learned by BGP, as PREFIX via ADDR.
func learned(t *testing.T, m lab.Machine) (list []string) {
	t.Helper()
	testenv.InNetns(t, m.Namespace, func() error {
		routes, err := host.Routes(protoBGP)
		for _, r := range routes {
			list = append(list, fmt.Sprintf("%s via %s", r.Dst, r.Via))
		}
		return err
	})
	slices.Sort(list)
	return list
}

// Whoever speaks with whom: when the path is up every machine has a route of
// BGP to the block of each other one, by that one itself, and the pods talk.
func TestBGP(t *testing.T) {
	testenv.Root(t)
	for _, c := range []struct {
		hosts int
		paths []string
	}{
		{2, []string{"bgp", "bgp:hold=3", "routed"}},
		{4, []string{"bgp"}},
		{4, []string{"bgp:reflector=1,asn=4200000000", "bgp:reflector=2"}},
	} {
		t.Run(fmt.Sprintf("%d hosts, %v", c.hosts, c.paths), func(t *testing.T) {
			l := testenv.Lab(t, lab.Options{Paths: c.paths, Hosts: c.hosts})
			for i, m := range l.Machines {
				var want []string
				for _, arm := range l.Arms {
					for j, other := range l.Machines {
						if j != i && arm.Path == "bgp" {
							block, err := arm.Ends[j][0].Addr.Prefix(26)
							testenv.Must(t, err)
							want = append(want, fmt.Sprintf("%s via %s", block, other.Addr))
						}
					}
				}
				slices.Sort(want)
				if got := learned(t, m); !slices.Equal(got, want) {
					t.Errorf("%s learned %v, want %v", m.Name, got, want)
				}
			}
			for _, arm := range l.Arms {
				for j := 1; j < c.hosts; j++ {
					traffic.CheckTCP(t, arm.Ends[0][0], arm.Ends[j][0])
				}
				traffic.CheckTCP(t, arm.Ends[c.hosts-1][0], arm.Ends[1][0])
			}
		})
	}
}

// A lab without a machine that is no reflector is refused.
func TestTooManyReflectors(t *testing.T) {
	testenv.Root(t)
	_, err := lab.Up(t.Context(), lab.Options{
		Name: testenv.LabName(), Paths: []string{"bgp:reflector=2"}, Program: testenv.Program(t)})
	if verr.Code(err) != verr.Usage {
		t.Errorf("got %v, want a usage error", err)
	}
}
