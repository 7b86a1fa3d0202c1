package bgp_test

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/bgp"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/testenv"
)

func TestMesh(t *testing.T) {
	testenv.Root(t)
	r := newRig(t, 3)
	var configs []*bgp.Config
	for i := range r.hosts {
		others := []int{0, 1, 2}
		c := r.config(i, append(others[:i:i], others[i+1:]...)...)
		configs = append(configs, c)
		r.speak(i, c)
	}
	r.awaitRoutes(0, protoBGP, routeVia(1, 0), routeVia(2, 0))
	r.awaitRoutes(1, protoBGP, routeVia(0, 0), routeVia(2, 0))
	r.awaitRoutes(2, protoBGP, routeVia(0, 0), routeVia(1, 0))
	awaitState(t, "all of it in the state", configs[1], func(s *bgp.State) bool {
		_, one := s.NextHop(block(0, 0))
		_, other := s.NextHop(block(2, 0))
		return one && other && len(s.Problems) == 0 &&
			s.Peers[0].State == bgp.Established && s.Peers[1].State == bgp.Established
	})
}

// With two reflectors each of them can go. A client that goes is forgotten by
// all: the reflectors do not keep its routes alive for each other.
func TestTwoReflectors(t *testing.T) {
	testenv.Root(t)
	r := newRig(t, 4)
	var all []*netcfg.Child
	for i := range r.hosts {
		var c *bgp.Config
		if i < 2 {
			c = r.config(i, []int{1 - i, 2, 3}...)
			c.ClusterID = netip.MustParseAddr("244.0.0.1")
			c.Neighbours[1].Client, c.Neighbours[2].Client = true, true
		} else {
			c = r.config(i, 0, 1)
		}
		all = append(all, r.speak(i, c))
	}
	r.awaitRoutes(0, protoBGP, routeVia(1, 0), routeVia(2, 0), routeVia(3, 0))
	r.awaitRoutes(1, protoBGP, routeVia(0, 0), routeVia(2, 0), routeVia(3, 0))
	r.awaitRoutes(2, protoBGP, routeVia(0, 0), routeVia(1, 0), routeVia(3, 0))
	r.awaitRoutes(3, protoBGP, routeVia(0, 0), routeVia(1, 0), routeVia(2, 0))

	testenv.Must(t, unix.Kill(all[0].Pid, unix.SIGKILL))
	r.awaitRoutes(2, protoBGP, routeVia(1, 0), routeVia(3, 0))
	r.awaitRoutes(3, protoBGP, routeVia(1, 0), routeVia(2, 0))

	testenv.Must(t, unix.Kill(all[3].Pid, unix.SIGKILL))
	r.awaitRoutes(1, protoBGP, routeVia(2, 0))
	r.awaitRoutes(2, protoBGP, routeVia(1, 0))
}

// Two speakers of one machine, on ports of their own, leave each other's
// routes alone.
func TestTwoOfAMachine(t *testing.T) {
	testenv.Root(t)
	r := newRig(t, 2)
	for i := range r.hosts {
		for n, port := range []uint16{179, 1179} {
			c := r.config(i, 1-i)
			c.Listen = netip.AddrPortFrom(addr(i), port)
			c.Announce = []netip.Prefix{block(i, n)}
			c.Accept = []netip.Prefix{block(1-i, n)}
			c.Neighbours[0].Port = port
			c.State = strings.Replace(c.State, ".json", fmt.Sprintf(".%d.json", n), 1)
			r.speak(i, c)
		}
	}
	r.awaitRoutes(0, protoBGP, routeVia(1, 0), routeVia(1, 1))
	r.awaitRoutes(1, protoBGP, routeVia(0, 0), routeVia(0, 1))
}

