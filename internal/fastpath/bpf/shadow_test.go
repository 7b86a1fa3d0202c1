package bpf_test

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/perf"
	"github.com/gopacket/gopacket/layers"

	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/testenv"
)

// shadowOf is a rig like another, in the same namespace, with the programs of a shadow.
func shadowOf(t *testing.T, r *rig, kind string) (*rig, *perf.Reader) {
	t.Helper()
	s := *r
	s.objs = pool.get(t, "shadow "+kind, func() (*bpf.Objects, error) { return bpf.New(kind, bpf.Options{Shadow: true}, port) })
	records, err := perf.NewReader(s.objs.Records(), 1<<19)
	check(t, err)
	t.Cleanup(func() { records.Close() })
	return &s, records
}

// record reads the record that the programs have written, with the packet behind it.
func record(t *testing.T, records *perf.Reader) (r bpf.ShadowRecord, packet []byte) {
	t.Helper()
	check(t, records.Flush())
	got, err := records.Read()
	check(t, err)
	n, err := binary.Decode(got.RawSample, binary.NativeEndian, &r)
	check(t, err)
	if _, err := records.Read(); err == nil {
		t.Error("there is another record")
	}
	return r, got.RawSample[n:][:r.Length]
}

// A shadow leaves packets as they are, and records the bytes that the fast path sends in their
// place.
func TestShadow(t *testing.T) {
	for _, kind := range kinds {
		for _, n := range []nat{{name: "not translated"}, nats[2]} {
			t.Run(kind+", "+n.name, func(t *testing.T) {
				protocols(t, func(t *testing.T, protocol layers.IPProtocol) {
					plain := newRig(t, kind, protocol)
					from, to := addrPort("8.0.0.2:4000"), addrPort("8.0.1.2:5000")
					back, local := to, from
					var wire bpf.FlowKey
					var onWire bpf.Flow
					if n.local.IsValid() {
						wire, onWire = plain.translate(n)
						to, back, local = n.remote, n.wireOther, n.wireLocal
					}
					shadow, records := shadowOf(t, plain, kind)
					for _, r := range []*rig{plain, shadow} {
						r.put(t)
						if n.local.IsValid() {
							check(t, r.objs.PutFlow(wire, onWire))
						}
					}
					out := plain.podPacket().withEnds(from, to)
					out.ip.TOS = 0xb8
					compareShadow(t, plain, shadow, records, "out", out.bytes(t))
					compareShadow(t, plain, shadow, records, "in", plain.received(kind).withEnds(back, local).bytes(t))
				})
			})
		}
	}
}

// compareShadow runs the program of a direction that carries over a packet, and that of a shadow.
func compareShadow(t *testing.T, plain, shadow *rig, records *perf.Reader, way string, packet []byte) {
	t.Helper()
	program := func(r *rig) (*ebpf.Program, int) {
		if way == "out" {
			return r.objs.FromPod, r.pod
		}
		return r.objs.FromWire, r.wire
	}
	p, device := program(plain)
	verdict, want := plain.run(t, p, device, packet)
	if verdict != redirect {
		t.Fatalf("%s: verdict %d, counted %v", way, int32(verdict), plain.counted(t))
	}
	p, _ = program(shadow)
	verdict, left := shadow.run(t, p, device, packet)
	if verdict != next || !bytes.Equal(left, packet) {
		t.Fatalf("%s: the shadow's verdict is %d, counted %v, and the packet\n% x, was\n% x", way, int32(verdict), shadow.counted(t), left, packet)
	}
	r, recorded := record(t, records)
	if !bytes.Equal(recorded, packet) || r.Headers == 0 {
		t.Errorf("%s: recorded %+v with\n% x, want\n% x", way, r, recorded, packet)
	}
	if got := append(r.Header[:r.Headers], recorded[r.Replaces:]...); !bytes.Equal(got, want) {
		t.Errorf("%s: would be sent\n% x, want\n% x", way, got, want)
	}
	if target := map[string]int{"out": shadow.wire, "in": shadow.pod}[way]; int(r.Device) != target || (r.Direction == 0) != (way == "out") {
		t.Errorf("%s: would be sent by device %d in direction %d, want %d", way, r.Device, r.Direction, target)
	}
}

// Where the network hands a packet on that has a number, it is recorded, and teaches nothing. One
// with the stamp of another fast path is left alone.
func TestShadowPassedOn(t *testing.T) {
	testenv.Root(t)
	for _, kind := range kinds {
		r, records := shadowOf(t, newRig(t, kind, layers.IPProtocolUDP), kind)
		r.put(t)
		const number = 0x505 // in the bits that a stamp has for it
		packet := r.podPacket().bytes(t)
		for _, c := range []struct {
			program   *ebpf.Program
			device    int
			direction uint8
		}{{r.objs.ToPeer, r.wire, 0}, {r.objs.ToPod, r.pod, 1}} {
			for _, stamp := range []uint32{0x8200 | 1<<11 | number, 0x8200 | number} {
				verdict, left := r.run(t, stamped(t, c.program, stamp), c.device, packet)
				if verdict != next || !bytes.Equal(left, packet) {
					t.Errorf("%s: verdict %d, left as\n% x", kind, int32(verdict), left)
				}
			}
			is, recorded := record(t, records) // of one of the two
			if is.Number != number || is.Headers != 0 || is.Direction != c.direction || int(is.Device) != c.device || !bytes.Equal(recorded, packet) {
				t.Errorf("%s: recorded %+v with\n% x", kind, is, recorded)
			}
		}
	}
}
