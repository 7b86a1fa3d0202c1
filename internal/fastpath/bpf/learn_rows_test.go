package bpf_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/gopacket/gopacket/layers"

	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/testenv"
)

// learning is a rig whose flow the network hands on: to the peer behind a hop, or to
// the pod.
type learning struct {
	*rig
	hop      bpf.HopKey
	nextHop  bpf.Hop
	stamp    uint32 // that the packet has; 0: none
	hasEntry bool   // the flow has an entry, which is rig's
	podAt    bool   // the pod's address is known
	// stranger: what comes in by the wire is from another machine than the peer's.
	stranger bool
}

func newLearning(t *testing.T, kind string, protocol layers.IPProtocol) *learning {
	r := newRig(t, kind, protocol)
	r.epoch = 5
	r.flow = bpf.Flow{Pod: uint32(r.pod), PodEpoch: r.podEntry.Epoch, Peer: peerNumber, PeerEpoch: r.peer.Epoch, Used: 1}
	l := &learning{rig: r, hop: r.hopKey(kind), nextHop: bpf.Hop{Peer: peerNumber}, stamp: r.epoch, podAt: true}
	if kind == bpf.VXLAN {
		l.nextHop.Tenant = vni
	}
	if inUDP(kind) {
		r.flow.Port = wirePort(forwardedPort)
	}
	return l
}

// wirePort is a port as an entry has it.
func wirePort(port uint16) uint16 {
	return binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, port))
}

// entry is what the table says of the flow; nil: nothing.
func (l *learning) entry(t *testing.T) *bpf.Flow {
	t.Helper()
	var f bpf.Flow
	if err := l.objs.LookupFlow(l.key, &f); errors.Is(err, ebpf.ErrKeyNotExist) {
		return nil
	} else if err != nil {
		t.Fatal(err)
	}
	return &f
}

const eitherKind, outWay, inWay = "", "out", "in"

