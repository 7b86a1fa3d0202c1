package bpf_test

import (
	"testing"

	"github.com/cilium/ebpf"
	"github.com/gopacket/gopacket/layers"

	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/testenv"
)

// A packet that rules have marked when it was in a tunnel stays slow, with its mark, and is none to learn
// from: rules and routes may go by the mark.
func TestLeavesMarkedIPv6(t *testing.T) {
	testenv.Root(t)
	const learnAfter = 8
	for mark, want := range map[uint32]struct {
		count bpf.Count // of a packet of a known flow
		learn bool      // from one of an unknown flow
	}{0: {bpf.CarriedIn, true}, 7: {bpf.PerDirection + bpf.SlowEncapsulated, false}} {
		r := rig6Of(t, layers.IPProtocolUDP, "stamping "+bpf.Routed6, func() (*bpf.Objects, error) { return bpf.NewStamping(bpf.Routed6, 0) })
		r.put(t)
		r.putHop(t, bpf.Routed)
		type context struct {
			_       [2]uint32
			Mark    uint32
			_       [7]uint32
			Ifindex uint32
			_       [37]uint32
		}
		packet := r.received6().bytes(t)
		send := func() (stamp uint32) {
			var out context
			o := ebpf.RunOptions{Data: packet, DataOut: make([]byte, len(packet)+256), Context: context{Mark: mark, Ifindex: uint32(r.wire)}, ContextOut: &out}
			testenv.InNetns(t, r.netns, func() (err error) {
				stamp, err = r.objs.FromWire.Run(&o)
				return err
			})
			if out.Mark != mark {
				t.Errorf("with the mark %d, it has the mark %d", mark, out.Mark)
			}
			return stamp
		}
		stamp := send()
		if got := r.counted(t); stamp != 0 || len(got) != 1 || got[want.count] != 1 {
			t.Errorf("with the mark %d: stamp %#x, counted %v, want it %v", mark, stamp, got, want.count)
		}
		check(t, r.objs.Flows.Delete(r.key))
		check(t, r.objs.Epoch.Set(r.epoch+1))
		for range 2 * learnAfter {
			stamp = send()
		}
		if (stamp != 0) != want.learn {
			t.Errorf("with the mark %d: stamp %#x, want one: %v", mark, stamp, want.learn)
		}
	}
}
