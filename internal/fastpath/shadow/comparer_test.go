package shadow

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/fastpath/bpf"
)

// scene is what a comparer reads: records, with the packets behind them.
type scene struct {
	t    *testing.T
	c    *comparer
	now  time.Time
	time uint64

	number uint16 // of the last segment of [scene.send]
}

func newScene(t *testing.T) *scene {
	return &scene{t: t, c: newComparer(), now: time.Now()}
}

// packetOf is a TCP packet of a pod behind so many bytes of other headers.
func packetOf(at int, seq uint32, payload string) []byte {
	b := make([]byte, at+ipLen+20, at+ipLen+20+len(payload))
	ip, transport := b[at:], b[at+ipLen:]
	ip[0], ip[8], ip[ipProtocol] = 0x45, 63, tcp
	binary.BigEndian.PutUint16(ip[ipTotal:], uint16(ipLen+20+len(payload)))
	copy(ip[ipAddrs:], []byte{10, 244, 1, 2, 10, 244, 2, 2, 0x0f, 0xa0, 0, 80})
	binary.BigEndian.PutUint32(transport[tcpSeq:], seq)
	transport[tcpOffset], transport[tcpFlags] = 5<<4, 0x10
	if at > ethLen {
		outer := b[ethLen:]
		outer[0], outer[8], outer[ipProtocol] = 0x45, 64, udp
		binary.BigEndian.PutUint16(outer[ipTotal:], uint16(at-ethLen+ipLen+20+len(payload)))
		binary.BigEndian.PutUint16(outer[ipCheck:], ^sum(outer[:ipLen]))
	}
	return append(b, payload...)
}

// expect records what would be sent: a packet with other bytes in place of its headers. observe records
// what is.
func (s *scene) expect(number uint16, packet []byte, change func(*bpf.ShadowRecord)) {
	s.t.Helper()
	at := ethLen
	if packet[at+ipProtocol] == udp {
		at += ipLen + udpLen + tunnelLen + ethLen
	}
	r := bpf.ShadowRecord{Headers: uint8(at + ipLen + 20), Ip: uint8(at), Replaces: ethLen + ipLen + 20}
	copy(r.Header[:], packet)
	s.record(r, number, append(append(make([]byte, ethLen), packet[at:r.Headers]...), packet[r.Headers:]...), change)
}

func (s *scene) observe(number uint16, packet []byte, change func(*bpf.ShadowRecord)) {
	s.t.Helper()
	s.record(bpf.ShadowRecord{}, number, packet, change)
}

func (s *scene) record(r bpf.ShadowRecord, number uint16, frame []byte, change func(*bpf.ShadowRecord)) {
	s.t.Helper()
	s.time++
	r.Time, r.Number, r.Length = s.time, number, uint32(len(frame))
	if change != nil {
		change(&r)
	}
	raw, err := binary.Append(nil, binary.NativeEndian, &r)
	if err != nil {
		s.t.Fatal(err)
	}
	p, err := decode(append(append(raw, frame...), 0, 0, 0)) // perf aligns records
	if err != nil {
		s.t.Fatal(err)
	}
	s.c.add([]*packet{p}, false, s.now)
}

// result is what is found when everything has settled.
func (s *scene) result(state State) Result {
	s.c.add(nil, false, s.now)
	s.c.confirmMismatches(s.now.Add(2*settle), state, true)
	return s.c.snapshot()
}

