package bpf_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/gopacket/gopacket/layers"

	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/testenv"
)

// The pod beside that of a rig, behind the other of its devices.
var (
	besideAddr    = netip.MustParseAddr("8.0.0.3")
	besideMAC     = mac("02:00:00:00:00:0a")
	besideGateway = mac("02:00:00:00:00:0b")
)

// besideBridge is the ifindex by which the host's network receives from both pods, if they are ports of
// a bridge.
const besideBridge = 77

// bridged is BRIDGED of src/state.h.
const bridged = 0x40000000

// led is how the network leads what one pod sends to another: by a router or a bridge, and with
// addresses translated or not.
type led struct {
	name    string
	bridged bool
	nat     nat // local and remote as the pod sees them; what the other gets is in wire
}

var besideEnds = [2]netip.AddrPort{addrPort("8.0.0.2:4000"), addrPort("8.0.0.3:5000")}

var leds = []led{
	{"routed", false, nat{"", besideEnds[0], besideEnds[1], besideEnds[0], besideEnds[1]}},
	{"routed, to a Service", false, nat{"", besideEnds[0], addrPort("10.96.0.10:53"), besideEnds[0], besideEnds[1]}},
	{"routed, masqueraded", false, nat{"", besideEnds[0], addrPort("10.96.0.10:53"), addrPort("10.244.0.1:33333"), besideEnds[1]}},
	{"bridged", true, nat{"", besideEnds[0], besideEnds[1], besideEnds[0], besideEnds[1]}},
	{"bridged, to a Service", true, nat{"", besideEnds[0], addrPort("10.96.0.10:53"), besideEnds[0], besideEnds[1]}},
	{"bridged, of a Service", true, nat{"", besideEnds[0], besideEnds[1], addrPort("10.96.0.10:53"), besideEnds[1]}},
}

// besideRig is a rig with a second pod, to which its flow goes.
type besideRig struct {
	*rig
	led
	reverse     bpf.FlowKey // of what the other pod sends back
	reverseFlow bpf.Flow
	other       bpf.Pod
}

func newBesideRig(t testing.TB, kind string, protocol layers.IPProtocol, l led) *besideRig {
	b := &besideRig{rig: newRig(t, kind, protocol), led: l}
	tenant := b.key.TenantProto >> 8
	b.other = bpf.NewPod(16, tenant, 1400, besideAddr, besideMAC, besideGateway)
	b.other.MacEpoch = b.other.Epoch
	b.podEntry.Beside, b.other.Beside = 1, 1
	b.podEntry.IngressIfindex, b.other.IngressIfindex = uint32(b.pod), uint32(b.wire)
	way := uint32(bpf.Beside)
	if l.bridged {
		b.podEntry.IngressIfindex, b.other.IngressIfindex = besideBridge, besideBridge
		way |= bridged
	}
	b.key = bpf.NewFlowKey(tenant, uint8(protocol), l.nat.local, l.nat.remote)
	b.reverse = bpf.NewFlowKey(tenant, uint8(protocol), l.nat.wireOther, l.nat.wireLocal)
	b.flow = bpf.Flow{Epoch: 1, SeenOut: 1, SeenIn: 1, Pod: uint32(b.pod), PodEpoch: b.podEntry.Epoch, Peer: way | uint32(b.wire), PeerEpoch: b.other.Epoch}
	b.reverseFlow = bpf.Flow{Epoch: 1, SeenOut: 1, SeenIn: 1, Pod: uint32(b.wire), PodEpoch: b.other.Epoch, Peer: way | uint32(b.pod), PeerEpoch: b.podEntry.Epoch}
	if l.nat.local != l.nat.wireLocal || l.nat.remote != l.nat.wireOther {
		setOther(&b.flow, bpf.NewFlowKey(tenant, uint8(protocol), l.nat.wireLocal, l.nat.wireOther))
		setOther(&b.reverseFlow, bpf.NewFlowKey(tenant, uint8(protocol), l.nat.remote, l.nat.local))
	}
	return b
}