// What a packet teaches that the network hands on to a peer (out) or to a pod (in), of
// a flow that is stamped with an epoch: the entry of its flow, or nothing. A packet
// of the kernel's test has no entry of conntrack: its flow is not tracked, or it is invalid.
var learnRows = []struct {
	name    string
	kind    string // of those kinds, or of either
	way     string
	change  func(l *learning, p *packet)
	learned func(f *bpf.Flow) // what is new in the entry; nil: it is as before
}{
	{"unknown flow", eitherKind, outWay, nil, func(f *bpf.Flow) { f.SeenOut = 5 }},
	{"unknown flow in", eitherKind, inWay, nil, func(f *bpf.Flow) { f.SeenIn, f.Port = 5, 0 }},
	{"no reply was seen", eitherKind, outWay, func(l *learning, _ *packet) { l.hasEntry = true }, func(f *bpf.Flow) { f.SeenOut = 5 }},
	{"a reply was seen", eitherKind, outWay, func(l *learning, _ *packet) { l.hasEntry, l.flow.SeenIn = true, 5 }, func(f *bpf.Flow) { f.SeenOut, f.Epoch = 5, 5 }},
	{"a reply was seen under other rules", eitherKind, outWay, func(l *learning, _ *packet) { l.hasEntry, l.flow.SeenIn = true, 4 }, func(f *bpf.Flow) { f.SeenOut = 5 }},
	{"the other way was seen", eitherKind, inWay, func(l *learning, _ *packet) { l.hasEntry, l.flow.SeenOut = true, 5 }, func(f *bpf.Flow) { f.SeenIn, f.Epoch = 5, 5 }},
	{"the other way was not seen", eitherKind, inWay, func(l *learning, _ *packet) { l.hasEntry = true }, func(f *bpf.Flow) { f.SeenIn = 5 }},
	{"the other way was seen under other rules", eitherKind, inWay, func(l *learning, _ *packet) { l.hasEntry, l.flow.SeenOut, l.flow.Epoch = true, 4, 4 }, func(f *bpf.Flow) { f.SeenIn = 5 }},
	{"carried under other rules", eitherKind, outWay, func(l *learning, _ *packet) { l.hasEntry, l.flow.SeenOut, l.flow.SeenIn, l.flow.Epoch = true, 4, 4, 4 },
		func(f *bpf.Flow) { f.SeenOut, f.Epoch = 5, 0 }},

	{"not stamped", eitherKind, outWay, func(l *learning, _ *packet) { l.stamp = 0 }, nil},
	{"not stamped, in", eitherKind, inWay, func(l *learning, _ *packet) { l.hasEntry, l.stamp = true, 0 }, nil},
	{"set out under other rules", eitherKind, outWay, func(l *learning, _ *packet) { l.stamp-- }, nil},
	{"set out under other rules, in", eitherKind, inWay, func(l *learning, _ *packet) { l.hasEntry = true; l.stamp-- }, nil},
	{"stamped by another fast path", eitherKind, outWay, func(l *learning, _ *packet) { l.stamp |= 1 << 11 }, nil},
	{"stamped by another fast path, in", eitherKind, inWay, func(l *learning, _ *packet) { l.hasEntry = true; l.stamp |= 1 << 11 }, nil},

	{"invalid", eitherKind, outWay, func(l *learning, _ *packet) { l.tracking.Routed = true }, nil},
	{"invalid, in", eitherKind, inWay, func(l *learning, _ *packet) { l.tracking.Routed = true }, nil},
	{"invalid, of a flow that was answered", eitherKind, outWay, func(l *learning, _ *packet) {
		l.hasEntry, l.flow.SeenIn, l.flow.CtEntry, l.tracking.Routed = true, 5, 9, true
	}, nil},
	{"invalid, of a flow that was not answered", eitherKind, outWay, func(l *learning, _ *packet) { l.hasEntry, l.flow.Unreplied, l.tracking.Routed = true, 1, true }, nil},
	{"invalid, of a flow that was not answered, in", eitherKind, inWay, func(l *learning, _ *packet) {
		l.hasEntry, l.flow.SeenOut, l.flow.Unreplied, l.tracking.Routed = true, 5, 1, true
	}, nil},
	{"bridges alone track", eitherKind, outWay, func(l *learning, _ *packet) { l.tracking.Bridged = true }, func(f *bpf.Flow) { f.SeenOut = 5 }},
	{"bridges alone track, in", eitherKind, inWay, func(l *learning, _ *packet) { l.tracking.Bridged = true }, func(f *bpf.Flow) { f.SeenIn, f.Port = 5, 0 }},

	{"to another machine", eitherKind, outWay, func(l *learning, _ *packet) { l.hop.Mac[5]++ }, nil},
	{"by another device", eitherKind, outWay, func(l *learning, _ *packet) { l.hop.Ifindex++ }, nil},
	{"hop of another tenant", eitherKind, outWay, func(l *learning, _ *packet) { l.nextHop.Tenant++ }, nil},
	{"VNI of another tenant", inUDPKinds, outWay, func(_ *learning, p *packet) { p.vxlan.VNI++ }, nil},
	{"no such peer", eitherKind, outWay, func(l *learning, _ *packet) { l.nextHop.Peer = 1 << 20 }, nil},
	{"peer whose number is another's by now", "routed", outWay, func(l *learning, _ *packet) {
		l.peer = bpf.RoutedPeer(5, uint32(l.wire), 1500, l.wireMAC, gatewayMAC)
	}, nil},
	{"peer that is not known any more", eitherKind, outWay, func(l *learning, _ *packet) { l.peer.Epoch = 0 }, nil},
	{"by another peer than before", eitherKind, outWay, func(l *learning, _ *packet) {
		l.hasEntry, l.flow.SeenIn, l.flow.Peer, l.flow.PeerEpoch = true, 5, peerNumber+1, 99
	}, func(f *bpf.Flow) { f.SeenOut, f.SeenIn, f.Peer, f.PeerEpoch = 5, 0, peerNumber, 5 }},
	{"from another peer than before", eitherKind, inWay, func(l *learning, _ *packet) {
		l.hasEntry, l.flow.SeenOut, l.flow.Peer, l.flow.PeerEpoch = true, 4, peerNumber+1, 99
	}, func(f *bpf.Flow) { f.SeenOut, f.SeenIn, f.Peer, f.PeerEpoch = 0, 5, peerNumber, 5 }},
	{"from another peer than it goes to", eitherKind, inWay, func(l *learning, _ *packet) {
		l.hasEntry, l.flow.SeenOut, l.flow.Peer, l.flow.PeerEpoch = true, 5, peerNumber+1, 99
	}, nil},
	{"from no peer", eitherKind, inWay, func(l *learning, _ *packet) { l.hasEntry, l.hop.Mac[5] = true, 9 }, nil},
	{"from another machine than the peer", inUDPKinds, inWay, func(l *learning, _ *packet) { l.hasEntry, l.stranger = true, true }, nil},
	{"through something else", eitherKind, outWay, func(l *learning, _ *packet) { l.hasEntry, l.podEntry.IngressIfindex = true, 99 }, nil},
	{"through something else, in", eitherKind, inWay, func(l *learning, _ *packet) { l.hasEntry, l.peer.IngressIfindex = true, 99 }, nil},
	{"peer changed", eitherKind, outWay, func(l *learning, _ *packet) { l.hasEntry = true; l.peer.Epoch = 77 }, func(f *bpf.Flow) { f.SeenOut, f.PeerEpoch = 5, 77 }},

	{"of no pod", eitherKind, outWay, func(l *learning, _ *packet) { l.podAt = false }, nil},
	{"pod that is not known any more", eitherKind, outWay, func(l *learning, _ *packet) { l.podEntry.Epoch = 0 }, nil},
	{"pod that is not known any more, in", eitherKind, inWay, func(l *learning, _ *packet) { l.hasEntry, l.podEntry.Epoch = true, 0 }, nil},
	{"pod changed", eitherKind, outWay, func(l *learning, _ *packet) { l.hasEntry = true; l.podEntry.Epoch = 66 }, func(f *bpf.Flow) { f.SeenOut, f.PodEpoch = 5, 66 }},
	{"on its way through a pod", eitherKind, inWay, func(l *learning, _ *packet) { l.hasEntry = true; l.podEntry.Addr++ }, nil},
	{"the pod at its device is another", eitherKind, outWay, func(l *learning, _ *packet) { l.hasEntry = true; l.podEntry.Addr++ }, nil},
	{"pod changed, in", eitherKind, inWay, func(l *learning, _ *packet) { l.hasEntry, l.flow.SeenOut, l.podEntry.Epoch = true, 5, 66 },
		func(f *bpf.Flow) { f.SeenOut, f.SeenIn, f.PodEpoch = 0, 5, 66 }},
	{"the network has another MAC for the pod by now", eitherKind, inWay, func(l *learning, p *packet) { l.hasEntry, p.eth.DstMAC = true, gatewayMAC }, nil},
	{"pod of another tenant", eitherKind, inWay, func(l *learning, _ *packet) { l.hasEntry = true; l.podEntry.Tenant++ }, nil},

	{"other source around", inUDPKinds, outWay, func(_ *learning, p *packet) { p.outerIP.SrcIP = []byte{192, 168, 0, 9} }, nil},
	{"other destination around", inUDPKinds, outWay, func(_ *learning, p *packet) { p.outerIP.DstIP = []byte{192, 168, 0, 9} }, nil},
	{"other TTL around", inUDPKinds, outWay, func(_ *learning, p *packet) { p.outerIP.TTL-- }, nil},
	{"other DSCP around", inUDPKinds, outWay, func(_ *learning, p *packet) { p.outerIP.TOS = 4 }, nil},
	{"must not be cut", inUDPKinds, outWay, func(_ *learning, p *packet) { p.outerIP.Flags = layers.IPv4DontFragment }, nil},
	{"was cut", inUDPKinds, outWay, func(_ *learning, p *packet) { p.outerIP.Flags = layers.IPv4MoreFragments }, nil},
	{"to another MAC on the wire", inUDPKinds, outWay, func(_ *learning, p *packet) { p.outerEth.DstMAC = gatewayMAC }, nil},
	{"from another MAC on the wire", inUDPKinds, outWay, func(_ *learning, p *packet) { p.outerEth.SrcMAC = gatewayMAC }, nil},
	{"from another MAC in the tunnel", inUDPKinds, outWay, func(_ *learning, p *packet) { p.eth.SrcMAC = gatewayMAC }, nil},
	{"for another tunnel", inUDPKinds, outWay, func(_ *learning, p *packet) { p.outerUDP.DstPort++ }, nil},
	{"more is said than the VNI", "vxlan", outWay, func(_ *learning, p *packet) { p.vxlan.GBPExtension = true }, nil},
	{"not even the VNI is said", "vxlan", outWay, func(_ *learning, p *packet) { p.vxlan.ValidIDFlag = false }, nil},
	{"has options", "geneve", outWay, func(_ *learning, p *packet) { p.geneve |= 1 << 24 }, nil},
	{"is critical", "geneve", outWay, func(_ *learning, p *packet) { p.geneve |= 1 << 22 }, nil},
	{"is of another version", "geneve", outWay, func(_ *learning, p *packet) { p.geneve |= 1 << 30 }, nil},
	{"has no Ethernet header", "geneve", outWay, func(_ *learning, p *packet) { p.geneve = 0x0800 }, nil},
	{"number and congestion around are the packet's", inUDPKinds, outWay, func(_ *learning, p *packet) { p.outerIP.Id, p.outerIP.TOS, p.ip.TOS = 77, 2, 2 },
		func(f *bpf.Flow) { f.SeenOut = 5 }},
	{"other source port around", inUDPKinds, outWay, func(l *learning, p *packet) { l.hasEntry, l.flow.SeenIn = true, 5; p.outerUDP.SrcPort = 0x1234 },
		func(f *bpf.Flow) { f.SeenOut, f.Epoch, f.Port = 5, 5, wirePort(0x1234) }},

	{"other source around", "ipip", outWay, func(_ *learning, p *packet) { p.outerIP.SrcIP = []byte{192, 168, 0, 9} }, nil},
	{"other destination around", "ipip", outWay, func(_ *learning, p *packet) { p.outerIP.DstIP = []byte{192, 168, 0, 9} }, nil},
	{"not the packet's TTL around", "ipip", outWay, func(_ *learning, p *packet) { p.outerIP.TTL-- }, nil},
	{"not the packet's DF around", "ipip", outWay, func(_ *learning, p *packet) { p.outerIP.Flags = 0 }, nil},
	{"other DSCP around", "ipip", outWay, func(_ *learning, p *packet) { p.outerIP.TOS = 4 }, nil},
	{"was cut", "ipip", outWay, func(_ *learning, p *packet) { p.outerIP.Flags = layers.IPv4MoreFragments }, nil},
	{"to another MAC on the wire", "ipip", outWay, func(_ *learning, p *packet) { p.outerEth.DstMAC = gatewayMAC }, nil},
	{"from another MAC on the wire", "ipip", outWay, func(_ *learning, p *packet) { p.outerEth.SrcMAC = gatewayMAC }, nil},
	{"of another protocol", "ipip", outWay, func(_ *learning, p *packet) { p.outerIP.Protocol = layers.IPProtocolUDP }, nil},
	{"from another machine than the peer", "ipip", inWay, func(l *learning, _ *packet) { l.hasEntry, l.stranger = true, true }, nil},
	{"TTL, DF, number and congestion around are the packet's", "ipip", outWay, func(_ *learning, p *packet) {
		p.outerIP.Id, p.outerIP.TOS, p.ip.TOS = 77, 2, 2
		p.outerIP.TTL, p.ip.TTL, p.outerIP.Flags, p.ip.Flags = 7, 7, 0, 0
	}, func(f *bpf.Flow) { f.SeenOut = 5 }},
	{"TTL and DF around are the tunnel's", "ipip", outWay, func(l *learning, p *packet) {
		l.peer = bpf.IPIPPeer(5, uint32(l.wire), 1480, bpf.Outer{From: l.wireMAC, To: farMAC, Local: localVTEP, Remote: remoteVTEP, TTL: 9, DontFragment: true})
		p.outerIP.TTL, p.outerIP.Flags, p.ip.Flags = 9, layers.IPv4DontFragment, 0
	}, func(f *bpf.Flow) { f.SeenOut = 5 }},

	{"opens a connection", eitherKind, outWay, func(_ *learning, p *packet) { p.tcp.SYN = true }, nil},
	{"ends one", eitherKind, outWay, func(_ *learning, p *packet) { p.tcp.FIN = true }, nil},
	{"resets one", eitherKind, inWay, func(l *learning, p *packet) { l.hasEntry = true; p.tcp.RST = true }, nil},
	{"is of none", eitherKind, inWay, func(l *learning, p *packet) { l.hasEntry = true; p.tcp.ACK = false }, nil},
	{"a fragment", eitherKind, outWay, func(_ *learning, p *packet) { p.ip.Flags = layers.IPv4MoreFragments }, nil},
	{"a fragment in", eitherKind, inWay, func(l *learning, p *packet) { l.hasEntry = true; p.ip.Flags = layers.IPv4MoreFragments }, nil},
	{"options", eitherKind, outWay, func(_ *learning, p *packet) { p.ip.Options = []layers.IPv4Option{{OptionType: 1}} }, nil},
	{"another protocol", eitherKind, inWay, func(l *learning, p *packet) { l.hasEntry = true; p.ip.Protocol = layers.IPProtocolSCTP }, nil},
	{"not IPv4", inUDPKinds, outWay, func(_ *learning, p *packet) { p.eth.EthernetType = layers.EthernetTypeIPv6 }, nil},
	{"not IPv4", "routed", outWay, func(_ *learning, p *packet) { p.eth.EthernetType = layers.EthernetTypeIPv6 }, nil},
	{"not IPv4, in", eitherKind, inWay, func(l *learning, p *packet) { l.hasEntry = true; p.eth.EthernetType = layers.EthernetTypeIPv6 }, nil},
	{"another flow", eitherKind, inWay, func(l *learning, p *packet) { l.hasEntry = true; p.tcp.SrcPort++ }, nil},
}

