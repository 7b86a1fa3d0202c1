package bpf_test

import (
	"testing"

	"github.com/gopacket/gopacket/layers"

	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/testenv"
)

// Two peers send packets with the same addresses and ports, and rules drop what one of them sends. Nothing is learned of
// the other's until the first has been silent for a while: the packet that the network hands to the pod does not say
// whose it was. Afterwards it is learned with the peer that sends.
func TestLearnsOfOneSender(t *testing.T) {
	testenv.Root(t)
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			onCore(t, 0)
			r := newRig(t, kind, layers.IPProtocolUDP)
			r.objs = pool.get(t, "stamping "+kind, func() (*bpf.Objects, error) { return bpf.NewStamping(kind, port) })
			r.epoch = 5
			r.put(t)
			r.putHop(t, kind)
			other := r.putStranger(t, kind)
			check(t, r.objs.Flows.Delete(r.key))
			now := uint32(100)
			sends := func(p *packet) (stamp uint32) {
				check(t, r.objs.Tick.Set(now))
				stamp, _ = r.run(t, r.objs.FromWire, r.wire, p.bytes(t))
				return stamp
			}
			arrives := func() (f bpf.Flow, learned bool) {
				r.run(t, stamped(t, r.objs.ToPod, r.epoch), r.pod, hopped(r.received("routed"), gatewayMAC, podMAC).bytes(t))
				learned = r.objs.LookupFlow(r.key, &f) == nil && f.SeenIn != 0
				return f, learned
			}
			own := r.received(kind)
			for range 8 {
				sends(own)
			}
			if got := sends(own); got != stampOn(5) {
				t.Fatalf("alone, it is stamped %#x", got)
			}
			if got := sends(other); got != 0 {
				t.Errorf("the other one's is stamped %#x beside it", got)
			}
			if f, learned := arrives(); learned {
				t.Errorf("the other one has sent last: learned %+v", f)
			}
			for _, ticks := range []uint32{0, 1} {
				now += ticks
				if got := sends(own); got != 0 {
					t.Errorf("%d ticks after the other one's, it is stamped %#x", ticks, got)
				}
				if f, learned := arrives(); learned {
					t.Errorf("%d ticks after the other one's: learned %+v", ticks, f)
				}
			}
			now += 2
			if got := sends(own); got != stampOn(5) {
				t.Errorf("when the other one is silent, it is stamped %#x", got)
			}
			if f, learned := arrives(); !learned || f.Peer != peerNumber || f.SeenIn != 5 {
				t.Errorf("when the other one is silent: learned %v, %+v", learned, f)
			}
		})
	}
}

// putStranger makes another peer, and gives a packet of the flow as that one sends it.
func (r *rig) putStranger(t *testing.T, kind string) *packet {
	t.Helper()
	outer := bpf.Outer{From: r.wireMAC, To: farMAC, Local: localVTEP, Remote: localVTEP.Next().Next(), TTL: 64, Port: port, VNI: vni, InnerFrom: tunnelMAC, InnerTo: strangerMAC}
	peer, hop := bpf.RoutedPeer(9, uint32(r.wire), 1500, r.wireMAC, strangerMAC), []byte(strangerMAC)
	p := r.received(kind)
	p.eth.SrcMAC, p.outerIP.SrcIP = strangerMAC, outer.Remote.AsSlice()
	switch kind {
	case bpf.VXLAN:
		peer = bpf.VXLANPeer(9, uint32(r.wire), 1450, outer)
	case bpf.Geneve:
		peer = bpf.GenevePeer(9, uint32(r.wire), 1450, outer)
	case bpf.IPIP:
		peer, hop = bpf.IPIPPeer(9, uint32(r.wire), 1480, outer), outer.Remote.AsSlice()
	}
	check(t, r.objs.PutPeer(peerNumber+1, peer))
	check(t, r.objs.Hops.Put(bpf.NewHopKey(r.wire, hop), bpf.Hop{Peer: peerNumber + 1, Tenant: r.key.TenantProto >> 8}))
	return p
}

var strangerMAC = mac("02:00:00:00:00:09")
