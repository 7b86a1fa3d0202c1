package path_test

import (
	"encoding/binary"
	"fmt"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/testenv"
)

// A macvlan says that it can cut and sum whatever the card can do. What the
// card cannot has to be done before the frames are on the wire, or the path
// would seem faster than any that pays for it.
func TestMACVLANFollowsTheWire(t *testing.T) {
	for _, c := range []struct {
		wire           string
		whole, partial bool // frames that are not cut, not summed
	}{
		{"", true, true},
		{"tso=off", false, true},
		{"csum=off", false, false},
	} {
		t.Run(fmt.Sprintf("wire=%q", c.wire), func(t *testing.T) {
			wire, err := lab.ParseWire(c.wire)
			must(t, err)
			l := testenv.Lab(t, lab.Options{Paths: []string{"host", "macvlan"}, Wire: wire})
			arm := l.Arms[1]
			frames := capture(t, l.Machines[1].Namespace, "card1", func() { checkTCP(t, arm.From(), arm.To()) })
			tcp, whole, partial := 0, 0, 0
			for _, f := range frames {
				if binary.BigEndian.Uint16(f[12:]) != unix.ETH_P_IP || f[14+9] != unix.IPPROTO_TCP {
					continue
				}
				tcp++
				if len(f) > 14+wire.MTU {
					whole++
				} else if !summed(f[14:]) {
					partial++
				}
			}
			if tcp == 0 || (whole > 0) != c.whole || (partial > 0) != c.partial {
				t.Errorf("of %d TCP frames %d are not cut and %d not summed; want some: %v, %v", tcp, whole, partial, c.whole, c.partial)
			}
		})
	}
}

// summed tells whether the checksum of a TCP packet is right.
func summed(ip []byte) bool {
	tcp := ip[20:binary.BigEndian.Uint16(ip[2:])]
	sum := uint32(unix.IPPROTO_TCP) + uint32(len(tcp))
	for _, b := range [][]byte{ip[12:20], tcp} {
		for i := 0; i < len(b); i += 2 {
			sum += uint32(b[i]) << 8
			if i+1 < len(b) {
				sum += uint32(b[i+1])
			}
		}
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return sum == 0xffff
}