// setOther makes a flow one that is translated.
func setOther(f *bpf.Flow, other bpf.FlowKey) {
	f.Translated = 1
	f.Other.Local, f.Other.Remote, f.Other.LocalPort, f.Other.RemotePort = other.Local, other.Remote, other.LocalPort, other.RemotePort
}

func (b *besideRig) put(t testing.TB) {
	t.Helper()
	local := b.key.Local
	b.key.Local = bpf.NewFlowKey(0, 0, addrPort("8.0.0.2:1"), besideEnds[1]).Local // of the pod
	b.rig.put(t)
	b.key.Local = local
	tenant := b.key.TenantProto >> 8
	check(t, b.objs.PutPodAt(bpf.PodKey{Tenant: tenant, Addr: b.other.Addr}, uint32(b.wire)))
	check(t, b.objs.PutPod(uint32(b.wire), b.other))
	check(t, b.objs.Flows.Put(b.key, b.flow))
	check(t, b.objs.Flows.Put(b.reverse, b.reverseFlow))
}

// sent is a packet of the flow as its pod sends it: to its gateway, or by a bridge to the other pod's MAC.
func (b *besideRig) sent() *packet {
	p := b.podPacket().withEnds(b.nat.local, b.nat.remote)
	if b.bridged && b.nat.remote.Addr() == besideAddr {
		p.eth.DstMAC = besideMAC
	}
	return p
}

// handedOn is the same packet as the other pod gets it.
func (b *besideRig) handedOn() *packet {
	p := b.podPacket().withEnds(b.nat.wireLocal, b.nat.wireOther)
	p.eth.SrcMAC, p.eth.DstMAC = podMAC, besideMAC
	if !b.bridged {
		hopped(p, besideGateway, besideMAC)
	}
	return p
}

