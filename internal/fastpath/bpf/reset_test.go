package bpf_test

import (
	"encoding/binary"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/cilium/ebpf/ringbuf"
	"github.com/gopacket/gopacket/layers"

	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/testenv"
)

// An RST takes the slow path. The daemon is told what it means: that the connection is over,
// or that the RST is too old, or nothing, where its sequence number tells nothing.
func TestReset(t *testing.T) {
	testenv.Root(t)
	const end = 1000 + 29 // of the segment that rig sends
	for _, kind := range []string{"vxlan", "routed"} {
		for _, c := range []struct {
			name    string
			out     bool
			carried bool // a segment was carried before
			seqs    []uint32
			want    []uint32
		}{
			{"from the pod", true, true, []uint32{7}, []uint32{bpf.CtClose}},
			{"from the pod, of a flow that sends only", true, false, []uint32{7}, []uint32{bpf.CtClose}},
			{"from the pod, twice", true, true, []uint32{7, 7}, []uint32{bpf.CtClose}},
			{"continues what was carried", false, true, []uint32{end}, []uint32{bpf.CtClose}},
			{"twice", false, true, []uint32{end, end}, []uint32{bpf.CtClose}},
			{"too old", false, true, []uint32{end - 1}, []uint32{bpf.CtKeep}},
			{"a flood of old ones", false, true, []uint32{end - 1, end - 2, end - 3}, []uint32{bpf.CtKeep}},
			{"beyond what was carried", false, true, []uint32{end + 1}, nil},
			{"an old one, and then the right one", false, true, []uint32{end - 9, end}, []uint32{bpf.CtKeep, bpf.CtClose}},
			{"nothing was carried", false, false, []uint32{end}, nil},
		} {
			t.Run(kind+"/"+c.name, func(t *testing.T) {
				r := newRig(t, kind, layers.IPProtocolTCP)
				r.put(t)
				if c.carried {
					if verdict, _ := r.run(t, r.objs.FromWire, r.wire, r.received(kind == "vxlan").bytes(t)); verdict != redirect {
						t.Fatalf("a segment was not carried: %d", verdict)
					}
				}
				for _, seq := range c.seqs {
					p, program, device := r.podPacket(), r.objs.FromPod, r.pod
					if !c.out {
						p, program, device = r.received(kind == "vxlan"), r.objs.FromWire, r.wire
					}
					p.tcp.RST, p.tcp.PSH, p.tcp.Seq, p.payload = true, false, seq, nil
					if verdict, _ := r.run(t, program, device, p.bytes(t)); verdict != next {
						t.Fatalf("an RST got verdict %d", verdict)
					}
				}
				got := r.actions(t)
				if len(got) != len(c.want) {
					t.Fatalf("the daemon is asked for actions %v, want %v", got, c.want)
				}
				for i := range got {
					if got[i] != c.want[i] {
						t.Errorf("the daemon is asked for actions %v, want %v", got, c.want)
					}
				}
			})
		}
	}
}

// actions are those that the daemon was asked for.
func (r *rig) actions(t *testing.T) (all []uint32) {
	t.Helper()
	ring, err := ringbuf.NewReader(r.objs.Requests)
	check(t, err)
	defer ring.Close()
	ring.SetDeadline(time.Unix(1, 0))
	for {
		record, err := ring.Read()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return all
		}
		check(t, err)
		var request bpf.CtRequest
		_, err = binary.Decode(record.RawSample, binary.NativeEndian, &request)
		check(t, err)
		if request.Key != r.key {
			t.Errorf("a request is of flow %+v, want %+v", request.Key, r.key)
		}
		all = append(all, request.Action)
	}
}
