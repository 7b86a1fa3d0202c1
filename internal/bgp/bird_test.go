package bgp_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/bgp"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/testenv"
)

func withBIRD(i int, more string) string {
	return fmt.Sprintf("protocol bgp peer%d from ours { neighbor %s as %d; %s }\n", i, addr(i), asn, more)
}

// A real BIRD as peer: each side has the other's blocks in its kernel.
func TestBIRDPeer(t *testing.T) {
	testenv.Root(t)
	r := newRig(t, 2)
	c := r.config(0, 1)
	r.bird(1, withBIRD(0, ""))
	r.speak(0, c)
	r.awaitRoutes(0, protoBGP, routeVia(1, 0), routeVia(1, 1))
	r.awaitRoutes(1, protoBIRD, routeVia(0, 0))

	// BIRD takes one block back.
	r.editBIRD(1, fmt.Sprintf("\troute %s blackhole;\n", block(1, 1)), "")
	r.awaitRoutes(0, protoBGP, routeVia(1, 0))
	if s := state(c); s.Peers[0].Down != "" {
		t.Errorf("the session went down: %s", s.Peers[0].Down)
	}
}

// BIRD reflects between two speakers, which do not speak with each other.
func TestBIRDReflects(t *testing.T) {
	testenv.Root(t)
	r := newRig(t, 3)
	r.bird(0, withBIRD(1, "rr client;")+withBIRD(2, "rr client;"))
	for _, i := range []int{1, 2} {
		r.speak(i, r.config(i, 0))
	}
	r.awaitRoutes(1, protoBGP, routeVia(0, 0), routeVia(0, 1), routeVia(2, 0))
	r.awaitRoutes(2, protoBGP, routeVia(0, 0), routeVia(0, 1), routeVia(1, 0))
}

// A speaker reflects between two BIRDs and another speaker.
func TestReflectsForBIRD(t *testing.T) {
	testenv.Root(t)
	r := newRig(t, 4)
	c := r.config(0, 1, 2, 3)
	c.ClusterID = netip.MustParseAddr("244.0.0.1")
	for n := range c.Neighbours {
		c.Neighbours[n].Client = true
	}
	r.speak(0, c)
	r.bird(1, withBIRD(0, ""))
	r.bird(2, withBIRD(0, ""))
	r.speak(3, r.config(3, 0))
	r.awaitRoutes(1, protoBIRD, routeVia(0, 0), routeVia(2, 0), routeVia(2, 1), routeVia(3, 0))
	r.awaitRoutes(2, protoBIRD, routeVia(0, 0), routeVia(1, 0), routeVia(1, 1), routeVia(3, 0))
	r.awaitRoutes(3, protoBGP, routeVia(0, 0), routeVia(1, 0), routeVia(1, 1), routeVia(2, 0), routeVia(2, 1))
	// RFC 4456: a reflected route says whose it is and which cluster it crossed.
	route := r.birdc(1, "show", "route", "all", block(2, 0).String())
	for _, want := range []string{"BGP.originator_id: " + addr(2).String(), "BGP.cluster_list: 244.0.0.1"} {
		if !strings.Contains(route, want) {
			t.Errorf("the reflected route does not say %q:\n%s", want, route)
		}
	}
}

// A peer dies without a word: no packet of its end gets through. Its routes go
// when the hold time is over; those of the other peer stay.
func TestSilentDeath(t *testing.T) {
	testenv.Root(t)
	r := newRig(t, 3)
	c := r.config(0, 1, 2)
	victim := r.bird(1, withBIRD(0, ""))
	r.bird(2, withBIRD(0, ""))
	r.speak(0, c)
	r.awaitRoutes(0, protoBGP, routeVia(1, 0), routeVia(1, 1), routeVia(2, 0), routeVia(2, 1))

	cut(t, r.fabric, "port1")
	silent := time.Now()
	testenv.Must(t, unix.Kill(victim.Pid, unix.SIGKILL))
	ended(t, victim)
	r.awaitRoutes(0, protoBGP, routeVia(2, 0), routeVia(2, 1))
	// The last keepalive came up to a second before the link went.
	took := time.Since(silent)
	hold := time.Duration(c.Hold) * time.Second
	if took < hold-1500*time.Millisecond {
		t.Errorf("the routes went after %v: that was not the hold time of %v", took, hold)
	}
	if took > hold+10*time.Second {
		t.Errorf("the routes went after %v, long after the hold time of %v", took, hold)
	}
	s := awaitState(t, "the session down", c, func(s *bgp.State) bool { return s.Peers[0].State != bgp.Established })
	if want := "hold-timer-expired"; s.Peers[0].Down != want {
		t.Errorf("the session went down for %q, want %q", s.Peers[0].Down, want)
	}
	if s.Peers[1].State != bgp.Established || s.Peers[1].Down != "" {
		t.Errorf("the other session is %+v, want it as it was", s.Peers[1])
	}
}

// cut takes a link down.
func cut(t *testing.T, in *netcfg.Namespace, device string) {
	t.Helper()
	testenv.InNetns(t, in.Path(), func() error {
		link, err := netlink.LinkByName(device)
		if err != nil {
			return err
		}
		return netlink.LinkSetDown(link)
	})
}