// From pod to pod, packets get the headers that the network gives them.
func TestCarriesBeside(t *testing.T) {
	protocols(t, func(t *testing.T, protocol layers.IPProtocol) {
		for _, kind := range kinds {
			for _, l := range leds {
				b := newBesideRig(t, kind, protocol, l)
				b.put(t)
				for i := range 50 { // sums of many values
					payload := binary.BigEndian.AppendUint16([]byte("payload of many values: "), uint16(i*1311))
					p, want := b.sent(), b.handedOn()
					p.payload, want.payload = payload, payload
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

// What a pod sends to a pod beside is slow for these reasons, and is as it was.
func TestSlowBeside(t *testing.T) {
	testenv.Root(t)
	onCore(t, 0)
	for _, c := range []struct {
		name   string
		change func(b *besideRig, p *packet)
		slow   bpf.Count
	}{
		{"rules changed", func(b *besideRig, _ *packet) { b.epoch = 2 }, bpf.SlowStale},
		{"the other pod changed", func(b *besideRig, _ *packet) { b.other.Epoch++ }, bpf.SlowStale},
		{"the other pod is gone", func(b *besideRig, _ *packet) { b.flow.Peer |= 0xf000 }, bpf.SlowStale},
		{"its pod changed", func(b *besideRig, _ *packet) { b.podEntry.Epoch++; b.podEntry.MacEpoch++ }, bpf.SlowStale},
		{"not carried yet", func(b *besideRig, _ *packet) { b.flow.Epoch, b.flow.SeenIn = 0, 0 }, bpf.SlowUnproven},
		{"seen the other way only", func(b *besideRig, _ *packet) { b.flow.SeenOut = 0 }, bpf.SlowUnproven},
		{"the other pod uses another MAC", func(b *besideRig, _ *packet) { b.other.MacEpoch = 0 }, bpf.SlowUnproven},
		{"too large for the other pod", func(_ *besideRig, p *packet) { p.payload = make([]byte, 1400) }, bpf.SlowSize},
		{"to another MAC", func(_ *besideRig, p *packet) { p.eth.DstMAC = farMAC }, bpf.SlowSource},
		{"from another MAC", func(_ *besideRig, p *packet) { p.eth.SrcMAC = farMAC }, bpf.SlowSource},
		{"from another address", func(_ *besideRig, p *packet) { p.ip.SrcIP = net.IP{8, 0, 0, 9} }, bpf.SlowSource},
		{"another port", func(_ *besideRig, p *packet) { p.tcp.SrcPort++ }, bpf.SlowUnknown},
		{"its TTL ends here", func(_ *besideRig, p *packet) { p.ip.TTL = 1 }, bpf.SlowTTL},
	} {
		for _, l := range leds {
			t.Run(c.name+", "+l.name, func(t *testing.T) {
				b := newBesideRig(t, bpf.Routed, layers.IPProtocolTCP, l)
				p := b.sent()
				c.change(b, p)
				b.put(t)
				b.expect(t, b.objs.FromPod, b.pod, p, c.slow)
			})
		}
	}
}

// A pod that sends to another MAC than it did before sends another flow: it is learned anew. So it is with
// a frame to the MAC of a pod that is no port of the same bridge.
func TestBesideToAnotherMAC(t *testing.T) {
	testenv.Root(t)
	onCore(t, 0)
	for _, l := range []led{leds[0], leds[3]} {
		b := newBesideRig(t, bpf.Routed, layers.IPProtocolUDP, l)
		b.podEntry.IngressIfindex, b.other.IngressIfindex = besideBridge, besideBridge
		b.put(t)
		b.expect(t, b.objs.FromPod, b.pod, b.sent(), bpf.Counts)
		p := b.sent()
		if p.eth.DstMAC = besideMAC; l.bridged {
			p.eth.DstMAC = gatewayMAC
		}
		b.expect(t, b.objs.FromPod, b.pod, p, bpf.SlowSource)
		for _, k := range []bpf.FlowKey{b.key, b.reverse} {
			if hasFlow(t, b.objs, k) {
				t.Errorf("%s: an entry is left", l.name)
			}
		}
		check(t, b.objs.Flows.Put(b.key, b.flow))
		b.expect(t, b.objs.FromPod, b.pod, p, bpf.SlowSource) // without a slot
		b.expect(t, b.objs.FromPod, b.pod, p, bpf.SlowUnknown)
		b.other.IngressIfindex++
		check(t, b.objs.PutPod(uint32(b.wire), b.other))
		p.eth.DstMAC = besideMAC
		b.expect(t, b.objs.FromPod, b.pod, p, bpf.SlowSource)
	}
}

func hasFlow(t *testing.T, objs *bpf.Objects, k bpf.FlowKey) bool {
	t.Helper()
	var f bpf.Flow
	err := objs.Flows.Lookup(k, &f)
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		t.Fatal(err)
	}
	return err == nil
}

// The end of a connection ends it both ways. What comes by the wire between the same ends is none of it.
func TestBesideEnds(t *testing.T) {
	testenv.Root(t)
	onCore(t, 0)
	for _, l := range leds {
		b := newBesideRig(t, bpf.Routed, layers.IPProtocolTCP, l)
		b.put(t)
		fromWire := b.received(bpf.Routed).withEnds(l.nat.wireLocal, l.nat.wireOther)
		why := bpf.SlowUnproven
		if b.flow.Translated == 1 {
			why = bpf.SlowUnknown
		}
		b.expect(t, b.objs.FromWire, b.wire, fromWire, bpf.PerDirection+why)
		b.expect(t, b.objs.FromPod, b.pod, b.sent(), bpf.Counts)
		p := b.sent()
		p.tcp.FIN = true
		b.expect(t, b.objs.FromPod, b.pod, p, bpf.SlowFlags)
		for _, k := range []bpf.FlowKey{b.key, b.reverse} {
			if hasFlow(t, b.objs, k) {
				t.Errorf("%s: an entry is left", l.name)
			}
		}
		b.expect(t, b.objs.FromPod, b.pod, b.sent(), bpf.SlowUnknown)
	}
}
