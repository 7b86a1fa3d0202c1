package bpf_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/netip"
	"slices"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/gopacket/gopacket/layers"

	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/testenv"
)

// the sibling of the pod of a rig, behind the other of its devices.
var (
	siblingAddr    = netip.MustParseAddr("8.0.0.3")
	siblingMAC     = mac("02:00:00:00:00:0a")
	siblingGateway = mac("02:00:00:00:00:0b")
)

// siblingBridge is the ifindex by which the host's network receives from both pods, if they are ports of
// a bridge.
const siblingBridge = 77

// bridged is BRIDGED of src/state.h.
const bridged = 0x40000000

// delivery is how the network leads what one pod sends to another: by a router or a bridge, and with
// addresses translated or not.
type delivery struct {
	name    string
	bridged bool
	nat     nat // local and remote as the pod sees them; what the other gets is in wire
}

var siblingEnds = [2]netip.AddrPort{addrPort("8.0.0.2:4000"), addrPort("8.0.0.3:5000")}

var deliveries = []delivery{
	{"routed", false, nat{"", siblingEnds[0], siblingEnds[1], siblingEnds[0], siblingEnds[1]}},
	{"routed, to a Service", false, nat{"", siblingEnds[0], addrPort("10.96.0.10:53"), siblingEnds[0], siblingEnds[1]}},
	{"routed, masqueraded", false, nat{"", siblingEnds[0], addrPort("10.96.0.10:53"), addrPort("10.244.0.1:33333"), siblingEnds[1]}},
	{"bridged", true, nat{"", siblingEnds[0], siblingEnds[1], siblingEnds[0], siblingEnds[1]}},
	{"bridged, to a Service", true, nat{"", siblingEnds[0], addrPort("10.96.0.10:53"), siblingEnds[0], siblingEnds[1]}},
	{"bridged, of a Service", true, nat{"", siblingEnds[0], siblingEnds[1], addrPort("10.96.0.10:53"), siblingEnds[1]}},
}

// deliveriesOf are those that there are of a kind of fast path.
func deliveriesOf(kind string) []delivery {
	if kind == bpf.Routed6 {
		return deliveries6
	}
	return deliveries
}

// From pod to pod, packets get the headers that the network gives them.
func TestCarriesSibling(t *testing.T) {
	protocols(t, func(t *testing.T, protocol layers.IPProtocol) {
		for _, kind := range append(slices.Clone(kinds), bpf.Routed6) {
			for _, l := range deliveriesOf(kind) {
				b := newSiblingRig(t, kind, protocol, l)
				b.put(t)
				for i := range 50 { // sums of many values
					payload := binary.BigEndian.AppendUint16([]byte("payload of many values: "), uint16(i*1311))
					p, want := b.podFrame(), b.handedOn()
					*p.parts().payload, *want.parts().payload = payload, payload
					verdict, out := b.run(t, b.objs.FromPod, b.pod, p.bytes(t))
					if verdict != redirect || !bytes.Equal(out, want.bytes(t)) {
						t.Fatalf("%s, %s: verdict %d, counted %v, out comes\n% x, want\n% x", kind, l.name, int32(verdict), b.counted(t), out, want.bytes(t))
					}
				}
				if got := b.counted(t); got[bpf.CarriedOut] != 50 || len(got) != 1 {
					t.Errorf("%s, %s: counted %v", kind, l.name, got)
				}
			}
		}
	})
}

