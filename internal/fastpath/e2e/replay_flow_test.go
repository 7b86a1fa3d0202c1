package e2e

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/fastpathtest"
)

// tcpFlow is a connection between the pods of which the test makes every segment.
type tcpFlow struct{ from, to uint16 }

// segment is one of pod a's.
func (c tcpFlow) segment(flags uint8, payload []byte) tcp4 {
	return tcp4{from: c.from, to: c.to, seq: seqA, ack: seqB, flags: flags, window: 1000, payload: payload}
}

func (c tcpFlow) answer(flags uint8, payload []byte) tcp4 {
	return tcp4{from: c.to, to: c.from, seq: seqB, ack: seqA, flags: flags, window: 1000, payload: payload}
}

// connect opens a connection, on ports of its own.
func (s *scene) connect() tcpFlow {
	s.t.Helper()
	s.tcps++
	c := tcpFlow{firstTCP + s.tcps, firstTCP - s.tcps}
	options := []byte{2, 4, 5, 0xb4, 4, 2, 1, 3, 3, 7, 1, 1} // greatest segment, SACK, window * 128
	open := c.segment(syn, nil)
	open.seq, open.ack, open.options = seqA-1, 0, options
	reply := c.answer(syn|ack, nil)
	reply.seq, reply.options = seqB-1, options
	if s.nat == ofService { // pod b opens it
		open.flags, open.ack, reply.flags, reply.ack = syn|ack, seqB, syn, 0
		s.send(s.b, s.podFrame(1, reply.packetIn(s.reply())))
		s.sync()
		s.send(s.a, s.podFrame(0, open.packetIn(s.request())))
		s.sync()
		s.send(s.b, s.podFrame(1, c.answer(ack, nil).packetIn(s.reply())))
		s.sync()
		return c
	}
	s.send(s.a, s.podFrame(0, open.packetIn(s.request())))
	s.sync()
	s.send(s.b, s.podFrame(1, reply.packetIn(s.reply())))
	s.sync()
	s.send(s.a, s.podFrame(0, c.segment(ack, nil).packetIn(s.request())))
	s.sync()
	return c
}

// carry sends packets of a flow until they are carried both ways on both machines,
// where there is a fast path. Nothing else is under way then.
func (s *scene) carry(there, back ip4) {
	s.t.Helper()
	for end := time.Now().Add(testenv.Timeout); ; {
		before := s.counts()
		if s.nat == ofService { // the first packet decides who has opened the flow
			s.send(s.b, s.podFrame(1, back))
			s.sync()
		}
		s.send(s.a, s.podFrame(0, there))
		s.send(s.b, s.podFrame(1, back))
		if !s.isFast {
			break
		}
		if awaitIncrease(s.counts, before) {
			break
		}
		if time.Now().After(end) {
			s.t.Fatalf("%s: after %v, packets are still not carried: %v, then %v", s.arm.Name, testenv.Timeout, before, s.counts())
		}
	}
}

// awaitIncrease waits a moment for counts to increase, of what was just sent.
func awaitIncrease(counts func() []uint64, before []uint64) bool {
	for wait := time.Millisecond / 8; !increased(before, counts()); wait *= 2 {
		if wait >= 4*time.Millisecond {
			return false
		}
		time.Sleep(wait)
	}
	return true
}

func (s *scene) counts() []uint64 {
	if !s.isFast {
		return nil
	}
	return fastpathtest.CarriedPackets(s.t, s.arm)
}

// countAt is where the count of what is carried of a case is: out of pod a; or into pod b, if it is put on the
// wire, or the first machine has no fast path.
func (s *scene) countAt(wire bool) int {
	switch {
	case s.arm.Pins[0] == "":
		return 1
	case wire:
		return 3
	}
	return 0
}

// increased tells whether all counts did.
func increased(before, now []uint64) bool {
	for i := range now {
		if now[i] == before[i] {
			return false
		}
	}
	return true
}

// ready makes sure that all flows are carried which cases stand on.
func (s *scene) ready() {
	s.t.Helper()
	if s.flow == (tcpFlow{}) {
		s.flow = s.connect()
	}
	s.carryTCP(s.flow)
	back := s.direct()
	back.src, back.dst = back.dst, back.src
	s.carry(udp4{from: markA, to: markB}.packetIn(s.direct()), udp4{from: markB, to: markA}.packetIn(back))
	if s.isOneWay() {
		s.carryOneWay(s.udp(nil))
	} else {
		s.carry(s.udp(nil), udp4{from: uint16(s.servedAtB()), to: uint16(s.servedAtA())}.packetIn(s.reply()))
	}
	s.sync()
}

func (s *scene) carryTCP(c tcpFlow) {
	s.t.Helper()
	s.carry(c.segment(ack, nil).packetIn(s.request()), c.answer(ack, nil).packetIn(s.reply()))
}

// backlog is of how many frames the kernel certainly drops none.
const backlog = 100

// play sends the frames of a case, and gives all that came of them: what pod b's
// device got and its socket, what pod a got back, and what was on the wire. many
// is how many of them were carried.
func (s *scene) play(c replayed) (lines []string, many int) {
	s.t.Helper()
	s.ready()
	frames := c.frames(s)
	s.sync()
	s.captured = map[string][]frame{}
	_ = s.received()
	before, marks := s.counts(), s.marks
	fd := s.a
	if c.wire {
		fd = s.out
	}
	for some := range slices.Chunk(frames, backlog) {
		s.send(fd, some...)
		s.sync()
	}
	for name, frames := range s.captured {
		v := s.view
		if v.wire = name == "wire" || name == "card"; v.wire && c.wire {
			continue // it is what was sent
		}
		for _, f := range frames {
			if !isNoise(f.bytes) || bytes.Contains(f.bytes, []byte(marker)) {
				continue
			}
			for _, line := range v.read(f) {
				lines = append(lines, name+": "+line)
			}
		}
	}
	lines = append(lines, s.received()...)
	slices.Sort(lines)
	if s.isFast {
		at := s.countAt(c.wire)
		many = int(s.counts()[at]-before[at]) - int(s.marks-marks)
	}
	return lines, many
}

// received is what the socket in pod b has got.
func (s *scene) received() (lines []string) {
	for buf := make([]byte, 1<<17); ; {
		n, from, err := unix.Recvfrom(s.socket, buf, 0)
		if err == unix.EAGAIN {
			return lines
		}
		testenv.Must(s.t, err)
		in := from.(*unix.SockaddrInet4)
		lines = append(lines, fmt.Sprintf("socket: %s:%d %s", s.view.ip(in.Addr[:]), in.Port, data(buf[:n])))
	}
}

// differ gives what only the fast path let through, and what only the slow one did.
func differ(slow, fast []string) (more, less []string) {
	left := map[string]int{}
	for _, line := range slow {
		left[line]++
	}
	for _, line := range fast {
		if left[line]--; left[line] < 0 {
			more = append(more, line)
		}
	}
	for _, line := range slow {
		if left[line] > 0 {
			left[line]--
			less = append(less, line)
		}
	}
	return more, less
}
