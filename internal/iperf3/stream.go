package iperf3

import (
	"encoding/binary"
	"errors"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// stream is one flow of a test, at one end.
type stream struct {
	conn   net.Conn
	id     int
	sender bool

	bytes, packets, errors atomic.Int64
	jitter                 atomic.Uint64 // bits of seconds
	omitted                struct{ bytes, packets, errors int64 }
}

// streams are those of a test.
type streams struct {
	params params
	all    []*stream
	wait   sync.WaitGroup
	start  time.Time
	length time.Duration // how long it ran, when it has ended
	stop   atomic.Bool
	omit   *time.Timer
	usage  unix.Rusage // of this program when it began
	mutex  sync.Mutex  // guards omitted
}

func (s *streams) add(conn net.Conn, sender bool) {
	s.all = append(s.all, &stream{conn: conn, id: streamID(len(s.all)), sender: sender})
}

// begin starts every stream.
func (s *streams) begin() {
	s.start = time.Now()
	_ = unix.Getrusage(unix.RUSAGE_SELF, &s.usage)
	if omit := time.Duration(s.params.Omit) * time.Second; omit > 0 {
		s.omit = time.AfterFunc(omit, s.forget)
	}
	for _, one := range s.all {
		run := one.receiveTCP
		switch {
		case one.sender && s.params.UDP:
			run = one.sendUDP
		case one.sender:
			run = one.sendTCP
		case s.params.UDP:
			run = one.receiveUDP
		}
		s.wait.Add(1)
		go func() {
			defer s.wait.Done()
			run(s)
		}()
	}
}

// forget leaves what was counted until now out of the results.
func (s *streams) forget() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.stop.Load() {
		return
	}
	for _, one := range s.all {
		one.omitted.bytes, one.omitted.packets, one.omitted.errors = one.bytes.Load(), one.packets.Load(), one.errors.Load()
	}
	s.start = time.Now()
}

// lastBlock is how long a client may take to finish the block that it is sending.
const lastBlock = time.Second

// end stops every stream and waits for it; the connections stay open.
func (s *streams) end() {
	s.mutex.Lock()
	stopped := s.stop.Swap(true)
	if !stopped && !s.start.IsZero() {
		s.length = time.Since(s.start)
	}
	s.mutex.Unlock()
	if s.omit != nil {
		s.omit.Stop()
	}
	for _, one := range s.all {
		until := time.Now()
		if one.sender && !s.params.UDP && !s.params.Reverse {
			until = until.Add(lastBlock) // a server may wait for all of a block that it has a part of
		}
		_ = one.conn.SetDeadline(until)
	}
	s.wait.Wait()
}

// carried is how many bytes all streams have sent or received.
func (s *streams) carried() (n int64) {
	for _, one := range s.all {
		n += one.bytes.Load()
	}
	return n
}

func (s *streams) close() {
	s.end()
	for _, one := range s.all {
		_ = one.conn.Close()
	}
}

// results are this end's. A receiver knows of no retransmits.
func (s *streams) results() results {
	r := results{HasRetransmits: -1}
	for _, one := range s.all {
		again := -1.0
		if one.sender && !s.params.UDP {
			again, r.HasRetransmits = float64(retransmits(one.conn)), 1
		}
		if one.sender && s.params.UDP {
			r.HasRetransmits = 0
		}
		r.Streams = append(r.Streams, streamResults{
			ID: float64(one.id), Bytes: float64(one.bytes.Load() - one.omitted.bytes), Retransmits: again,
			Jitter: math.Float64frombits(one.jitter.Load()), Errors: float64(max(0, one.errors.Load())),
			OmittedErrors: float64(one.omitted.errors), Packets: float64(one.packets.Load()), OmittedPackets: float64(one.omitted.packets),
			End: s.length.Seconds(),
		})
	}
	var now unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &now); err == nil && s.length > 0 {
		share := func(a, b unix.Timeval) float64 { return 100 * float64(b.Nano()-a.Nano()) / float64(s.length) }
		r.CPUUser, r.CPUSystem = share(s.usage.Utime, now.Utime), share(s.usage.Stime, now.Stime)
		r.CPUTotal = r.CPUUser + r.CPUSystem
	}
	return r
}

// retransmits is how many segments a TCP connection has sent again.
func retransmits(conn net.Conn) (n uint32) {
	raw, ok := conn.(syscall.Conn)
	if !ok {
		return 0
	}
	c, err := raw.SyscallConn()
	if err != nil {
		return 0
	}
	_ = c.Control(func(fd uintptr) {
		if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			n = info.Total_retrans
		}
	})
	return n
}