// A killed speaker leaves its routes; the next one removes them before it
// learns anything, and comes back. One whose standard input ends leaves none.
func TestKilledAndEnded(t *testing.T) {
	testenv.Root(t)
	r := newRig(t, 2)
	far := r.speak(0, r.config(0, 1))
	c := r.config(1, 0)
	near := r.speak(1, c)
	r.awaitRoutes(1, protoBGP, routeVia(0, 0))
	r.awaitRoutes(0, protoBGP, routeVia(1, 0))

	testenv.Must(t, unix.Kill(near.Pid, unix.SIGKILL))
	ended(t, near)
	if got := r.routes(1, protoBGP); len(got) != 1 {
		t.Fatalf("routes of a killed speaker: %v, want the one that it had", got)
	}
	// Its peer notices the connection's end, not the hold time.
	r.awaitRoutes(0, protoBGP)
	stale := block(7, 0)
	testenv.Must(t, r.hosts[1].AddDynamicRoute(netcfg.DynamicRoute{Dst: stale, Via: addr(0), Protocol: protoBGP}))
	foreign := netcfg.DynamicRoute{Dst: block(8, 0), Via: addr(0), Protocol: protoBIRD}
	testenv.Must(t, r.hosts[1].AddDynamicRoute(foreign))

	near = r.speak(1, c)
	r.awaitRoutes(1, protoBGP) // both of before are gone before the session is up
	r.awaitRoutes(1, protoBGP, routeVia(0, 0))
	r.awaitRoutes(0, protoBGP, routeVia(1, 0))
	if got := r.routes(1, protoBIRD); len(got) != 1 {
		t.Errorf("routes of another protocol: %v, want the one that was there", got)
	}

	near.Stop(long) // cuts its standard input, and no signal follows in time
	if err := near.Err(); err != nil {
		t.Errorf("it ended with %v, want success", err)
	}
	if got := r.routes(1, protoBGP); len(got) != 0 {
		t.Errorf("routes after a clean end: %v, want none", got)
	}
	r.awaitRoutes(0, protoBGP)

	testenv.Must(t, unix.Kill(far.Pid, unix.SIGTERM))
	ended(t, far)
	if err := far.Err(); err != nil {
		t.Errorf("told to end, it ended with %v, want success", err)
	}
}

// A route that somebody took away is put back, and what cannot be installed is
// told.
func TestRepair(t *testing.T) {
	testenv.Root(t)
	r := newRig(t, 2)
	taken := netcfg.Route{Dst: block(0, 1), Blackhole: true}
	testenv.Must(t, r.hosts[1].AddRoute(taken))
	far := r.config(0, 1)
	far.Announce = append(far.Announce, taken.Dst)
	r.speak(0, far)
	c := r.config(1, 0)
	c.Scan = 1
	r.speak(1, c)
	awaitState(t, "one route, and a problem with the other", c, func(s *bgp.State) bool {
		return len(s.Routes) == 1 && len(s.Problems) == 1
	})
	testenv.Must(t, r.hosts[1].DeleteDynamicRoute(netcfg.DynamicRoute{Dst: block(0, 0), Protocol: protoBGP}))
	r.awaitRoutes(1, protoBGP, routeVia(0, 0))
}

// A state that cannot be written ends no sessions: the routes go on to follow, and the state is written when it can be.
// Who cannot write the first one says why, and what to do.
func TestStateUnwritable(t *testing.T) {
	testenv.Root(t)
	r := newRig(t, 2)
	far := r.speak(0, r.config(0, 1))
	c := r.config(1, 0)
	c.Scan = 1
	near := r.speak(1, c)
	one := func(s *bgp.State) bool { return len(s.Routes) == 1 }
	awaitState(t, "a route", c, one)
	next := c.State + ".new"
	testenv.Must(t, os.Mkdir(next, 0o700))
	testenv.Must(t, unix.Kill(far.Pid, unix.SIGTERM))
	ended(t, far)
	r.awaitRoutes(1, protoBGP)
	if s, err := bgp.ReadState(c.State); err != nil || !one(s) {
		t.Errorf("the state is %+v, %v, want that of before", s, err)
	}
	testenv.Must(t, os.Remove(next))
	awaitState(t, "no route", c, func(s *bgp.State) bool { return len(s.Routes) == 0 })
	r.speak(0, r.config(0, 1))
	awaitState(t, "the route again", c, one)
	near.Stop(long)

	c.State = filepath.Join(r.folder, "nowhere", "speaker.json")
	file := filepath.Join(r.folder, "lost.config")
	testenv.Must(t, c.Write(file))
	lost := r.start(1, "lost.log", append(testenv.RoleCommand(t, "speaker"), "--config", file)...)
	ended(t, lost)
	text, err := os.ReadFile(filepath.Join(r.folder, "lost.log"))
	if err != nil || !strings.Contains(string(text), "has space left") || strings.Contains(string(text), "listens on") {
		t.Errorf("it said %q, %v, want what to do about the state", text, err)
	}
}

func ended(t *testing.T, c *netcfg.Child) {
	t.Helper()
	select {
	case <-c.Done:
	case <-time.After(long):
		t.Fatalf("process %d still lives", c.Pid)
	}
}