// What is compared, and what is found.
func TestComparer(t *testing.T) {
	const vxlan = ethLen + ipLen + udpLen + tunnelLen + ethLen
	flip := func(p []byte, at int) []byte {
		p = bytes.Clone(p)
		p[at] ^= 1
		return p
	}
	for _, c := range []struct {
		name  string
		play  func(s *scene)
		want  PacketCount
		where string // of the difference
		at    int
	}{
		{"equal", func(s *scene) {
			s.expect(1, packetOf(ethLen, 1, "hello"), nil)
			s.observe(1, packetOf(ethLen, 1, "hello"), nil)
		}, PacketCount{Equal: 1}, "", 0},
		{"the order of cores", func(s *scene) {
			s.time = 9
			s.observe(1, packetOf(ethLen, 1, "hello"), nil)
			s.time = 0
			s.expect(1, packetOf(ethLen, 1, "hello"), nil)
		}, PacketCount{Equal: 1}, "", 0},
		{"a number that comes again", func(s *scene) {
			s.expect(1, packetOf(ethLen, 1, "hello"), nil)
			s.expect(1, packetOf(ethLen, 2, "world"), nil)
			s.observe(1, packetOf(ethLen, 2, "world"), nil)
			s.observe(1, packetOf(ethLen, 1, "hello"), nil)
		}, PacketCount{Equal: 2}, "", 0},
		{"a number that comes again after a packet that is not forwarded", func(s *scene) {
			long := packetOf(ethLen, 1, string(make([]byte, 100)))
			long[ethLen+ipID] = 7
			s.expect(1, packetOf(vxlan, 1, "hello"), nil)
			s.expect(1, long, nil)
			s.observe(1, long, nil)
		}, PacketCount{Equal: 1, NotForwarded: 1}, notPassedOn, 0},
		{"what the network is free to choose", func(s *scene) {
			s.expect(1, packetOf(vxlan, 1, "hello"), nil)
			p := packetOf(vxlan, 1, "hello")
			p[ethLen+ipID], p[ethLen+ipLen], p[ethLen+ipLen+udpCheck] = 7, 7, 7
			s.observe(1, p, nil)
		}, PacketCount{Equal: 1}, "", 0},
		{"a MAC", func(s *scene) {
			s.expect(1, packetOf(ethLen, 1, "hello"), nil)
			s.observe(1, flip(packetOf(ethLen, 1, "hello"), 3), nil)
		}, PacketCount{Different: 1}, "Ethernet header", 3},
		{"DSCP", func(s *scene) {
			s.expect(1, packetOf(vxlan, 1, "hello"), nil)
			s.observe(1, flip(packetOf(vxlan, 1, "hello"), ethLen+1), nil)
		}, PacketCount{Different: 1}, "outer IP header", ethLen + 1},
		{"TTL", func(s *scene) {
			s.expect(1, packetOf(vxlan, 1, "hello"), nil)
			s.observe(1, flip(packetOf(vxlan, 1, "hello"), vxlan+8), nil)
		}, PacketCount{Different: 1}, "inner IP header", vxlan + 8},
		{"an option of TCP, or a flag", func(s *scene) {
			s.expect(1, packetOf(ethLen, 1, "hello"), nil)
			s.observe(1, flip(packetOf(ethLen, 1, "hello"), ethLen+ipLen+13), nil)
		}, PacketCount{Different: 1}, "transport header", ethLen + ipLen + 13},
		{"the last byte of the payload", func(s *scene) {
			p := packetOf(ethLen, 1, "hello")
			s.expect(1, p, nil)
			s.observe(1, flip(p, len(p)-1), nil)
		}, PacketCount{Different: 1}, "payload", ethLen + ipLen + 20 + 4},
		{"a wrong checksum around it", func(s *scene) {
			s.expect(1, flip(packetOf(vxlan, 1, "hello"), ethLen+ipCheck), nil)
			s.observe(1, packetOf(vxlan, 1, "hello"), nil)
		}, PacketCount{Different: 1}, "checksum of the outer IP header", ethLen + ipCheck},
		{"another device", func(s *scene) {
			s.expect(1, packetOf(ethLen, 1, "hello"), func(r *bpf.ShadowRecord) { r.Device = 5 })
			s.observe(1, packetOf(ethLen, 1, "hello"), func(r *bpf.ShadowRecord) { r.Device = 6 })
		}, PacketCount{Different: 1}, "device", 0},
		{"another priority", func(s *scene) {
			s.expect(1, packetOf(ethLen, 1, "hello"), nil)
			s.observe(1, packetOf(ethLen, 1, "hello"), func(r *bpf.ShadowRecord) { r.Priority = 6 })
		}, PacketCount{Different: 1}, "priority for queueing", 0},
		{"shorter", func(s *scene) {
			p := packetOf(ethLen, 1, "hello")
			binary.BigEndian.PutUint16(p[ethLen+ipTotal:], uint16(len(p))) // says more than there is
			s.expect(1, p, nil)
			s.observe(1, p[:len(p)-1], nil)
		}, PacketCount{Different: 1}, "length", ethLen + ipLen + 20 + 4},
		{"padding", func(s *scene) {
			s.expect(1, append(packetOf(ethLen, 1, "hello"), 0, 0), nil)
			s.observe(1, packetOf(ethLen, 1, "hello"), nil)
		}, PacketCount{Equal: 1}, "", 0},
		{"a checksum that a device completes", func(s *scene) {
			p, complete := packetOf(ethLen, 1, "hello"), packetOf(ethLen, 1, "hello")
			transport := p[ethLen+ipLen:]
			binary.BigEndian.PutUint16(transport[tcpCheck:], 0x1234) // the sum of the addresses
			binary.BigEndian.PutUint16(complete[ethLen+ipLen+tcpCheck:], ^sum(transport))
			s.expect(1, p, func(r *bpf.ShadowRecord) { r.Partial = 1 })
			s.observe(1, complete, nil)
		}, PacketCount{Equal: 1}, "", 0},
		{"not passed on", func(s *scene) { s.expect(1, packetOf(ethLen, 1, "hello"), nil) }, PacketCount{NotForwarded: 1}, notPassedOn, 0},
		{"not passed on when rules changed", func(s *scene) {
			s.expect(1, packetOf(ethLen, 1, "hello"), func(r *bpf.ShadowRecord) { r.Epoch = 6 })
		}, PacketCount{Changed: 1}, "", 0},
		{"different when pods changed", func(s *scene) {
			s.expect(1, packetOf(ethLen, 1, "hello"), func(r *bpf.ShadowRecord) { r.Version = 6 })
			s.observe(1, packetOf(ethLen, 1, "world"), nil)
		}, PacketCount{Changed: 1}, "", 0},
		{"records were lost", func(s *scene) {
			s.expect(1, packetOf(ethLen, 1, "hello"), nil)
			s.c.add(nil, true, s.now)
		}, PacketCount{Missed: 1}, "", 0},
		{"cut into segments", func(s *scene) {
			s.expect(1, packetOf(vxlan, 1, "hello, world!"), func(r *bpf.ShadowRecord) { r.Segment = 7 })
			s.observe(1, packetOf(vxlan, 1, "hello, "), nil)
			s.observe(1, packetOf(vxlan, 8, "world!"), nil)
		}, PacketCount{Equal: 1}, "", 0},
		{"cut into segments, one of them changed", func(s *scene) {
			s.expect(1, packetOf(vxlan, 1, "hello, world!"), func(r *bpf.ShadowRecord) { r.Segment = 7 })
			s.observe(1, packetOf(vxlan, 1, "hello, "), nil)
			s.observe(1, packetOf(vxlan, 8, "wOrld!"), nil)
		}, PacketCount{Different: 1}, "payload", vxlan + ipLen + 20 + 1},
		{"merged", func(s *scene) {
			s.expect(1, packetOf(ethLen, 1, "hello, "), nil)
			s.expect(2, packetOf(ethLen, 8, "world!"), nil)
			s.observe(1, packetOf(ethLen, 1, "hello, world!"), func(r *bpf.ShadowRecord) { r.Segment = 7 })
		}, PacketCount{Equal: 2}, "", 0},
		{"merged, and the TTL of it changed", func(s *scene) {
			s.expect(1, packetOf(ethLen, 1, "hello, "), nil)
			s.observe(1, flip(packetOf(ethLen, 1, "hello, world!"), ethLen+8), func(r *bpf.ShadowRecord) { r.Segment = 7 })
		}, PacketCount{Different: 1}, "IP header", ethLen + 8},
		{"too short to be one", func(s *scene) {
			s.expect(1, packetOf(vxlan, 1, "hello"), nil)
			s.observe(1, make([]byte, ethLen), nil)
		}, PacketCount{Different: 1}, "length", ethLen},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScene(t)
			c.play(s)
			r := s.result(State{})
			if r.Out != c.want || r.In != (PacketCount{}) {
				t.Errorf("found %+v, want %+v", r, c.want)
			}
			if c.where == "" {
				if len(r.Differences) > 0 {
					t.Errorf("found %+v", r.Differences)
				}
				return
			}
			if len(r.Differences) != 1 || r.Differences[0].Field != c.where || r.Differences[0].Offset != c.at {
				t.Errorf("found %+v, want %s at %d", r.Differences, c.where, c.at)
			}
		})
	}
}

