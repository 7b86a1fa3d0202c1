package e2e

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// replaysEnv is how many packets are changed at random and played, of a seed that
// is new each time, or stands in front: 20000, or 7:20000.
const replaysEnv = "VENTURI_REPLAYS"

// Without it they are the same few each time: what is found is then no chance.
const (
	fewRandom = 200
	atATime   = 20 // in a case
)

// replayRandom plays packets that were changed at random, from the pod and on the
// wire, on connections of their own: some of the changes end them.
func replayRandom(t *testing.T, slow, fast *scene, seed uint64, many int) {
	for n := range (many + atATime - 1) / atATime {
		c := replayed{
			name: fmt.Sprintf("%s=%d:%d, the %d. of those that are sent together", replaysEnv, seed, many, n+1), wire: n%2 == 1, allowed: anyOutput,
			frames: func(s *scene) (frames []frame) {
				s.flow = s.connect()
				s.carryTCP(s.flow)
				r := rand.New(rand.NewPCG(seed, uint64(n)))
				for i := range atATime {
					frames = append(frames, s.changed(r, i, n%2 == 1))
				}
				return frames
			},
		}
		c.compare(t, slow, fast)
		slow.flow, fast.flow = tcpFlow{}, tcpFlow{}
	}
}

// anyOutput are the differences that random changes come upon.
var anyOutput = &accepted{
	reason:   badSum.reason + "; " + congested.reason,
	fastOnly: func(line string) bool { return badSum.fastOnly(line) || congested.fastOnly(line) },
	slowOnly: congested.slowOnly,
}

// Parts of a packet that are changed: addresses are not, they differ by path.
const (
	addressesAt = 12
	l4At        = ipLen
	changeable  = ipLen + tcpLen
)

// changed is a packet of the flows that has been changed here and there.
func (s *scene) changed(r *rand.Rand, i int, wire bool) frame {
	size := r.IntN(1200)
	p, check := s.udp(pattern(size, byte(i))), udpSum
	if r.IntN(2) == 0 {
		p, check = s.tcp(ack, pattern(size, byte(i))), tcpSum
	}
	p.id = uint16(i)
	if wire {
		p.ttl--
	}
	b := p.bytes()
	for range 1 + r.IntN(2) {
		at := r.IntN(min(len(b), changeable))
		value := byte(r.Uint32())
		switch { // what may hold a checksum elsewhere differs by path, too
		case at == 0:
			value &= 0xf0
		case at == 9 && slices.Contains([]byte{unix.IPPROTO_ICMP, unix.IPPROTO_IPIP, unix.IPPROTO_TCP, unix.IPPROTO_UDP}, b[at]^value):
			value = 0
		}
		if at < addressesAt || at >= l4At && (at < l4At+check || at >= l4At+check+2) {
			b[at] ^= value
		}
	}
	if r.IntN(8) > 0 { // sums that are wrong by chance have little to tell
		fixSums(b, check)
	}
	switch r.IntN(8) {
	case 0:
		b = b[:len(b)-r.IntN(len(b)-ipLen)]
	case 1:
		b = append(b, pattern(1+r.IntN(40), 1)...)
	}
	if wire {
		return s.wrap(s.tunnelHeaders(), b)
	}
	return frame{bytes: append(s.podFrame(0, p).bytes[:ethLen:ethLen], b...)}
}

// fixSums makes the checksums of a packet right, as far as it still is one.
func fixSums(b []byte, check int) {
	binary.BigEndian.PutUint16(b[10:], 0)
	binary.BigEndian.PutUint16(b[10:], ^onesComplementSum(0, b[:min(max(ipLen, int(b[0]&15)*4), len(b))]))
	binary.BigEndian.PutUint16(b[l4At+check:], 0)
	binary.BigEndian.PutUint16(b[l4At+check:], ^onesComplementSum(pseudo(b[12:16], b[16:20], b[9], len(b)-l4At), b[l4At:]))
}
