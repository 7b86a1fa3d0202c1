package bpf_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/gopacket/gopacket/layers"

	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/testenv"
)

// siblingReference says what becomes of a packet that a pod sends which has a flow to a sibling.
type siblingReference struct {
	*siblingRig
	flow *referenceFlow
}

func (r *siblingReference) fromPod(frame []byte) outcome {
	own := bytes.Equal(frame[6:12], podMAC)
	to := func(mac []byte) bool { return own && bytes.Equal(frame[:6], mac) }
	sent := r.podFrame().parts().eth.DstMAC
	if !isIPv4(frame) {
		return slowFor(bpf.SlowNotIPv4)
	}
	h, why := reads(frame[14:], false)
	if why != bpf.CarriedOut {
		return slowFor(why)
	}
	is := h.protocol == r.flow.protocol && h.ends == r.flow.pod
	if !is || !r.flow.warm || h.flags {
		sibling := r.bridged && to(siblingMAC) && [4]byte(h.ends[4:]) == siblingAddr.As4()
		switch {
		case [4]byte(h.ends[:]) != podAddr.As4(), !to(gatewayMAC) && !sibling:
			if is && (r.flow.warm && !h.flags || h.closes) {
				r.flow.isGone = true
			}
			return slowFor(bpf.SlowSource)
		case h.flags:
			r.flow.isGone = is
			return slowFor(bpf.SlowFlags)
		case !is:
			return slowFor(bpf.SlowUnknown)
		}
		r.flow.warm = true
	}
	switch {
	case !to(sent):
		r.flow.isGone = true
		return slowFor(bpf.SlowSource)
	case h.length > int(r.sibling.Size), h.length+14 != len(frame):
		return slowFor(bpf.SlowSize)
	case r.bridged:
		ip := translated(frame[14:], h, r.flow.pod, r.flow.wire, false)
		return outcome{true, append(append(append(bytes.Clone(siblingMAC), podMAC...), 8, 0), ip...), bpf.CarriedOut}
	}
	ip := forward(frame[14:], h, r.flow.pod, r.flow.wire, false)
	return outcome{true, append(append(append(bytes.Clone(siblingMAC), siblingGateway...), 8, 0), ip...), bpf.CarriedOut}
}

// Packets from the grammar, from a pod to its sibling: verdict and bytes are those of the reference.
func TestFuzzSibling(t *testing.T) {
	testenv.Root(t)
	onCore(t, 0)
	seed, packets := testenv.Generated(t, fuzzEnv, fewFuzzed)
	t.Logf("%s=%d:%d", fuzzEnv, seed, packets)
	for i, l := range deliveries {
		for _, protocol := range []layers.IPProtocol{layers.IPProtocolTCP, layers.IPProtocolUDP} {
			t.Run(l.name+", "+protocol.String(), func(t *testing.T) {
				b := newSiblingRig(t, kinds[i%len(kinds)], protocol, l)
				b.put(t)
				ref := &siblingReference{siblingRig: b, flow: &referenceFlow{
					protocol: byte(protocol), pod: tupleOf(l.nat.local.String(), l.nat.remote.String()), wire: tupleOf(l.nat.wireLocal.String(), l.nat.wireOther.String()),
				}}
				f := &fuzzing{rig: b.rig, kind: bpf.Routed, rng: rand.New(rand.NewPCG(seed, uint64(i))), version: 100, ref: &reference{flows: []*referenceFlow{ref.flow}}}
				if n := ref.carryAll(t, f, max(packets/len(deliveries), 1)); n < packets/len(deliveries)/10 {
					t.Errorf("of %d packets, only %d were carried: the grammar is no good", packets/len(deliveries), n)
				}
			})
		}
	}
}

func (r *siblingReference) carryAll(t *testing.T, f *fuzzing, packets int) (carried int) {
	testenv.InNetns(t, f.netns, func() error {
		onCore(t, 0)
		for i := range packets {
			f.macs = append(bytes.Clone(r.podFrame().parts().eth.DstMAC), podMAC...)
			if f.chance(20) {
				copy(f.macs, choose(f, gatewayMAC, siblingMAC))
			}
			packet := f.packet(false, false)
			o := r.fromPod(packet)
			verdict, left, err := runOnce(r.objs.FromPod, r.pod, packet)
			want := next
			if o.carried {
				want = redirect
				carried++
			} else {
				o.packet = packet
			}
			if err != nil || verdict != want || !bytes.Equal(left, o.packet) {
				return fmt.Errorf("packet %d (%v): of\n% x\nthe verdict is %d, want %d (%v), and left is\n% x, want\n% x", i, err, packet, int32(verdict), int32(want), o.count, left, o.packet)
			}
			if r.flow.isGone {
				for _, k := range []bpf.FlowKey{r.key, r.reverse} {
					if hasFlow(t, r.objs, k) {
						return fmt.Errorf("packet %d has ended the flow, whose entry is there:\n% x", i, packet)
					}
				}
				check(t, r.objs.PutFlow(r.key, r.siblingRig.flow))
				check(t, r.objs.PutFlow(r.reverse, r.reverseFlow))
				r.flow.isGone, r.flow.warm = false, false
			}
			if f.chance(50) {
				f.version++
				check(t, f.objs.Version.Set(f.version))
				r.flow.warm = false
			}
		}
		return nil
	})
	return carried
}
