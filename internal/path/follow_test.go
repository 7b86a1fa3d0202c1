package path_test

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/traffic"
)

// A device on a card says that it can cut and sum whatever the card can do. What
// the card cannot has to be done before the frames are on the wire, or the path
// would seem faster than any that pays for it.
func TestDevicesFollowTheWire(t *testing.T) {
	follow := []variant{{spec: "macvlan"}, {spec: "ipvlan"}, {spec: "ipvlan:mode=l3"}, {spec: "vlan"}, {spec: "qinq"}}
	follow = slices.DeleteFunc(follow, func(v variant) bool { return v.missingFeature(t) != "" })
	for _, c := range []struct {
		wire           string
		whole, partial bool // frames that are not cut, not summed
	}{
		{"", true, true},
		{"tso=off", false, true},
		{"csum=off", false, false},
	} {
		l := testenv.Lab(t, labOf(t, follow, c.wire))
		for i, arm := range l.Arms {
			t.Run(fmt.Sprintf("wire=%q,%s", c.wire, follow[i].spec), func(t *testing.T) {
				tcp, whole, partial := onCardOf(t, l, i, arm)
				if tcp == 0 || (whole > 0) != c.whole || (partial > 0) != c.partial {
					t.Errorf("of %d TCP frames %d are not cut and %d not summed; want some: %v, %v", tcp, whole, partial, c.whole, c.partial)
				}
			})
		}
	}
}

// What is in a tunnel goes to the wire whole only if the wire's cards cut what is
// in tunnels.
func TestTunnelsFollowTheWire(t *testing.T) {
	follow := []variant{
		{spec: "vxlan"}, {spec: "vxlan:csum=off"}, {spec: "geneve"}, {spec: "geneve:csum=on"}, {spec: "ipip"},
		{spec: "gre"}, {spec: "gre:csum=on"},
	}
	follow = slices.DeleteFunc(follow, func(v variant) bool { return v.missingFeature(t) != "" })
	for wire, want := range map[string]bool{"": true, "tunnel-tso=off": false, "tso=off": false} {
		l := testenv.Lab(t, labOf(t, follow, wire))
		for i, arm := range l.Arms {
			t.Run(fmt.Sprintf("wire=%q,%s", wire, follow[i].spec), func(t *testing.T) {
				r, most, whole := newReader(l, i), 14+arm.Client().MTU+arm.Overhead, 0
				frames := traffic.Capture(t, l.Machines[1].Namespace, "wire0", func() { traffic.CheckTCP(t, arm.Client(), arm.Server()) })
				for _, f := range frames {
					if text, _ := r.read(f); strings.Contains(text, ".pod1") && len(f) > most {
						whole++
					}
				}
				if (whole > 0) != want {
					t.Errorf("of %d frames %d are not cut; want some: %v", len(frames), whole, want)
				}
			})
		}
	}
}

// onCardOf counts the frames of TCP on the card of an arm: all, those that are
// not cut, and of the others those that are not summed.
func onCardOf(t *testing.T, l *lab.Lab, index int, arm lab.Arm) (tcp, whole, partial int) {
	frames := traffic.Capture(t, l.Machines[1].Namespace, fmt.Sprintf("card%d", index), func() { traffic.CheckTCP(t, arm.Client(), arm.Server()) })
	for _, f := range frames {
		for kind := binary.BigEndian.Uint16(f[12:]); kind == unix.ETH_P_8021Q || kind == unix.ETH_P_8021AD; kind = binary.BigEndian.Uint16(f[12:]) {
			f = f[4:]
		}
		if binary.BigEndian.Uint16(f[12:]) != unix.ETH_P_IP || f[14+9] != unix.IPPROTO_TCP {
			continue
		}
		tcp++
		if len(f) > 14+arm.Client().MTU {
			whole++
		} else if !summed(f[14:]) {
			partial++
		}
	}
	return tcp, whole, partial
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
