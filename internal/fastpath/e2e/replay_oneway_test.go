package e2e

import (
	"slices"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/testenv"
)

// oneWayReplays are cases that are played once more with datagrams that nobody has answered, from the pod and on
// the wire.
var oneWayReplays = slices.Concat(sizesOf[:1], headersOf, brokenOf, linksOf, gsoOf, onWire(sizesOf[:1], headersOf, brokenOf[:3]))

// replayOneWay compares cases of datagrams that nobody answers. It comes last: no later case has answers.
func replayOneWay(t *testing.T, slow, fast *scene, cases []replayed) {
	t.Helper()
	slow.sendOneWay()
	fast.sendOneWay()
	replayCases(t, slow, fast, cases)
}

// sendOneWay has all later cases send datagrams of a flow that pod b never answers.
func (s *scene) sendOneWay() {
	s.t.Helper()
	s.from, s.to = onlyA, onlyB
	s.socket = s.listen(s.arm.Server(), onlyB)
}

func (s *scene) isOneWay() bool { return s.from == onlyA }

// carryOneWay sends packets of a flow until they are carried out of the first machine and into the second, where
// these have a fast path.
func (s *scene) carryOneWay(there ip4) {
	s.t.Helper()
	counts := func() []uint64 {
		all := s.counts()
		return []uint64{all[s.countAt(false)], all[s.countAt(s.arm.Pins[1] != "")]}
	}
	for end := time.Now().Add(testenv.Timeout); ; {
		if !s.isFast {
			s.send(s.a, s.podFrame(0, there))
			return
		}
		before := counts()
		s.send(s.a, s.podFrame(0, there))
		if awaitIncrease(counts, before) {
			return
		}
		if time.Now().After(end) {
			s.t.Fatalf("%s: after %v, packets that nobody answers are still not carried: %v, then %v", s.arm.Name, testenv.Timeout, before, counts())
		}
	}
}

// staysSlow sends datagrams that nobody answers: all arrive, and the first machine carries none of them.
func (s *scene) staysSlow() {
	s.t.Helper()
	s.sync()
	_ = s.received()
	before, marks := s.counts(), s.marks
	const many = 60 // more than make a flow known
	for range many {
		s.send(s.a, s.podFrame(0, s.udp(pattern(30, 1))))
	}
	s.sync()
	if n := len(s.received()); n != many {
		s.t.Errorf("%s: of %d datagrams that nobody answers, %d arrived", s.arm.Name, many, n)
	}
	if !s.isFast {
		return
	}
	if carried := int(s.counts()[0]-before[0]) - int(s.marks-marks); carried > 0 {
		s.t.Errorf("%s: of %d datagrams that nobody answers, %d were carried to a Service", s.arm.Name, many, carried)
	}
}