func TestLearns(t *testing.T) {
	testenv.Root(t)
	for _, c := range learnRows {
		for _, kind := range kinds {
			if c.kind != eitherKind && !slices.Contains(strings.Fields(c.kind), kind) {
				continue
			}
			t.Run(kind+", "+c.name, func(t *testing.T) {
				l := newLearning(t, kind, layers.IPProtocolTCP)
				p, program, device := l.forwarded(kind), l.objs.ToPeer, l.wire
				if c.way == inWay {
					p, program, device = hopped(l.received("routed"), gatewayMAC, podMAC), l.objs.ToPod, l.pod
				}
				if c.change != nil {
					c.change(l, p)
				}
				before := l.write(t)
				packet := p.bytes(t)
				stamp := l.stamp
				if c.way == inWay {
					l.arrive(t, kind)
				} else if kind != bpf.Routed {
					stamp = l.enterTunnel(t, kind, p)
				}
				if stamp != 0 {
					program = stamped(t, program, stamp)
				}
				counted := l.counted(t)
				if verdict, left := l.run(t, program, device, packet); verdict != next || !bytes.Equal(left, packet) {
					t.Errorf("verdict %d, want %d; the packet leaves as\n% x, came as\n% x", int32(verdict), -1, left, packet)
				}
				want := before
				if c.learned != nil {
					f := l.flow
					c.learned(&f)
					want = &f
				}
				switch got := l.entry(t); {
				case want == nil && got != nil && got.Epoch|got.SeenOut|got.SeenIn == 0: // it begins to be learned, no more
				case (got == nil) != (want == nil):
					t.Errorf("the entry is %+v, want %+v", got, want)
				case got != nil && *got != *want:
					t.Errorf("the entry is %+v, want %+v", *got, *want)
				}
				if got := l.counted(t); !maps.Equal(got, counted) {
					t.Errorf("counted %v: where it set out, it was", got)
				}
			})
		}
	}
}

