package bpf_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/gopacket/gopacket/layers"

	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/testenv"
)

// A mark of congestion is the network's to combine; where the two headers agree
// there is nothing to do, and the pod sees its peer's DSCP and TTL less one hop.
func TestMarksOnTheWayIn(t *testing.T) {
	testenv.Root(t)
	r := newRig(t, "vxlan", layers.IPProtocolTCP)
	r.put(t)
	for outer := range uint8(4) {
		for inner := range uint8(4) {
			for _, ttl := range []uint8{2, 64, 255} {
				p := r.received("vxlan")
				p.outerIP.TOS, p.ip.TOS, p.ip.TTL = outer, 0xb8|inner, ttl
				packet := p.bytes(t)
				verdict, out := r.run(t, r.objs.FromWire, r.wire, packet)
				want := hopped(p, gatewayMAC, podMAC).bytes(t)
				if outer != inner {
					want = packet
				}
				if (verdict == redirect) != (outer == inner) || !bytes.Equal(out, want) {
					t.Errorf("ECN %d outside and %d inside, TTL %d: verdict %d, out comes\n% x, want\n% x", outer, inner, ttl, int32(verdict), out, want)
				}
			}
		}
	}
}

// segments runs a program over a packet that is to be cut into segments.
func (r *rig) segments(t *testing.T, p *ebpf.Program, device int, packet []byte, size, count uint32) (verdict uint32) {
	t.Helper()
	context := struct {
		_       [10]uint32
		Ifindex uint32
		_       [29]uint32
		Wire    uint32
		Count   uint32
		_       [2]uint32
		Size    uint32
		_       [3]uint32
	}{Ifindex: uint32(device), Wire: uint32(len(packet)), Count: count, Size: size}
	return r.runWith(t, p, &ebpf.RunOptions{Data: packet, DataOut: make([]byte, len(packet)+256), Context: context})
}

// Of packets that are cut into segments, the segments count, not the whole.
func TestSegments(t *testing.T) {
	testenv.Root(t)
	for _, c := range []struct {
		kind, way string
		size      uint32
		counted   bpf.Count
	}{
		{"routed", "out", 1460, bpf.CarriedOut},
		{"routed", "in", 1460, bpf.CarriedIn},
		{"routed", "out", 1461, bpf.SlowSize},
		{"vxlan", "out", 1411, bpf.SlowSize},
	} {
		t.Run(fmt.Sprintf("%s %s, segments of %d bytes", c.kind, c.way, c.size), func(t *testing.T) {
			r := newRig(t, c.kind, layers.IPProtocolTCP)
			r.put(t)
			p, program, device := r.podPacket(), r.objs.FromPod, r.pod
			if c.way == "in" {
				p, program, device = r.received("routed"), r.objs.FromWire, r.wire
			}
			p.payload = make([]byte, 3000)
			r.segments(t, program, device, p.bytes(t), c.size, 3)
			if got := r.counted(t); len(got) != 1 || got[c.counted] != 1 {
				t.Errorf("counted %v, want one of %s", got, c.counted)
			}
		})
	}
}

// What is larger than the pod takes whole goes slow on its way in, whatever the peer
// takes; of packets that are cut into segments, the segments count.
func TestFitsPod(t *testing.T) {
	testenv.Root(t)
	const most, headers = 1000, 20 + 20 // of IP and TCP
	for _, kind := range kinds {
		for _, c := range []struct {
			name              string
			payload, segments int    // bytes of each, and their number; 0: it is not to be cut
			way               string // that it goes
			counted           bpf.Count
		}{
			{"fits", most - headers, 0, "in", bpf.CarriedIn},
			{"too large", most - headers + 1, 0, "in", bpf.PerDirection + bpf.SlowSize},
			{"out it is the peer's size", most - headers + 1, 0, "out", bpf.CarriedOut},
			{"segments that fit", most - headers, 3, "in", bpf.CarriedIn},
			{"too large segments", most - headers + 1, 3, "in", bpf.PerDirection + bpf.SlowSize},
			{"out it is the peer's size, of segments", most - headers + 1, 3, "out", bpf.CarriedOut},
		} {
			t.Run(kind+", "+c.name, func(t *testing.T) {
				r := newRig(t, kind, layers.IPProtocolTCP)
				r.podEntry.Size = most
				r.put(t)
				p, program, device := r.podPacket(), r.objs.FromPod, r.pod
				if c.way == "in" {
					p, program, device = r.received(kind), r.objs.FromWire, r.wire
				}
				p.payload = make([]byte, c.payload*max(1, c.segments))
				if c.segments == 0 {
					r.run(t, program, device, p.bytes(t))
				} else {
					r.segments(t, program, device, p.bytes(t), uint32(c.payload), uint32(c.segments))
				}
				want := c.counted
				if kind != bpf.Routed && c.segments > 0 && (want == bpf.CarriedOut || want == bpf.CarriedIn) {
					want += bpf.SlowEncapsulated - bpf.CarriedOut // it fits, but a test's segments are of no protocol: the kernel does not grow or shrink them
				}
				if got := r.counted(t); len(got) != 1 || got[want] != 1 {
					t.Errorf("counted %v, want one of %s", got, want)
				}
			})
		}
	}
}

