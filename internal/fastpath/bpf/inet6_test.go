package bpf_test

import (
	"bytes"
	"net/netip"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/testenv"
)

var (
	podAddr6    = netip.MustParseAddr("fd00:10:244::2")
	remoteAddr6 = netip.MustParseAddr("fd00:10:244:1::2")
)

// newRig6 is a fast path for IPv6 whose tables say that one flow can be carried.
func newRig6(t testing.TB, protocol layers.IPProtocol) *rig {
	t.Helper()
	return rig6Of(t, protocol, bpf.Routed6, func() (*bpf.Objects, error) { return bpf.New(bpf.Routed6, bpf.Options{}, 0) })
}

// rig6Of is one with programs that the pool knows by a name.
func rig6Of(t testing.TB, protocol layers.IPProtocol, name string, load func() (*bpf.Objects, error)) *rig {
	t.Helper()
	r := newRig(t, bpf.Routed, protocol) // for its devices
	r.objs = pool.get(t, name, load)
	pod, err := r.objs.AddrWord(podAddr6)
	check(t, err)
	remote, err := r.objs.AddrWord(remoteAddr6)
	check(t, err)
	key, ok, err := r.objs.Key(0, uint8(protocol), netip.AddrPortFrom(podAddr6, 4000), netip.AddrPortFrom(remoteAddr6, 5000))
	check(t, err)
	if !ok || key.Local != pod || key.Remote != remote || pod == remote {
		t.Fatalf("the numbers of the addresses are %d and %d, and the key is %+v (%v)", pod, remote, key, ok)
	}
	r.key, r.podEntry.Addr = key, pod
	return r
}

// packet6 is what a test sends over IPv6.
type packet6 struct {
	eth     layers.Ethernet
	ip      layers.IPv6
	tcp     layers.TCP
	udp     layers.UDP
	payload gopacket.Payload
}

func (p *packet6) bytes(t testing.TB) []byte {
	t.Helper()
	all := []gopacket.SerializableLayer{&p.eth, &p.ip}
	switch p.ip.NextHeader {
	case layers.IPProtocolTCP:
		check(t, p.tcp.SetNetworkLayerForChecksum(&p.ip))
		all = append(all, &p.tcp)
	case layers.IPProtocolUDP:
		check(t, p.udp.SetNetworkLayerForChecksum(&p.ip))
		all = append(all, &p.udp)
	}
	b := gopacket.NewSerializeBuffer()
	check(t, gopacket.SerializeLayers(b, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, append(all, p.payload)...))
	return bytes.Clone(b.Bytes())
}

// podPacket6 is a packet of the flow as the pod sends it.
func (r *rig) podPacket6() *packet6 {
	return &packet6{
		eth: layers.Ethernet{SrcMAC: podMAC, DstMAC: gatewayMAC, EthernetType: layers.EthernetTypeIPv6},
		ip:  layers.IPv6{Version: 6, TrafficClass: 0xb9, FlowLabel: 0x54321, HopLimit: 64, NextHeader: r.protocol, SrcIP: podAddr6.AsSlice(), DstIP: remoteAddr6.AsSlice()},
		tcp: layers.TCP{SrcPort: 4000, DstPort: 5000, ACK: true, PSH: true, Seq: 1000, Ack: 2000, Window: 500},
		udp: layers.UDP{SrcPort: 4000, DstPort: 5000}, payload: []byte("hello, other side of the wire"),
	}
}

// received6 is one of the other way, as it comes by the wire.
func (r *rig) received6() *packet6 {
	p := r.podPacket6()
	p.ip.SrcIP, p.ip.DstIP = p.ip.DstIP, p.ip.SrcIP
	p.tcp.SrcPort, p.tcp.DstPort = p.tcp.DstPort, p.tcp.SrcPort
	p.udp.SrcPort, p.udp.DstPort = p.udp.DstPort, p.udp.SrcPort
	p.eth.SrcMAC, p.eth.DstMAC = farMAC, r.wireMAC
	return p
}