// write writes the tables, and gives the entry that the flow has.
func (l *learning) write(t *testing.T) *bpf.Flow {
	t.Helper()
	l.put(t)
	check(t, l.objs.Hops.Put(l.hop, l.nextHop))
	if !l.podAt {
		check(t, l.objs.PodAt.Delete(bpf.PodKey{Tenant: l.key.TenantProto >> 8, Addr: l.key.Local}))
	}
	if !l.hasEntry {
		check(t, l.objs.Flows.Delete(l.key))
	}
	return l.entry(t)
}

// arrive lets packets of the flow come by the wire, until one is stamped.
func (l *learning) arrive(t *testing.T, kind string) {
	t.Helper()
	p := l.received(kind)
	if l.stranger {
		p.outerIP.SrcIP = []byte{192, 168, 0, 9}
	}
	for range 8 {
		l.run(t, l.objs.FromWire, l.wire, p.bytes(t))
	}
}

// enterTunnel lets a packet that is stamped go into the tunnel, and gives the stamp with
// which it comes out.
func (l *learning) enterTunnel(t *testing.T, kind string, p *packet) uint32 {
	t.Helper()
	if l.stamp == 0 {
		return 0
	}
	inner := *p
	inner.encapsulated = false
	l.run(t, stamped(t, l.objs.ToTunnel, l.stamp), l.wire, inFrontOf(kind, inner.bytes(t)))
	var f bpf.Flow
	if l.objs.LookupFlow(l.key, &f) != nil || l.podEntry.IngressIfindex != 0 || l.tracking.Routed {
		return 0 // it takes the stamp away
	}
	return l.stamp | crossed
}

