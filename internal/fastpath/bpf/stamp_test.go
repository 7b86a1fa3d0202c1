package bpf_test

import (
	"testing"

	"github.com/gopacket/gopacket/layers"

	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/testenv"
)

// stampOn is the stamp of a packet that set out in an epoch of rules.
func stampOn(epoch uint32) uint32 { return 0x8000 | epoch }

// stamping is a rig whose programs that carry tell the stamp of a packet that is left
// to the network: 0 is none.
func stamping(t *testing.T, kind string) *rig {
	t.Helper()
	r := newRig(t, kind, layers.IPProtocolTCP)
	r.objs = pool.get(t, "stamping "+kind, func() (*bpf.Objects, error) { return bpf.NewStamping(kind, port) })
	r.epoch = 5
	return r
}

// A flow is stamped, and so learned, once there were enough packets of it, either way;
// one that is short never is.
func TestStampsLongFlows(t *testing.T) {
	testenv.Root(t)
	const learnAfter = 8
	for _, kind := range kinds {
		for name, c := range map[string]struct {
			before []string // what came before a packet that the pod sends
			want   bool
		}{
			"the first":                    {nil, false},
			"the last of a short one":      {ways(learnAfter-2, outWay), false},
			"the eighth":                   {ways(learnAfter-1, outWay), true},
			"the eighth of both ways":      {append(ways(4, outWay), ways(3, inWay)...), true},
			"the eighth of one it hears":   {ways(learnAfter-1, inWay), true},
			"the seventh of both ways":     {append(ways(3, outWay), ways(3, inWay)...), false},
			"the first after it was ended": {append(ways(learnAfter, outWay), "end"), false},
			"the next of another flow":     {ways(learnAfter, "other"), false},
		} {
			t.Run(kind+", "+name, func(t *testing.T) {
				r := stamping(t, kind)
				r.put(t)
				check(t, r.objs.Flows.Delete(r.key))
				for _, way := range c.before {
					r.stampOf(t, kind, way, 0)
				}
				want := uint32(0)
				if c.want {
					want = stampOn(r.epoch)
				}
				if got := r.stampOf(t, kind, outWay, 0); got != want {
					t.Errorf("stamped %#x, want %#x", got, want)
				}
			})
		}
	}
}

func ways(n int, way string) (all []string) {
	for range n {
		all = append(all, way)
	}
	return all
}

// stampOf sends a packet, with a stamp or without (0), and gives that which it has then.
func (r *rig) stampOf(t *testing.T, kind, way string, stamp uint32) uint32 {
	t.Helper()
	p, program, device := r.podPacket(), r.objs.FromPod, r.pod
	switch way {
	case inWay:
		p, program, device = r.received(kind), r.objs.FromWire, r.wire
	case "end":
		p.tcp.FIN = true
	case "other":
		p.tcp.SrcPort++
	}
	if stamp != 0 {
		program = stamped(t, program, stamp&^0x8000)
	}
	got, _ := r.run(t, program, device, p.bytes(t))
	return got
}

// A flow that was learned before is learned again by its next packet, either way,
// that sets out under the rules of now; what cannot be learned is not stamped, and a
// stamp from elsewhere is taken off.
func TestStamps(t *testing.T) {
	testenv.Root(t)
	for _, kind := range kinds {
		for _, way := range []string{outWay, inWay} {
			for _, c := range []struct {
				name   string
				change func(r *rig)
				came   uint32 // stamp with which it comes
				want   uint32
			}{
				{"rules changed", func(r *rig) { r.flow.Epoch = 4 }, 0, stampOn(5)},
				{"seen one way only", func(r *rig) { r.flow.Epoch = 0 }, 0, stampOn(5)},
				{"pod changed", func(r *rig) { r.flow.Epoch, r.podEntry.Epoch = 5, 66 }, 0, stampOn(5)},
				{"peer changed", func(r *rig) { r.flow.Epoch, r.peer.Epoch = 5, 77 }, 0, stampOn(5)},
				{"as many changes as a stamp tells apart", func(r *rig) { r.flow.Epoch, r.epoch = 4, 0x800+5 }, 0, stampOn(5)},
				{"no daemon", func(r *rig) { r.flow.Epoch, r.deadline = 4, 1 }, 0, 0},
				{"ours from elsewhere", func(r *rig) { r.deadline = 1 }, stampOn(5), 0},
				{"ours of another epoch", func(r *rig) { r.deadline = 1 }, stampOn(3), 0},
				{"another fast path's", func(r *rig) { r.deadline = 1 }, stampOn(5) | 1<<11, stampOn(5) | 1<<11},
			} {
				t.Run(kind+", "+way+", "+c.name, func(t *testing.T) {
					r := stamping(t, kind)
					c.change(r)
					r.put(t)
					r.putHop(t, kind)
					if got := r.stampOf(t, kind, way, c.came); got != c.want {
						t.Errorf("stamped %#x, want %#x", got, c.want)
					}
				})
			}
		}
	}
}