// Rows of packets over IPv6, each with what becomes of it on its way out and on its way in. A carried
// one is as before but for its MACs and hop limit; others are left as they are.
var rows6 = []struct {
	name   string
	change func(p *packet6)
	count  bpf.Count // as of packets out of a pod
}{
	{"plain", nil, bpf.CarriedOut},
	{"two hops left", func(p *packet6) { p.ip.HopLimit = 2 }, bpf.CarriedOut},
	{"the last hop", func(p *packet6) { p.ip.HopLimit = 1 }, bpf.SlowTTL},
	{"no hops left", func(p *packet6) { p.ip.HopLimit = 0 }, bpf.SlowTTL},
	{"no payload", func(p *packet6) { p.payload = nil }, bpf.CarriedOut},
	{"the largest", func(p *packet6) { p.payload = make([]byte, 1500-40-headerLen(p)) }, bpf.CarriedOut},
	{"too large", func(p *packet6) { p.payload = make([]byte, 1501-40-headerLen(p)) }, bpf.SlowSize},
	{"another destination", func(p *packet6) { change(p, 15) }, bpf.SlowUnknown},
	{"another network", func(p *packet6) { change(p, 1) }, bpf.SlowUnknown},
	{"a hop-by-hop header", func(p *packet6) { extend(p, layers.IPProtocolIPv6HopByHop) }, bpf.SlowOptions},
	{"a routing header", func(p *packet6) { extend(p, layers.IPProtocolIPv6Routing) }, bpf.SlowOptions},
	{"destination options", func(p *packet6) { extend(p, layers.IPProtocolIPv6Destination) }, bpf.SlowOptions},
	{"a fragment header", func(p *packet6) { extend(p, layers.IPProtocolIPv6Fragment) }, bpf.SlowFragment},
	{"ICMPv6", func(p *packet6) { p.ip.NextHeader = layers.IPProtocolICMPv6 }, bpf.SlowProtocol},
	{"another version inside", func(p *packet6) { p.ip.Version = 4 }, bpf.SlowNotIPv4},
	{"IPv4 by its frame", func(p *packet6) { p.eth.EthernetType = layers.EthernetTypeIPv4 }, bpf.SlowNotIPv4},
}

// headerLen is the size of the transport header.
func headerLen(p *packet6) int {
	if p.ip.NextHeader == layers.IPProtocolTCP {
		return 20
	}
	return 8
}

// change changes a byte of the address that is not the pod's.
func change(p *packet6, at int) {
	for _, addr := range [][]byte{p.ip.SrcIP, p.ip.DstIP} {
		if !bytes.Equal(addr, podAddr6.AsSlice()) {
			addr[at]++
		}
	}
}

// extend puts an extension header in front of the transport header.
func extend(p *packet6, kind layers.IPProtocol) {
	header := gopacket.Payload{byte(p.ip.NextHeader), 0, 1, 4, 0, 0, 0, 0} // padding
	b := (&rig{protocol: p.ip.NextHeader}).podPacket6()
	p.payload = append(append(header, make([]byte, headerLen(b))...), p.payload...)
	p.ip.NextHeader = kind
}

func TestCarriesIPv6(t *testing.T) {
	protocols(t, func(t *testing.T, protocol layers.IPProtocol) {
		for _, c := range rows6 {
			for _, way := range []string{"out", "in"} {
				for _, warm := range []bool{false, true} {
					t.Run(c.name+", "+way, func(t *testing.T) {
						onCore(t, 0)
						r := newRig6(t, protocol)
						r.put(t)
						p, program, device, count := r.podPacket6(), r.objs.FromPod, r.pod, c.count
						from, to := r.wireMAC, farMAC
						if way == "in" {
							p, program, device, count = r.received6(), r.objs.FromWire, r.wire, bpf.PerDirection+c.count
							from, to = gatewayMAC, podMAC
						}
						before := map[bpf.Count]uint64{}
						if warm { // its flow has a slot
							r.run(t, program, device, p.bytes(t))
							before = r.counted(t)
						}
						if c.change != nil {
							c.change(p)
						}
						packet := p.bytes(t)
						verdict, out := r.run(t, program, device, packet)
						want, wantVerdict := packet, next
						if c.count == bpf.CarriedOut {
							p.ip.HopLimit--
							p.eth.SrcMAC, p.eth.DstMAC = from, to
							want, wantVerdict = p.bytes(t), redirect
						}
						if verdict != wantVerdict || !bytes.Equal(out, want) {
							t.Errorf("verdict %d, comes\n% x, want %d\n% x", int32(verdict), out, int32(wantVerdict), want)
						}
						after := r.counted(t)
						if p.eth.EthernetType == layers.EthernetTypeIPv4 {
							return // another fast path's: not counted
						}
						if after[count] != before[count]+1 {
							t.Errorf("counted %v, want one more of %v", after, count)
						}
					})
				}
			}
		}
	})
}

