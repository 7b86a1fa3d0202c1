package bpf_test

import (
	"testing"

	"github.com/gopacket/gopacket/layers"

	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/testenv"
)

// mixtures are what an entry may hold when two cores have written it at a time: each way was seen with something that
// is not in the entry. nil: with what is.
var mixtures = []struct {
	name    string
	out, in func(k *bpf.FlowKey, f *bpf.Flow)
}{
	{"sent to another peer", func(_ *bpf.FlowKey, f *bpf.Flow) { f.Peer++ }, nil},
	{"sent to the peer before it changed", func(_ *bpf.FlowKey, f *bpf.Flow) { f.PeerEpoch-- }, nil},
	{"received from another peer", nil, func(_ *bpf.FlowKey, f *bpf.Flow) { f.Peer++ }},
	{"sent by another pod", func(_ *bpf.FlowKey, f *bpf.Flow) { f.PodEpoch++ }, nil},
	{"received by another pod", nil, func(_ *bpf.FlowKey, f *bpf.Flow) { f.PodEpoch++ }},
	{"sent and received by another flow", nextFlow, nextFlow},
	{"sent and received by another flow of the same hash", sameHash, sameHash},
	{"sent by one that is translated", func(k *bpf.FlowKey, f *bpf.Flow) { setOther(f, bpf.FlowKey{Local: k.Local, Remote: k.Remote + 1}) }, nil},
}

func nextFlow(k *bpf.FlowKey, _ *bpf.Flow) { k.LocalPort++ }

// sameHash makes a key that of a flow of another pod, with ports by which its hash is the same, as anybody may choose
// them: ports are the upper half of a word, as the pod's address is, and what one half adds to the hash the other takes.
func sameHash(k *bpf.FlowKey, _ *bpf.Flow) {
	const addr, end uint64 = 0x9e3779b97f4a7c15, 0xc2b2ae3d27d4eb4f // the factors of the words
	inverse := end
	for range 5 { // each makes twice as many bits right
		inverse *= 2 - end*inverse
	}
	k.Local++
	ports := uint32(k.LocalPort) | uint32(k.RemotePort)<<16
	ports -= uint32(addr * inverse)
	k.LocalPort, k.RemotePort = uint16(ports), uint16(ports>>16)
}

// Packets are carried in a direction only if the network has forwarded them between the pod and the peer that
// their entry names, and of TCP only if it has in both. What is not is learned anew.
func TestCarriesNoMixture(t *testing.T) {
	for _, kind := range append(kinds, bpf.Routed6) {
		for _, c := range mixtures {
			t.Run(kind+", "+c.name, func(t *testing.T) {
				protocols(t, func(t *testing.T, protocol layers.IPProtocol) {
					testenv.Root(t)
					onCore(t, 0)
					r := rigOf(t, kind, protocol)
					r.put(t)
					r.putHop(t, kind)
					same := r.key
					if sameHash(&same, nil); bpf.Slot(same) != bpf.Slot(r.key) || bpf.Group(same) != bpf.Group(r.key) {
						t.Fatalf("%+v and %+v have not the same hash", same, r.key)
					}
					mixed, out, in := r.flow, bpf.Counts, bpf.Counts
					proof := func(change func(*bpf.FlowKey, *bpf.Flow), count *bpf.Count) uint32 {
						k, f := r.key, r.flow
						if change != nil {
							change(&k, &f)
							*count = bpf.SlowUnproven
						}
						return r.objs.Proof(k, f, r.epoch)
					}
					mixed.SeenOut, mixed.SeenIn = proof(c.out, &out), proof(c.in, &in)
					if protocol == layers.IPProtocolTCP {
						out, in = bpf.SlowUnproven, bpf.SlowUnproven
					}
					check(t, r.objs.Flows.Put(r.key, mixed))
					r.expectWay(t, "out", kind, out)
					r.expectWay(t, "in", kind, in)
					if c.out == nil || c.in != nil || kind != bpf.Routed && kind != bpf.Routed6 {
						return // where there is a tunnel, learning takes two programs: see TestLearns
					}
					r.run(t, stamped(t, r.objs.ToPeer, r.epoch), r.wire, r.forwardedFrame(t, kind))
					r.expectWay(t, "out", kind, bpf.Counts)
					r.expectWay(t, "in", kind, bpf.Counts)
				})
			})
		}
	}
}

// rigOf is a rig of a kind, of either version of IP.
func rigOf(t testing.TB, kind string, protocol layers.IPProtocol) *rig {
	t.Helper()
	if kind == bpf.Routed6 {
		return newRig6(t, protocol)
	}
	return newRig(t, kind, protocol)
}

// expectWay sends a packet of the flow one way, of either version of IP.
func (r *rig) expectWay(t *testing.T, way, kind string, count bpf.Count) {
	t.Helper()
	switch {
	case kind != bpf.Routed6:
		r.way(t, way, kind, count)
	case way == "out":
		r.expect6(t, r.objs.FromPod, r.pod, r.podPacket6(), count)
	default:
		if count != bpf.Counts {
			count += bpf.PerDirection
		}
		r.expect6(t, r.objs.FromWire, r.wire, r.received6(), count)
	}
}

// forwardedFrame is a packet of the flow as the network puts it on a wire without a tunnel.
func (r *rig) forwardedFrame(t testing.TB, kind string) []byte {
	t.Helper()
	if kind == bpf.Routed6 {
		return hopped6(r.podPacket6(), r.wireMAC, farMAC).bytes(t)
	}
	return r.forwarded(kind).bytes(t)
}