// What is learned of a flow that is not carried costs others of its group nothing: a connection
// whose replies are never seen is learned anew with each packet.
func TestLearnedAlone(t *testing.T) {
	testenv.Root(t)
	onCore(t, 0)
	l := newLearning(t, "routed", layers.IPProtocolTCP)
	l.hasEntry, l.flow.Epoch, l.flow.SeenOut, l.flow.SeenIn = true, l.epoch, l.epoch, l.epoch
	l.write(t)
	other := l.key
	p := l.forwarded("routed")
	for bpf.Group(other) != bpf.Group(l.key) || other == l.key {
		p.tcp.SrcPort++
		other.LocalPort = wirePort(uint16(p.tcp.SrcPort))
	}
	l.way(t, "out", "routed", bpf.Counts)
	check(t, l.objs.Flows.Delete(l.key)) // its slot is all that is left
	learn := func() {
		l.run(t, stamped(t, l.objs.ToPeer, l.epoch), l.wire, p.bytes(t))
	}
	learn()
	learn()
	l.way(t, "out", "routed", bpf.Counts)
	var f bpf.Flow
	check(t, l.objs.LookupFlow(other, &f))
	f.SeenIn = l.epoch
	check(t, l.objs.PutFlow(other, f))
	learn() // now it is carried
	l.way(t, "out", "routed", bpf.SlowUnknown)
}