// Both directions of a connection are one flow, and the first difference of each kind is kept.
func TestComparerCounts(t *testing.T) {
	s := newScene(t)
	there, back := packetOf(ethLen, 1, "hello"), packetOf(ethLen, 1, "world")
	copy(back[ethLen+ipAddrs:], []byte{10, 244, 2, 2, 10, 244, 1, 2, 0, 80, 0x0f, 0xa0})
	in := func(r *bpf.ShadowRecord) { r.Direction = 1 }
	for number := range uint16(3) {
		s.expect(number, there, nil)
		s.observe(number, there, nil)
		s.expect(number, back, in)
		changed := bytes.Clone(back)
		changed[number] = 0xff
		s.observe(number, changed, in)
	}
	r := s.result(State{})
	if r.Flows != 1 || r.Out != (PacketCount{Equal: 3}) || r.In != (PacketCount{Different: 3}) || r.Compared() != 6 {
		t.Errorf("found %+v", r)
	}
	want := Mismatch{Direction: intoPod, Field: "Ethernet header", Packets: 3, Flow: "TCP 10.244.2.2:80 > 10.244.1.2:4000", Offset: 0, Expected: "00 00 00 00 00 00 00 00", Actual: "ff 00 00 00 00 00 00 00"}
	if len(r.Differences) != 1 || r.Differences[0] != want {
		t.Errorf("found %+v, want %+v", r.Differences, want)
	}
}

// A record that is too short is refused.
func TestDecode(t *testing.T) {
	raw, err := binary.Append(nil, binary.NativeEndian, &bpf.ShadowRecord{Length: 9})
	if err != nil {
		t.Fatal(err)
	}
	for n := range len(raw) + 9 {
		if _, err := decode(append(raw, make([]byte, 9)...)[:n]); err == nil {
			t.Errorf("%d bytes are accepted", n)
		}
	}
}