func (s *stream) receiveTCP(t *streams) {
	buf := make([]byte, int(t.params.Length))
	for !t.stop.Load() {
		n, err := s.conn.Read(buf)
		s.bytes.Add(int64(n))
		if err != nil {
			return
		}
	}
}

func (s *stream) sendTCP(t *streams) {
	buf := make([]byte, int(t.params.Length))
	for p := newPacer(t.params.Bandwidth, len(buf)); !t.stop.Load(); {
		if !p.wait(t) {
			return
		}
		n, err := s.conn.Write(buf)
		s.bytes.Add(int64(n))
		if err != nil {
			return
		}
	}
}

// datagramHead writes the time and the number of a datagram, and reads it.
type datagramHead struct {
	seconds, micros uint32
	number          uint64
}

func (h datagramHead) put(buf []byte, wide bool) {
	binary.BigEndian.PutUint32(buf, h.seconds)
	binary.BigEndian.PutUint32(buf[4:], h.micros)
	if wide {
		binary.BigEndian.PutUint64(buf[8:], h.number)
	} else {
		binary.BigEndian.PutUint32(buf[8:], uint32(h.number))
	}
}

// parseDatagram reads the head of a datagram; false if it is too short for one.
func parseDatagram(buf []byte, wide bool) (h datagramHead, ok bool) {
	if len(buf) < 12 || wide && len(buf) < 16 {
		return h, false
	}
	h.seconds, h.micros = binary.BigEndian.Uint32(buf), binary.BigEndian.Uint32(buf[4:])
	if wide {
		h.number = binary.BigEndian.Uint64(buf[8:])
	} else {
		h.number = uint64(binary.BigEndian.Uint32(buf[8:]))
	}
	return h, h.number < 1<<62
}

func (s *stream) sendUDP(t *streams) {
	buf := make([]byte, int(t.params.Length))
	for p := newPacer(t.params.Bandwidth, len(buf)); !t.stop.Load(); {
		if !p.wait(t) {
			return
		}
		now := time.Now()
		h := datagramHead{uint32(now.Unix()), uint32(now.Nanosecond() / 1000), uint64(s.packets.Load()) + 1}
		h.put(buf, t.params.Counters64 != 0)
		n, err := s.conn.Write(buf)
		switch {
		case err == nil:
			s.packets.Add(1)
			s.bytes.Add(int64(n))
		case errors.Is(err, unix.ENOBUFS), errors.Is(err, unix.ECONNREFUSED): // the peer may be about to listen
		default:
			return
		}
	}
}

// receiveUDP counts as iperf3 does: what is missing between two numbers is lost, unless it
// comes late.
func (s *stream) receiveUDP(t *streams) {
	buf := make([]byte, maxUDP+1)
	transit, jitter := 0.0, 0.0
	for first := true; !t.stop.Load(); {
		n, err := s.conn.Read(buf)
		if errors.Is(err, unix.ECONNREFUSED) {
			continue
		}
		if err != nil {
			return
		}
		h, ok := parseDatagram(buf[:n], t.params.Counters64 != 0)
		if !ok {
			continue
		}
		s.bytes.Add(int64(n))
		have := s.packets.Load()
		switch number := int64(h.number); {
		case number > have:
			s.errors.Add(number - have - 1)
			s.packets.Store(number)
		case s.errors.Load() > 0:
			s.errors.Add(-1)
		}
		now := float64(time.Now().UnixMicro())/1e6 - float64(h.seconds) - float64(h.micros)/1e6
		if !first {
			jitter += (math.Abs(now-transit) - jitter) / 16
			s.jitter.Store(math.Float64bits(jitter))
		}
		transit, first = now, false
	}
}

// pacer keeps a stream at a rate.
type pacer struct {
	interval time.Duration // between two messages; 0: no limit
	due      time.Time
}

func newPacer(bits float64, size int) *pacer {
	if bits <= 0 {
		return &pacer{}
	}
	return &pacer{interval: time.Duration(min(8*float64(size)/bits, mostPause.Seconds()) * 1e9), due: time.Now()}
}

// wait returns when the next message is due; false: the test has ended.
func (p *pacer) wait(t *streams) bool {
	if p.interval == 0 {
		return true
	}
	const nap = 100 * time.Millisecond // at most, so that an end is seen
	for {
		left := time.Until(p.due)
		if left <= 0 {
			p.due = p.due.Add(p.interval)
			return true
		}
		if t.stop.Load() {
			return false
		}
		time.Sleep(min(left, nap))
	}
}