// A flow between other addresses is another flow, also where both share their slot and all lower bits.
func TestSlotsKnowAddresses(t *testing.T) {
	testenv.Root(t)
	onCore(t, 0)
	r := newRig6(t, layers.IPProtocolUDP)
	r.put(t)
	for bit := range 128 {
		p := r.podPacket6()
		if verdict, _ := r.run(t, r.objs.FromPod, r.pod, p.bytes(t)); verdict != redirect {
			t.Fatalf("verdict %d, counted %v", int32(verdict), r.counted(t))
		}
		p.ip.DstIP[bit/8] ^= 1 << (bit % 8)
		if verdict, _ := r.run(t, r.objs.FromPod, r.pod, p.bytes(t)); verdict != next {
			t.Errorf("with bit %d of its destination changed, a packet is carried", bit)
		}
		p = r.podPacket6()
		p.ip.SrcIP[bit/8] ^= 1 << (bit % 8)
		if verdict, _ := r.run(t, r.objs.FromPod, r.pod, p.bytes(t)); verdict != next {
			t.Errorf("with bit %d of its source changed, a packet is carried", bit)
		}
	}
}

// A flow is learned once it was forwarded, and its other end gets a number then, not before.
func TestLearnsIPv6(t *testing.T) {
	protocols(t, func(t *testing.T, protocol layers.IPProtocol) {
		onCore(t, 0)
		const learnAfter = 8
		r := newRig6(t, protocol)
		r.put(t)
		r.putHop(t, bpf.Routed)
		other := netip.MustParseAddr("fd00:10:244:1::3")
		out, in, forwarded, arrived := r.podPacket6(), r.received6(), r.podPacket6(), r.received6()
		out.ip.DstIP, in.ip.SrcIP, forwarded.ip.DstIP, arrived.ip.SrcIP = other.AsSlice(), other.AsSlice(), other.AsSlice(), other.AsSlice()
		forwarded.eth.SrcMAC, forwarded.eth.DstMAC = r.wireMAC, farMAC
		arrived.eth.SrcMAC, arrived.eth.DstMAC = gatewayMAC, podMAC
		key := func() (bpf.FlowKey, bool) {
			k, ok, err := r.objs.Key(0, uint8(protocol), netip.AddrPortFrom(podAddr6, 4000), netip.AddrPortFrom(other, 5000))
			check(t, err)
			return k, ok
		}
		step := func(p *ebpf.Program, device int, packet *packet6) uint32 {
			verdict, _ := r.run(t, p, device, packet.bytes(t))
			return verdict
		}
		for i := range learnAfter + 2 {
			if step(r.objs.FromPod, r.pod, out) != next || step(r.objs.FromWire, r.wire, in) != next {
				t.Fatalf("packet %d is carried before its flow was learned", i)
			}
		}
		if k, ok := key(); ok {
			t.Errorf("the other end has a number before the network has forwarded anything to it: %+v", k)
		}
		toPeer, toPod := stamped(t, r.objs.ToPeer, r.epoch), stamped(t, r.objs.ToPod, r.epoch)
		check(t, r.objs.SetTracking(bpf.Tracking{Routed: true}))
		step(toPeer, r.wire, forwarded)
		step(toPod, r.pod, arrived)
		if k, ok := key(); ok {
			t.Errorf("invalid packets have given the other end a number: %+v", k)
		}
		check(t, r.objs.SetTracking(bpf.Tracking{}))
		step(toPeer, r.wire, forwarded)
		step(toPod, r.pod, arrived)
		k, ok := key()
		if !ok {
			t.Fatal("the other end has no number")
		}
		var f bpf.Flow
		check(t, r.objs.LookupFlow(k, &f))
		if f.SeenOut != r.epoch || f.SeenIn != r.epoch || f.Epoch != r.epoch || f.Pod != uint32(r.pod) || f.Peer != peerNumber {
			t.Errorf("the flow is %+v", f)
		}
		local, remote, ok := r.objs.Ends(k)
		if want := netip.AddrPortFrom(other, 5000); !ok || local != netip.AddrPortFrom(podAddr6, 4000) || remote != want {
			t.Errorf("its ends are %v and %v (%v)", local, remote, ok)
		}
		if step(r.objs.FromPod, r.pod, out) != redirect || step(r.objs.FromWire, r.wire, in) != redirect {
			t.Errorf("it is not carried: counted %v", r.counted(t))
		}
		if protocol == layers.IPProtocolTCP {
			out.tcp.RST = true
			step(r.objs.FromPod, r.pod, out)
			if err := r.objs.LookupFlow(k, &f); err == nil {
				t.Error("the flow is still there after a reset")
			}
		}
	})
}
