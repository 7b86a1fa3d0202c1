package mesh

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// Every pair is in one round; the pairs of a round share no node and no uplink, and are not too
// many; and without uplinks the rounds are as few as can be.
func TestSchedule(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for n := 2; n <= 40; n++ {
		for _, zones := range []int{0, 1, 2, 3, 7} {
			for _, most := range []int{0, 1, 3} {
				var of []string
				for i := range n {
					zone := ""
					if zones > 0 && i != 1 { // one node has none
						zone = fmt.Sprint(i % zones)
					}
					of = append(of, zone)
				}
				checkSchedule(t, of, most, schedule(of, most, rng), zones == 0 && most == 0)
			}
		}
	}
}

func checkSchedule(t *testing.T, zones []string, most int, rounds [][]nodePair, fewest bool) {
	t.Helper()
	seen, n := map[nodePair]bool{}, len(zones)
	for _, round := range rounds {
		nodes, uplinks := map[int]bool{}, map[string]bool{}
		if len(round) == 0 || most > 0 && len(round) > most {
			t.Errorf("%d nodes: a round of %d pairs, at most %d", n, len(round), most)
		}
		for _, p := range round {
			if p.a == p.b || nodes[p.a] || nodes[p.b] {
				t.Fatalf("%d nodes: a node is twice in %v", n, round)
			}
			nodes[p.a], nodes[p.b] = true, true
			for _, zone := range uplinksOf(zones[p.a], zones[p.b]) {
				if uplinks[zone] {
					t.Fatalf("%v: the uplink of %s is twice in %v", zones, zone, round)
				}
				uplinks[zone] = true
			}
			key := nodePair{min(p.a, p.b), max(p.a, p.b)}
			if seen[key] {
				t.Fatalf("%d nodes: pair %v comes twice", n, p)
			}
			seen[key] = true
		}
	}
	if len(seen) != n*(n-1)/2 {
		t.Errorf("%d nodes: %d pairs", n, len(seen))
	}
	if want := n - 1 + n%2; fewest && len(rounds) != want {
		t.Errorf("%d nodes: %d rounds, not %d", n, len(rounds), want)
	}
}

// With ten racks of ten, the rounds are not many more than the uplinks make necessary.
func TestScheduleUplinks(t *testing.T) {
	var zones []string
	for i := range 100 {
		zones = append(zones, fmt.Sprint(i%10))
	}
	rounds := schedule(zones, 0, rand.New(rand.NewPCG(1, 2)))
	if need := 9 * 10 * 10; len(rounds) > need*4/3 {
		t.Errorf("%d rounds; each uplink has %d pairs", len(rounds), need)
	}
}
