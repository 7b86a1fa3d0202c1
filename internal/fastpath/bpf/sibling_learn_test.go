package bpf_test

import (
	"net/netip"
	"testing"

	"github.com/gopacket/gopacket/layers"

	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/testenv"
)

// What a packet teaches that the network hands to a pod, and that a sibling has sent: its entry, and
// the one of the other way, or nothing. A packet of the kernel's test has no ingress device, nor an
// entry of conntrack: its flow is not tracked, and bridges are tried in namespaces alone.
var siblingLearnRows = []struct {
	name    string
	change  func(b *siblingRig, p frameParts)
	learned func(there, back *bpf.Flow) // what is new in the entries; nil: there is none
}{
	{"of no entry yet", func(b *siblingRig, _ frameParts) { b.noEntries() }, func(f, _ *bpf.Flow) { f.SeenOut, f.SeenIn, f.Epoch = 5, 0, 0 }},
	{"the other way was not seen", func(b *siblingRig, _ frameParts) { b.forgets() }, func(f, _ *bpf.Flow) { f.SeenOut = 5 }},
	{"the other way was seen", func(b *siblingRig, _ frameParts) { b.forgets(); b.reverseFlow.SeenOut = 5 }, func(f, back *bpf.Flow) {
		f.SeenOut, f.SeenIn, f.Epoch = 5, 5, 5
		back.SeenIn, back.Epoch = 5, 5
	}},
	{"the other way was seen under other rules", func(b *siblingRig, _ frameParts) { b.forgets(); b.reverseFlow.SeenOut = 4 }, func(f, _ *bpf.Flow) { f.SeenOut = 5 }},
	{"the other way was to another pod", func(b *siblingRig, _ frameParts) { b.forgets(); b.reverseFlow.SeenOut = 5; b.reverseFlow.Peer++ }, func(f, _ *bpf.Flow) { f.SeenOut = 5 }},
	{"the other way was of another state of the pod", func(b *siblingRig, _ frameParts) { b.forgets(); b.reverseFlow.SeenOut = 5; b.reverseFlow.PodEpoch++ }, func(f, _ *bpf.Flow) { f.SeenOut = 5 }},
	{"it went to a peer before", func(b *siblingRig, _ frameParts) {
		b.forgets()
		b.flow.Peer, b.flow.PeerEpoch, b.flow.SeenIn = peerNumber, 5, 5
	}, func(f, _ *bpf.Flow) {
		f.SeenOut, f.SeenIn, f.Peer, f.PeerEpoch = 5, 0, bpf.Sibling, 16
	}},
	{"invalid", func(b *siblingRig, _ frameParts) { b.forgets(); b.flow.CtEntry, b.tracking.Routed = 9, true }, nil},
	{"bridges alone track", func(b *siblingRig, _ frameParts) { b.forgets(); b.tracking.Bridged = true }, func(f, _ *bpf.Flow) { f.SeenOut = 5 }},
	{"not stamped", func(b *siblingRig, _ frameParts) { b.forgets(); b.epoch = 6 }, nil},
	{"from another device", func(b *siblingRig, _ frameParts) { b.forgets(); b.podEntry.IngressIfindex = 99 }, nil},
	{"from a MAC that is not the gateway's", func(b *siblingRig, p frameParts) { b.forgets(); p.eth.SrcMAC = farMAC }, nil},
	{"to another MAC", func(b *siblingRig, p frameParts) { b.forgets(); p.eth.DstMAC = farMAC }, nil},
	{"its pod may not", func(b *siblingRig, _ frameParts) { b.forgets(); b.podEntry.Sibling = 0 }, nil},
	{"the other pod may not", func(b *siblingRig, _ frameParts) { b.forgets(); b.sibling.Sibling = 0 }, nil},
	{"ends a connection", func(b *siblingRig, p frameParts) { b.forgets(); p.tcp.FIN = true }, nil},
	{"for another address", func(b *siblingRig, p frameParts) { b.forgets(); p.dst[len(p.dst)-1] = 9 }, nil},
}