// What a pod sends to a sibling is slow for these reasons, and is as it was.
func TestSlowSibling(t *testing.T) {
	testenv.Root(t)
	onCore(t, 0)
	for _, c := range []struct {
		name   string
		change func(b *siblingRig, p frameParts)
		slow   bpf.Count
	}{
		{"rules changed", func(b *siblingRig, _ frameParts) { b.epoch = 2 }, bpf.SlowStale},
		{"the other pod changed", func(b *siblingRig, _ frameParts) { b.sibling.Epoch++ }, bpf.SlowStale},
		{"the other pod is gone", func(b *siblingRig, _ frameParts) { b.flow.Peer |= 0xf000 }, bpf.SlowStale},
		{"its pod changed", func(b *siblingRig, _ frameParts) { b.podEntry.Epoch++; b.podEntry.MacEpoch++ }, bpf.SlowStale},
		{"not carried yet", func(b *siblingRig, _ frameParts) { b.flow.Epoch, b.flow.SeenIn = 0, 0 }, bpf.SlowUnproven},
		{"seen the other way only", func(b *siblingRig, _ frameParts) { b.flow.SeenOut = 0 }, bpf.SlowUnproven},
		{"the other pod uses another MAC", func(b *siblingRig, _ frameParts) { b.sibling.MacEpoch = 0 }, bpf.SlowUnproven},
		{"too large for the other pod", func(_ *siblingRig, p frameParts) { *p.payload = make([]byte, 1400) }, bpf.SlowSize},
		{"to another MAC", func(_ *siblingRig, p frameParts) { p.eth.DstMAC = farMAC }, bpf.SlowSource},
		{"from another MAC", func(_ *siblingRig, p frameParts) { p.eth.SrcMAC = farMAC }, bpf.SlowSource},
		{"from another address", func(_ *siblingRig, p frameParts) { p.src[len(p.src)-1] = 9 }, bpf.SlowSource},
		{"another port", func(_ *siblingRig, p frameParts) { p.tcp.SrcPort++ }, bpf.SlowUnknown},
		{"its TTL ends here", func(_ *siblingRig, p frameParts) { *p.hops = 1 }, bpf.SlowTTL},
	} {
		for _, l := range slices.Concat(deliveries, deliveries6) {
			t.Run(c.name+", "+l.name, func(t *testing.T) {
				b := newSiblingRig(t, bpf.Routed, layers.IPProtocolTCP, l)
				p := b.podFrame()
				c.change(b, p.parts())
				b.put(t)
				b.expect(t, b.objs.FromPod, b.pod, p, c.slow)
			})
		}
	}
}

// A pod that sends to another MAC than it did before sends another flow: it is learned anew. So it is with
// a frame to the MAC of a pod that is no port of the same bridge.
func TestSiblingToAnotherMAC(t *testing.T) {
	testenv.Root(t)
	onCore(t, 0)
	for _, l := range []delivery{deliveries[0], deliveries[3], deliveries6[0], deliveries6[1]} {
		b := newSiblingRig(t, bpf.Routed, layers.IPProtocolUDP, l)
		b.podEntry.IngressIfindex, b.sibling.IngressIfindex = siblingBridge, siblingBridge
		b.put(t)
		b.expect(t, b.objs.FromPod, b.pod, b.podFrame(), bpf.Counts)
		p := b.podFrame()
		if p.parts().eth.DstMAC = siblingMAC; l.bridged {
			p.parts().eth.DstMAC = gatewayMAC
		}
		b.expect(t, b.objs.FromPod, b.pod, p, bpf.SlowSource)
		for _, k := range []bpf.FlowKey{b.key, b.reverse} {
			if hasFlow(t, b.objs, k) {
				t.Errorf("%s: an entry is left", l.name)
			}
		}
		check(t, b.objs.PutFlow(b.key, b.flow))
		b.expect(t, b.objs.FromPod, b.pod, p, bpf.SlowSource) // without a slot
		b.expect(t, b.objs.FromPod, b.pod, p, bpf.SlowUnknown)
		b.sibling.IngressIfindex++
		check(t, b.objs.PutPod(uint32(b.wire), b.sibling))
		p.parts().eth.DstMAC = siblingMAC
		b.expect(t, b.objs.FromPod, b.pod, p, bpf.SlowSource)
	}
}

func hasFlow(t *testing.T, objs *bpf.Objects, k bpf.FlowKey) bool {
	t.Helper()
	var f bpf.Flow
	err := objs.LookupFlow(k, &f)
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		t.Fatal(err)
	}
	return err == nil
}

// The end of a connection ends it both ways. What comes by the wire between the same ends is none of it.
func TestSiblingEnds(t *testing.T) {
	testenv.Root(t)
	onCore(t, 0)
	for _, l := range slices.Concat(deliveries, deliveries6) {
		b := newSiblingRig(t, bpf.Routed, layers.IPProtocolTCP, l)
		b.put(t)
		fromWire := b.packetOf(l.nat.wireLocal, l.nat.wireOther)
		fromWire.parts().eth.SrcMAC, fromWire.parts().eth.DstMAC = farMAC, b.wireMAC
		why := bpf.SlowUnproven
		if b.flow.Translated == 1 {
			why = bpf.SlowUnknown
		}
		b.expect(t, b.objs.FromWire, b.wire, fromWire, bpf.PerDirection+why)
		b.expect(t, b.objs.FromPod, b.pod, b.podFrame(), bpf.Counts)
		p := b.podFrame()
		p.parts().tcp.FIN = true
		b.expect(t, b.objs.FromPod, b.pod, p, bpf.SlowFlags)
		for _, k := range []bpf.FlowKey{b.key, b.reverse} {
			if hasFlow(t, b.objs, k) {
				t.Errorf("%s: an entry is left", l.name)
			}
		}
		b.expect(t, b.objs.FromPod, b.pod, b.podFrame(), bpf.SlowUnknown)
	}
}
