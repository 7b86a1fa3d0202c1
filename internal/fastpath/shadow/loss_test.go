package shadow

import (
	"encoding/binary"
	"testing"
	"time"
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

// Packets that are not forwarded are counted apart. They are a reason to carry nothing if they are many
// of a flow, or of all flows.
func TestComparerLoss(t *testing.T) {
	const flow1 = "TCP 10.244.1.2:1 > 10.244.2.2:80"
	for _, c := range []struct {
		name string
		play func(s *scene)
		want PacketCount
		loss Loss // none: nothing is too much
	}{
		{"one of 1,000 packets", func(s *scene) {
			s.sendMany()
			s.send(1, 7, false)
		}, PacketCount{Equal: 1000, NotForwarded: 1}, Loss{}},
		{"two of 1,000 packets, and all of a flow", func(s *scene) {
			s.sendMany()
			s.send(99, 7, false)
			s.send(99, 8, false)
		}, PacketCount{Equal: 1000, NotForwarded: 2}, Loss{}},
		{"all of a flow", func(s *scene) {
			s.sendMany()
			for i := range uint32(3) {
				s.send(99, i, false)
			}
		}, PacketCount{Equal: 1000, NotForwarded: 3}, Loss{"TCP 10.244.1.2:99 > 10.244.2.2:80", 3, 3}},
		{"every tenth of a flow", func(s *scene) {
			s.sendMany()
			for i := range uint32(100) {
				s.send(99, i, i%10 > 0)
			}
		}, PacketCount{Equal: 1090, NotForwarded: 10}, Loss{"TCP 10.244.1.2:99 > 10.244.2.2:80", 10, 100}},
		{"one in 20 of a flow", func(s *scene) {
			for i := range uint32(60) {
				s.send(1, i, i%20 > 0)
			}
		}, PacketCount{Equal: 57, NotForwarded: 3}, Loss{flow1, 3, 60}},
		{"one in 21 of a flow", func(s *scene) {
			for i := range uint32(63) {
				s.send(1, i, i%21 > 0)
			}
		}, PacketCount{Equal: 60, NotForwarded: 3}, Loss{}},
		{"one of each flow", func(s *scene) {
			for i := range uint16(32) {
				s.send(1+i/2, uint32(i), i%2 > 0)
			}
		}, PacketCount{Equal: 16, NotForwarded: 16}, Loss{allFlows, 16, 32}},
		{"segments far from those that are forwarded, ahead and behind", func(s *scene) {
			s.sendMany()
			for i := range uint32(300) {
				s.send(1, 2<<20+i, false)
				s.send(1, i-2<<20, false)
			}
		}, PacketCount{Equal: 1000, NotForwarded: 600}, Loss{}},
		{"segments far from those that are not forwarded either", func(s *scene) {
			for i := range uint32(3) {
				s.send(1, i<<30, false)
			}
		}, PacketCount{NotForwarded: 3}, Loss{flow1, 3, 3}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScene(t)
			c.play(s)
			r := s.result(State{})
			if r.Out != c.want || r.Different() > 0 || r.NotForwarded() != c.want.NotForwarded || r.Compared() != c.want.Equal+c.want.NotForwarded {
				t.Errorf("found %+v, want %+v", r, c.want)
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
	if r.Loss == nil || r.Loss.NotForwarded != r.NotForwarded() || r.Loss.NotForwarded < 40 || r.Loss.Compared < 8*r.Loss.NotForwarded || r.Loss.Compared > 10*r.Loss.NotForwarded {
		t.Errorf("found %+v, %+v", r, r.Loss)
	}
}