// forgets leaves entries of which nothing was seen.
func (b *siblingRig) forgets() {
	for _, f := range []*bpf.Flow{&b.flow, &b.reverseFlow} {
		f.Epoch, f.SeenOut, f.SeenIn, f.Used = 0, 0, 0, 1
	}
	b.epoch = 5
}

func (b *siblingRig) noEntries() {
	b.forgets()
	b.key.LocalPort++ // those are another flow's
}

func TestLearnsSibling(t *testing.T) {
	testenv.Root(t)
	onCore(t, 0)
	for _, l := range []delivery{deliveries[0], deliveries6[0]} {
		for _, c := range siblingLearnRows {
			t.Run(l.name+", "+c.name, func(t *testing.T) {
				b := newSiblingRig(t, bpf.Routed, layers.IPProtocolTCP, l)
				b.podEntry.IngressIfindex = 0 // as the packets of a test
				b.flow.Peer = bpf.Sibling | uint32(b.wire)
				p, key := b.handedOn(), b.key
				c.change(b, p.parts())
				b.put(t)
				for range 8 { // by which it is known to send such packets
					b.run(t, b.objs.FromPod, b.pod, b.podFrame().bytes(t))
				}
				b.run(t, stamped(t, b.objs.ToPod, 5), b.wire, p.bytes(t))
				there, back := b.flow, b.reverseFlow
				if c.learned != nil {
					if c.learned(&there, &back); there.Peer == bpf.Sibling {
						there.Peer |= uint32(b.wire)
					}
				}
				for k, want := range map[bpf.FlowKey]bpf.Flow{key: there, b.reverse: back} {
					var is bpf.Flow
					if err := b.objs.LookupFlow(k, &is); err != nil || is != want {
						t.Errorf("the entry is %+v (%v), want %+v", is, err, want)
					}
				}
			})
		}
	}
}

// Nothing is learned of what the network hands to a pod as another's if that one has not sent it, or to other ends:
// something that nobody knows of may have translated it.
func TestLearnsNoUnsentSibling(t *testing.T) {
	testenv.Root(t)
	onCore(t, 0)
	for _, l := range []delivery{deliveries[0], deliveries6[0]} {
		for _, sent := range []uint16{0, 1} { // nothing, and to the next port
			b := newSiblingRig(t, bpf.Routed, layers.IPProtocolTCP, l)
			b.podEntry.IngressIfindex = 0 // as the packets of a test
			key, other := b.key, b.podFrame()
			b.noEntries()
			b.put(t)
			other.parts().tcp.DstPort += layers.TCPPort(sent)
			for range 8 * sent {
				b.run(t, b.objs.FromPod, b.pod, other.bytes(t))
			}
			b.run(t, stamped(t, b.objs.ToPod, 5), b.wire, b.handedOn().bytes(t))
			if hasFlow(t, b.objs, key) {
				t.Errorf("%s: with %d packets sent to another port, a flow is learned", l.name, 8*sent)
			}
		}
	}
}

// Nothing is learned of what another address sends, which is taken for that of another pod by its number.
func TestLearnsNoMisnamedSibling(t *testing.T) {
	testenv.Root(t)
	onCore(t, 0)
	for _, misnamed := range []bool{true, false} {
		b := newSiblingRig(t, bpf.Routed, layers.IPProtocolTCP, deliveries6[0])
		b.podEntry.IngressIfindex = 0 // as the packets of a test
		sent, handed := b.podFrame(), b.handedOn()
		key := b.key
		b.noEntries()
		b.put(t)
		if misnamed {
			strange := netip.MustParseAddr("fd00:10:244::99")
			copy(sent.parts().src, strange.AsSlice())
			copy(handed.parts().src, strange.AsSlice())
			check(t, b.objs.Misname(strange, key.Local))
		}
		for range 8 {
			b.run(t, b.objs.FromPod, b.pod, sent.bytes(t))
		}
		b.run(t, stamped(t, b.objs.ToPod, 5), b.wire, handed.bytes(t))
		if learned := hasFlow(t, b.objs, key); learned == misnamed {
			t.Errorf("with the number of another address %v: the flow is learned: %v", misnamed, learned)
		}
	}
}
