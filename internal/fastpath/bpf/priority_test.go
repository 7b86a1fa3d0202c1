package bpf_test

import (
	"testing"

	"github.com/cilium/ebpf"
	"github.com/gopacket/gopacket/layers"

	"github.com/venturi-net/venturi/internal/testenv"
)

// priorities are what the kernel's routers give packets by their TOS (ip_tos2prio), for
// each of its four bits.
var priorities = [16]uint32{0, 0, 0, 0, 2, 2, 2, 2, 6, 6, 6, 6, 4, 4, 4, 4}

// What is carried has the priority for queues behind that it gets where it is routed. In a pod it has none.
func TestPriorities(t *testing.T) {
	testenv.Root(t)
	for _, kind := range kinds {
		r := newRig(t, kind, layers.IPProtocolUDP)
		r.put(t)
		for _, way := range []string{outWay, inWay} {
			for tos := range 256 {
				p, program, device := r.podPacket(), r.objs.FromPod, r.pod
				if way == inWay {
					p, program, device = r.received(kind), r.objs.FromWire, r.wire
				}
				p.ip.TOS = uint8(tos)
				p.outerIP.TOS = uint8(tos) & 3
				packet := p.bytes(t)
				type skb struct {
					_        [8]uint32
					Priority uint32
					_        uint32
					Ifindex  uint32
					_        [37]uint32
				}
				var out skb
				o := ebpf.RunOptions{Data: packet, DataOut: make([]byte, len(packet)+256), Context: skb{Priority: 5, Ifindex: uint32(device)}, ContextOut: &out}
				testenv.InNetns(t, r.netns, func() error {
					verdict, err := program.Run(&o)
					if verdict != redirect {
						t.Fatalf("%s %s, TOS %#x: verdict %d", kind, way, tos, int32(verdict))
					}
					return err
				})
				want := priorities[tos&0x1e>>1]
				if way == inWay {
					want = 0
				}
				if out.Priority != want {
					t.Errorf("%s %s, TOS %#x: priority %d, want %d", kind, way, tos, out.Priority, want)
				}
			}
		}
	}
}
