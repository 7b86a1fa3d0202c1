package bgp_test

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/venturi-net/venturi/internal/bgp"
	"github.com/venturi-net/venturi/internal/testenv"
)

// The attributes of a route that is as it should be, from machine 1.
var (
	origin    = []byte{0x40, 1, 1, 0}
	asPath    = []byte{0x40, 2, 0}
	nextHop   = []byte{0x40, 3, 4, 10, 200, 0, 2}
	localPref = []byte{0x40, 5, 4, 0, 0, 0, 100}
)

func attributes(list ...[]byte) []byte { return slices.Concat(list...) }

func good() []byte { return attributes(origin, asPath, nextHop, localPref) }

// An update, and whether its route is still there after it.
type updateCase struct {
	name       string // the number is that of the section of RFC 7606
	attributes []byte
	accepted   bool
}

// malformed are updates and what RFC 7606 wants to be done with the routes in
// them: withdrawn, or kept without the attribute.
var malformed = []updateCase{
	{"7.1 origin of two bytes", attributes([]byte{0x40, 1, 2, 0, 0}, asPath, nextHop, localPref), false},
	{"7.1 origin of no meaning", attributes([]byte{0x40, 1, 1, 3}, asPath, nextHop, localPref), false},
	{"7.2 AS path of unknown segment", attributes(origin, []byte{0x40, 2, 4, 9, 1, 0xfc, 0}, nextHop, localPref), false},
	{"7.2 AS path of too long a segment", attributes(origin, []byte{0x40, 2, 4, 2, 5, 0xfc, 0}, nextHop, localPref), false},
	{"7.2 AS path of an empty segment", attributes(origin, []byte{0x40, 2, 2, 2, 0}, nextHop, localPref), false},
	{"7.3 next hop of five bytes", attributes(origin, asPath, []byte{0x40, 3, 5, 10, 200, 0, 2, 0}, localPref), false},
	{"7.4 MED of three bytes", attributes(good(), []byte{0x80, 4, 3, 0, 0, 1}), false},
	{"7.5 local preference of three bytes", attributes(origin, asPath, nextHop, []byte{0x40, 5, 3, 0, 0, 1}), false},
	{"7.6 atomic aggregate of one byte", attributes(good(), []byte{0x40, 6, 1, 0}), true},
	{"7.7 aggregator of five bytes", attributes(good(), []byte{0xc0, 7, 5, 1, 2, 3, 4, 5}), true},
	{"7.8 community of five bytes", attributes(good(), []byte{0xc0, 8, 5, 1, 2, 3, 4, 5}), false},
	{"7.9 originator of five bytes", attributes(good(), []byte{0x80, 9, 5, 1, 2, 3, 4, 5}), false},
	{"7.10 cluster list of five bytes", attributes(good(), []byte{0x80, 10, 5, 1, 2, 3, 4, 5}), false},
	{"7.14 extended community of seven bytes", attributes(good(), []byte{0xc0, 16, 7, 0, 2, 0, 1, 0, 0, 0}), false},
	{"3.d no origin", attributes(asPath, nextHop, localPref), false},
	{"3.d no AS path", attributes(origin, nextHop, localPref), false},
	{"3.d no next hop", attributes(origin, asPath, localPref), false},
	{"3.c flags of origin say optional", attributes([]byte{0xc0, 1, 1, 0}, asPath, nextHop, localPref), false},
	{"3.c flags of MED say transitive", attributes(good(), []byte{0xc0, 4, 4, 0, 0, 0, 1}), false},
	{"3.g origin twice", attributes(good(), origin), true},
	{"4 last attribute cut off", attributes(good(), []byte{0x80, 4}), false},
}

// deviations are those where GoBGP 4.8.0 keeps a route that the RFC wants to be
// withdrawn, and nothing in its API can change that. They are here so that a
// version that does better is noticed.
var deviations = []updateCase{
	// Read as what it says: a list of none.
	{"7.8 no community", attributes(good(), []byte{0xc0, 8, 0}), true},
	{"7.10 no cluster", attributes(good(), []byte{0x80, 10, 0}), true},
	// It is told to treat the update as withdraw, but stops before it has read
	// of which routes: what the peer announced before stays.
	{"4 last attribute too long", attributes(good(), []byte{0x80, 4, 60, 0, 0, 0, 1}), true},
	{"4 last extended attribute cut off", attributes(good(), []byte{0x90, 4, 0}), true},
}

// A malformed update is handled as RFC 7606 wants: its routes are treated as
// withdrawn, or lose the attribute, and neither the session nor any other route
// is touched.
func TestMalformed(t *testing.T) {
	testenv.Root(t)
	r := newRig(t, 3)
	c := r.config(0, 1, 2)
	c.Hold = 90
	r.speak(0, c)
	r.bird(2, withBIRD(0, ""))
	awaitState(t, "the speaker to know whom to expect", c, func(s *bgp.State) bool { return len(s.Peers) == 2 })
	raw := r.rawPeer(1, 0)
	others := []string{routeVia(2, 0), routeVia(2, 1)}
	for n, m := range slices.Concat(malformed, deviations) {
		t.Run(m.name, func(t *testing.T) {
			sub := &rig{t: t, hosts: r.hosts}
			victim, bystander, last := prefix(n, 0), prefix(n, 1), prefix(n, 2)
			raw.update(good(), victim, bystander)
			others = append(others, routeVia1(bystander))
			sub.awaitThese(0, append(others[:len(others):len(others)], routeVia1(victim)))
			raw.update(m.attributes, victim)
			// When the next update has arrived, this one has been dealt with.
			raw.update(good(), last)
			others = append(others, routeVia1(last))
			sub.awaitThese(0, others)
			if got := slices.Contains(sub.routes(0, protoBGP), routeVia1(victim)); got != m.accepted {
				t.Errorf("the route is there: %v, want %v", got, m.accepted)
			}
			for _, p := range state(c).Peers {
				if p.State != bgp.Established || p.Down != "" {
					t.Errorf("session %+v, want both up and never down", p)
				}
			}
		})
	}
	select {
	case err := <-raw.end:
		raw.end <- err
		t.Errorf("the session ended: %v", err)
	default:
	}
}

// prefix is one of those that the n-th case of a table announces.
func prefix(n, which int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 246, byte(n), byte(which * 64)}), 26)
}

// routeVia1 is the route to a prefix of machine 1.
func routeVia1(p netip.Prefix) string { return fmt.Sprintf("%s via %s", p, addr(1)) }

// awaitThese waits until all these routes of BGP are on machine i, whatever
// others are.
func (r *rig) awaitThese(i int, want []string) {
	r.t.Helper()
	await(r.t, "routes", func() (bool, any) {
		got := r.routes(i, protoBGP)
		missing := slices.DeleteFunc(slices.Clone(want), func(w string) bool { return slices.Contains(got, w) })
		return len(missing) == 0, fmt.Sprintf("missing %v", missing)
	})
}
