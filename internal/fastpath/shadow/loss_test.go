package shadow

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/fastpath/bpf"
)

// send has a flow send a segment, which the network forwards or not.
func (s *scene) send(flow uint16, sequence uint32, forwarded bool) {
	s.t.Helper()
	p := packetOf(ethLen, sequence, "hello")
	binary.BigEndian.PutUint16(p[ethLen+ipAddrs+8:], flow)
	s.number++
	s.expect(s.number, p, nil)
	if forwarded {
		s.observe(s.number, p, nil)
	}
}

// sendMany has 16 flows send 1,000 segments, all of which are forwarded.
func (s *scene) sendMany() {
	for i := range uint32(1000) {
		s.send(uint16(1+i%16), i, true)
	}
}

// sendEach has each of some flows send one segment.
func (s *scene) sendEach(from, to uint16, forwarded bool) {
	for flow := from; flow < to; flow++ {
		s.send(flow, uint32(flow), forwarded)
	}
}

// Packets that are not forwarded are counted apart. They are a reason to carry nothing if they are many
// of a flow, of all flows, or all of several flows. A flow that loses all of a few in one direction does
// not count as compared.
func TestComparerLoss(t *testing.T) {
	const flow1 = "TCP 10.244.1.2:1 > 10.244.2.2:80"
	for _, c := range []struct {
		name string
		play func(s *scene)
		want PacketCount
		loss Loss // none: nothing is too much

		flows, inconclusive int
	}{
		{"one of 1,000 packets", func(s *scene) {
			s.sendMany()
			s.send(1, 7, false)
		}, PacketCount{Equal: 1000, NotForwarded: 1}, Loss{}, 16, 0},
		{"two of 1,000 packets, and all of a flow", func(s *scene) {
			s.sendMany()
			s.send(99, 7, false)
			s.send(99, 8, false)
		}, PacketCount{Equal: 1000, NotForwarded: 2}, Loss{}, 16, 1},
		{"all of a flow", func(s *scene) {
			s.sendMany()
			for i := range uint32(3) {
				s.send(99, i, false)
			}
		}, PacketCount{Equal: 1000, NotForwarded: 3}, Loss{"TCP 10.244.1.2:99 > 10.244.2.2:80", 3, 3}, 17, 0},
		{"every tenth of a flow", func(s *scene) {
			s.sendMany()
			for i := range uint32(100) {
				s.send(99, i, i%10 > 0)
			}
		}, PacketCount{Equal: 1090, NotForwarded: 10}, Loss{"TCP 10.244.1.2:99 > 10.244.2.2:80", 10, 100}, 17, 0},
		{"one in 20 of a flow", func(s *scene) {
			for i := range uint32(60) {
				s.send(1, i, i%20 > 0)
			}
		}, PacketCount{Equal: 57, NotForwarded: 3}, Loss{flow1, 3, 60}, 1, 0},
		{"one in 21 of a flow", func(s *scene) {
			for i := range uint32(63) {
				s.send(1, i, i%21 > 0)
			}
		}, PacketCount{Equal: 60, NotForwarded: 3}, Loss{}, 1, 0},
		{"one of each flow", func(s *scene) {
			for i := range uint16(32) {
				s.send(1+i/2, uint32(i), i%2 > 0)
			}
		}, PacketCount{Equal: 16, NotForwarded: 16}, Loss{allFlows, 16, 32}, 16, 0},
		{"segments far from those that are forwarded, ahead and behind", func(s *scene) {
			s.sendMany()
			for i := range uint32(300) {
				s.send(1, 2<<20+i, false)
				s.send(1, i-2<<20, false)
			}
		}, PacketCount{Equal: 1000, NotForwarded: 600}, Loss{}, 16, 0},
		{"segments far from those that are not forwarded either", func(s *scene) {
			for i := range uint32(3) {
				s.send(1, i<<30, false)
			}
		}, PacketCount{NotForwarded: 3}, Loss{flow1, 3, 3}, 1, 0},
		{"all of two flows", func(s *scene) {
			s.send(98, 7, false)
			s.send(99, 7, false)
			s.send(99, 8, false)
			s.send(1, 7, true)
		}, PacketCount{Equal: 1, NotForwarded: 3}, Loss{allFlows, 3, 4}, 1, 2},
		{"all of two of many flows", func(s *scene) {
			s.sendMany()
			s.send(98, 7, false)
			s.send(99, 7, false)
			s.send(99, 8, false)
		}, PacketCount{Equal: 1000, NotForwarded: 3}, Loss{}, 16, 2},
		{"all of three flows, one in 20", func(s *scene) {
			s.sendMany()
			s.sendEach(17, 57, true)
			s.sendEach(57, 60, false)
			s.send(57, 8, false)
		}, PacketCount{Equal: 1040, NotForwarded: 4}, Loss{"3 flows, such as TCP 10.244.1.2:57 > 10.244.2.2:80", 4, 4}, 56, 3},
		{"all of three flows, one in 21", func(s *scene) {
			s.sendMany()
			s.sendEach(17, 61, true)
			s.sendEach(61, 64, false)
		}, PacketCount{Equal: 1044, NotForwarded: 3}, Loss{}, 60, 3},
		{"the first packets of flows", func(s *scene) {
			s.sendMany()
			s.sendEach(50, 80, false)
			s.sendEach(50, 80, true)
		}, PacketCount{Equal: 1030, NotForwarded: 30}, Loss{}, 46, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScene(t)
			c.play(s)
			r := s.result(State{})
			if r.Out != c.want || r.Different() > 0 || r.NotForwarded() != c.want.NotForwarded || r.Compared() != c.want.Equal+c.want.NotForwarded {
				t.Errorf("found %+v, want %+v", r, c.want)
			}
			if r.Flows != c.flows || r.Inconclusive != c.inconclusive {
				t.Errorf("found %d flows, and %d inconclusive, want %d and %d", r.Flows, r.Inconclusive, c.flows, c.inconclusive)
			}
			if len(r.Differences) != 1 || !r.Differences[0].IsLoss() || r.Differences[0].Packets != c.want.NotForwarded {
				t.Errorf("it lists %+v", r.Differences)
			}
			if none := c.loss == (Loss{}); r.IsDifferent() == none || (r.Loss == nil) != none || !none && *r.Loss != c.loss {
				t.Errorf("too much is %+v, want %+v", r.Loss, c.loss)
			}
		})
	}
}