// Of the IP header around a packet no bit can be another than it was sent with.
func TestOuterHeaderIsWhole(t *testing.T) {
	testenv.Root(t)
	r := newRig(t, "vxlan", layers.IPProtocolUDP)
	r.put(t)
	for _, id := range []uint16{0, 1, 0x7fff, 0xfffe, 0xffff} { // and so sums that carry, and that do not
		p := r.received("vxlan")
		p.outerIP.Id = id
		packet := p.bytes(t)
		if verdict, _ := r.run(t, r.objs.FromWire, r.wire, packet); verdict != redirect {
			t.Fatalf("verdict %d, counted %v", int32(verdict), r.counted(t))
		}
		for bit := range 8 * 20 {
			packet[14+bit/8] ^= 1 << (bit % 8)
			if verdict, left := r.run(t, r.objs.FromWire, r.wire, packet); verdict != next || !bytes.Equal(left, packet) {
				t.Errorf("bit %d of byte %d: verdict %d for\n% x, left as\n% x", bit%8, bit/8, int32(verdict), packet, left)
			}
			packet[14+bit/8] ^= 1 << (bit % 8)
		}
	}
}

// Whatever bytes come, no program drops them, and what is cut short or something else
// altogether is left as it came.
func TestAnyBytes(t *testing.T) {
	testenv.Root(t)
	const most, headers = 600, 14 + 20
	rng := rand.New(rand.NewPCG(1, 2))
	for _, kind := range kinds {
		r := newRig(t, kind, layers.IPProtocolUDP)
		r.put(t)
		on := r.forwarded(kind)
		r.putHop(t, kind)
		toPeer, toPod := stamped(t, r.objs.ToPeer, r.epoch), stamped(t, r.objs.ToPod, r.epoch)
		if kind != bpf.Routed {
			toPeer = stamped(t, r.objs.ToPeer, crossed|r.epoch)
		}
		toTunnel, left := stamped(t, r.objs.ToTunnel, r.epoch), inFrontOf(kind, hopped(r.podPacket(), gatewayMAC, farMAC).bytes(t))
		fromTunnel, handed := leftToDevice(t, r.objs.FromTunnel, crossed|r.epoch), r.handedOn(t, kind)
		out, in := r.podPacket().bytes(t), r.received(kind).bytes(t)
		arrived := hopped(r.received("routed"), gatewayMAC, podMAC).bytes(t)
		for i := range most {
			for _, c := range []struct {
				program *ebpf.Program
				device  int
				packet  []byte
			}{{r.objs.FromPod, r.pod, out}, {r.objs.FromWire, r.wire, in}, {toPeer, r.wire, on.bytes(t)}, {toTunnel, r.wire, left}, {fromTunnel, r.wire, handed}, {toPod, r.pod, arrived}} {
				packet := bytes.Clone(c.packet)
				switch i % 3 {
				case 0: // cut short
					packet = packet[:headers+rng.IntN(len(packet)-headers)] // the kernel runs nothing on less
				case 1: // something else altogether
					for b := 14 + rng.IntN(11); b < len(packet); b++ { // from the IP header on, at a tunnel too
						packet[b] = byte(rng.Uint32())
					}
				case 2: // one byte changed
					packet[12+rng.IntN(len(packet)-12)] ^= 1 << rng.IntN(8)
				}
				verdict, left := r.run(t, c.program, c.device, packet)
				switch {
				case verdict == redirect && i%3 == 2: // a byte that nobody looks at
				case verdict != next || !bytes.Equal(left, packet):
					t.Fatalf("%s: verdict %d for\n% x, left as\n% x", kind, int32(verdict), packet, left)
				}
			}
		}
	}
}
