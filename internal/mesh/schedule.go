package mesh

import (
	"math/rand/v2"
	"slices"
)

// nodePair is two nodes, by their numbers.
type nodePair struct{ a, b int }

// schedule gives the rounds of one pass, in random order. Every pair is in one of them, and those
// of one round share no node, no uplink, and are at most so many; 0: any number. zones are those of
// the nodes: a pair between two zones uses the uplinks of both. An empty one has no uplink that
// others share.
//
// It is a round-robin tournament by the circle method: n nodes take n-1 rounds, or n where n is
// odd. A round whose pairs would share an uplink becomes several.
func schedule(zones []string, most int, rng *rand.Rand) (rounds [][]nodePair) {
	names := rng.Perm(len(zones))
	for _, round := range tournament(len(zones)) {
		for i, p := range round {
			round[i] = nodePair{names[p.a], names[p.b]}
		}
		rng.Shuffle(len(round), func(i, j int) { round[i], round[j] = round[j], round[i] })
		rounds = append(rounds, split(round, zones, most)...)
	}
	rng.Shuffle(len(rounds), func(i, j int) { rounds[i], rounds[j] = rounds[j], rounds[i] })
	return rounds
}

// tournament gives the rounds in which each of n plays each other once, and in a round at most
// once.
func tournament(n int) (rounds [][]nodePair) {
	circle := n - 1 + n%2 // all but one sit on it; where n is odd, that one is nobody
	for r := range circle {
		var round []nodePair
		if n%2 == 0 {
			round = append(round, nodePair{circle, r})
		}
		for k := 1; k <= (circle-1)/2; k++ {
			round = append(round, nodePair{(r + k) % circle, (r - k + circle) % circle})
		}
		if len(round) > 0 {
			rounds = append(rounds, round)
		}
	}
	return rounds
}

// split deals the pairs of a round out to as few rounds as come by taking each into the first
// where it fits.
func split(round []nodePair, zones []string, most int) (rounds [][]nodePair) {
	var busy []map[string]bool // uplinks, by round
	for _, p := range round {
		uplinks := uplinksOf(zones[p.a], zones[p.b])
		at := 0
		for ; at < len(rounds); at++ {
			free := !slices.ContainsFunc(uplinks, func(zone string) bool { return busy[at][zone] })
			if free && (most == 0 || len(rounds[at]) < most) {
				break
			}
		}
		if at == len(rounds) {
			rounds, busy = append(rounds, nil), append(busy, map[string]bool{})
		}
		rounds[at] = append(rounds[at], p)
		for _, zone := range uplinks {
			busy[at][zone] = true
		}
	}
	return rounds
}

// uplinksOf are the zones whose uplinks a pair uses.
func uplinksOf(a, b string) (uplinks []string) {
	if a == b {
		return nil
	}
	for _, zone := range []string{a, b} {
		if zone != "" {
			uplinks = append(uplinks, zone)
		}
	}
	return uplinks
}
