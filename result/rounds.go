package result

import "slices"

// roundSet is a set of rounds, as stretches without a gap: those of a series come in order,
// so that there is one.
type roundSet struct{ stretches []stretch }

// stretch is the rounds from first to last.
type stretch struct{ first, last int }

// add adds a round; false: it is there already.
func (s *roundSet) add(round int) bool {
	at, _ := slices.BinarySearchFunc(s.stretches, round, func(r stretch, round int) int { return r.last - round })
	// at is the first stretch that ends at the round or later.
	if at < len(s.stretches) && s.stretches[at].first <= round {
		return false
	}
	joinsBefore := at > 0 && s.stretches[at-1].last == round-1
	joinsAfter := at < len(s.stretches) && s.stretches[at].first == round+1
	switch {
	case joinsBefore && joinsAfter:
		s.stretches[at-1].last = s.stretches[at].last
		s.stretches = slices.Delete(s.stretches, at, at+1)
	case joinsBefore:
		s.stretches[at-1].last = round
	case joinsAfter:
		s.stretches[at].first = round
	default:
		s.stretches = slices.Insert(s.stretches, at, stretch{round, round})
	}
	return true
}