// A connection that gets none of its answers is inconclusive, though what it sends is forwarded. One of which
// nothing is forwarded either way is inconclusive once.
func TestComparerLossOfAnswers(t *testing.T) {
	s := newScene(t)
	in := func(r *bpf.ShadowRecord) { r.Direction = 1 }
	for port := range byte(2) {
		there, back := packetOf(ethLen, 1, "hello"), packetOf(ethLen, 1, "world")
		copy(there[ethLen+ipAddrs+8:], []byte{0, port})
		copy(back[ethLen+ipAddrs:], []byte{10, 244, 2, 2, 10, 244, 1, 2, 0, 80, 0, port})
		s.expect(uint16(port), there, nil)
		s.expect(10+uint16(port), back, in)
		if port == 0 {
			s.observe(0, there, nil)
		}
	}
	r := s.result(State{})
	if r.Flows != 0 || r.Inconclusive != 2 || r.In != (PacketCount{NotForwarded: 2}) || r.Out != (PacketCount{Equal: 1, NotForwarded: 1}) {
		t.Errorf("found %+v", r)
	}
}

// Of the last second nobody knows yet what is lost: it does not hide what was lost before.
func TestComparerLossBeforeTheEnd(t *testing.T) {
	s := newScene(t)
	for i := range uint32(1500) {
		s.send(1, i, i%10 > 0)
		s.now = s.now.Add(time.Millisecond)
		s.c.confirmMismatches(s.now, State{}, false)
	}
	s.c.confirmMismatches(s.now, State{}, true)
	r := s.c.snapshot()
	if r.Loss == nil || r.Loss.NotForwarded > r.NotForwarded() || r.Loss.NotForwarded < 40 || r.Loss.Compared < 8*r.Loss.NotForwarded || r.Loss.Compared > 10*r.Loss.NotForwarded {
		t.Errorf("found %+v, %+v", r, r.Loss)
	}
}

// What a flow loses is counted no earlier than what is forwarded of it, also where that takes a while: a flow
// that has just begun loses nothing yet.
func TestComparerLossOfNewFlow(t *testing.T) {
	for _, way := range []time.Duration{0, settle / 5} {
		for lost, want := range map[uint32]bool{3: false, 100: true} {
			s := newScene(t)
			sent := packetOf(ethLen, 1, "hello")
			for i := range uint16(1000) {
				s.expect(i, sent, nil)
			}
			s.c.add(nil, false, s.now)
			s.now = s.now.Add(way)
			for i := range uint16(1000) {
				if uint32(i) >= lost {
					s.observe(i, sent, nil)
				}
			}
			s.c.add(nil, false, s.now)
			for age := settle / 2; age <= 3*settle/2; age += settle / 20 {
				s.c.confirmMismatches(s.now.Add(age-way), State{}, false)
				r := s.c.snapshot()
				if is := r.Loss != nil; is && !want || !is && want && age >= settle+slotLength {
					t.Errorf("forwarded after %v, %v after they were sent: %d of 1000 packets lost are too many: %v (%+v)", way, age, lost, is, r.Loss)
				}
				if r.Loss != nil && r.Loss.Compared != 1000 {
					t.Errorf("forwarded after %v, %v after they were sent: found %+v", way, age, r.Loss)
				}
			}
		}
	}
}