// A flow that the network leads by another peer than before goes there from the next
// packet on, whatever a core has copied.
func TestLearnedAnew(t *testing.T) {
	testenv.Root(t)
	onCore(t, 0)
	for kind, at := range map[string]int{"vxlan": 50, "routed": 0} { // offset of the hop's MAC
		l := newLearning(t, kind, layers.IPProtocolUDP)
		l.hasEntry, l.flow.Epoch, l.flow.SeenOut, l.flow.SeenIn = true, l.epoch, l.epoch, l.epoch
		l.write(t)
		goes := func() []byte {
			verdict, out := l.run(t, l.objs.FromPod, l.pod, l.podPacket().bytes(t))
			if verdict != redirect {
				t.Fatalf("%s: verdict %d, counted %v", kind, int32(verdict), l.counted(t))
			}
			return out[at : at+6]
		}
		if got := goes(); !bytes.Equal(got, l.hop.Mac[:]) {
			t.Errorf("%s: it goes to % x, want % x", kind, got, l.hop.Mac)
		}
		other := l.hop
		other.Mac = [6]uint8(gatewayMAC)
		peer := bpf.RoutedPeer(8, uint32(l.wire), 1500, l.wireMAC, gatewayMAC)
		if kind == "vxlan" {
			peer = bpf.VXLANPeer(8, uint32(l.wire), 1450, bpf.Outer{
				From: l.wireMAC, To: farMAC, Local: localVTEP, Remote: remoteVTEP, TTL: 64, Port: port, VNI: vni, InnerFrom: tunnelMAC, InnerTo: gatewayMAC,
			})
		}
		// Nothing but the entry says so: the numbers of rules, pods and peers stay.
		check(t, l.objs.Peers.Put(uint32(peerNumber+1), peer))
		check(t, l.objs.Hops.Put(other, bpf.Hop{Peer: peerNumber + 1, Tenant: l.nextHop.Tenant}))
		p := l.forwarded(kind)
		p.eth.DstMAC = gatewayMAC
		l.run(t, stamped(t, l.objs.ToPeer, map[string]uint32{"vxlan": crossed}[kind]|l.epoch), l.wire, p.bytes(t))
		if got := goes(); !bytes.Equal(got, gatewayMAC) {
			t.Errorf("%s: learned anew, it goes to % x, want % x", kind, got, gatewayMAC)
		}
	}
}
