package bpf_test

import (
	"fmt"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/gopacket/gopacket/layers"

	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/testenv"
)

// A packet that a program ahead of the fast path's has marked, or rules when it was in a tunnel, stays slow, with its
// mark, and is none to learn from: rules and routes may go by the mark.
func TestLeavesMarked(t *testing.T) {
	testenv.Root(t)
	const learnAfter = 8
	type context struct {
		_       [2]uint32
		Mark    uint32
		_       [7]uint32
		Ifindex uint32
		_       [37]uint32
	}
	for _, kind := range append(kinds, bpf.Routed6) {
		for _, way := range []string{outWay, inWay} {
			for mark, want := range map[uint32]struct {
				count bpf.Count // of a packet of a known flow
				learn bool      // from one of an unknown flow
			}{0: {bpf.CarriedOut, true}, 7: {bpf.SlowEncapsulated, false}} {
				t.Run(fmt.Sprintf("%s, %s, marked %d", kind, way, mark), func(t *testing.T) {
					onCore(t, 0)
					r, packet := stampingUDP(t, kind, way)
					r.put(t)
					r.putHop(t, kind)
					program, device, count := r.objs.FromPod, r.pod, want.count
					if way == inWay {
						program, device, count = r.objs.FromWire, r.wire, count+bpf.PerDirection
					}
					send := func() (stamp uint32) {
						var out context
						o := ebpf.RunOptions{Data: packet, DataOut: make([]byte, len(packet)+256), Context: context{Mark: mark, Ifindex: uint32(device)}, ContextOut: &out}
						if stamp = r.runWith(t, program, &o); out.Mark != mark {
							t.Errorf("it leaves with the mark %d", out.Mark)
						}
						return stamp
					}
					stamp := send()
					stamp |= send() // by the slot that the first one has filled
					if got := r.counted(t); stamp != 0 || len(got) != 1 || got[count] != 2 {
						t.Errorf("stamp %#x, counted %v, want it %v twice", stamp, got, count)
					}
					check(t, r.objs.Flows.Delete(r.key))
					check(t, r.objs.Epoch.Set(r.epoch+1))
					for range 2 * learnAfter {
						stamp = send()
					}
					if (stamp != 0) != want.learn {
						t.Errorf("stamp %#x, want one: %v", stamp, want.learn)
					}
				})
			}
		}
	}
}

// A slot that packets without a mark have filled serves none with one.
func TestLeavesMarkedBesideOthers(t *testing.T) {
	testenv.Root(t)
	onCore(t, 0)
	r := newRig(t, bpf.Routed, layers.IPProtocolUDP)
	r.put(t)
	packet := r.podPacket().bytes(t)
	for _, mark := range []uint32{0, 7, 0} {
		context := struct {
			_       [2]uint32
			Mark    uint32
			_       [7]uint32
			Ifindex uint32
			_       [37]uint32
		}{Mark: mark, Ifindex: uint32(r.pod)}
		verdict := r.runWith(t, r.objs.FromPod, &ebpf.RunOptions{Data: packet, DataOut: make([]byte, len(packet)+256), Context: context})
		if (verdict == redirect) != (mark == 0) {
			t.Errorf("with the mark %d: verdict %d, counted %v", mark, int32(verdict), r.counted(t))
		}
	}
}

// stampingUDP is a rig of a kind, of either version of IP, whose programs tell the stamp of a packet, and a packet
// that goes one way.
func stampingUDP(t *testing.T, kind, way string) (*rig, []byte) {
	t.Helper()
	if kind == bpf.Routed6 {
		r := rig6Of(t, layers.IPProtocolUDP, "stamping "+kind, func() (*bpf.Objects, error) { return bpf.NewStamping(kind, 0) })
		if way == outWay {
			return r, r.podPacket6().bytes(t)
		}
		return r, r.received6().bytes(t)
	}
	r := newRig(t, kind, layers.IPProtocolUDP)
	r.objs = pool.get(t, "stamping "+kind, func() (*bpf.Objects, error) { return bpf.NewStamping(kind, port) })
	if way == outWay {
		return r, r.podPacket().bytes(t)
	}
	return r, r.received(kind).bytes(t)
}
