package bpf_test

import (
	"bytes"
	"encoding/binary"
	"net"
	"net/netip"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/testenv"
)

// Each program is tested as a function: a packet and tables in; verdict, packet
// and counts out.

const (
	next     = ^uint32(0) // TCX_NEXT
	redirect = 7          // TC_ACT_REDIRECT

	vni  = 42
	port = 8472
)

// kinds are the kinds of fast path.
var kinds = []string{bpf.VXLAN, bpf.Geneve, bpf.IPIP, bpf.Routed}

var (
	// On a tunnel's device without MACs, the kernel's test takes its first two bytes for the type of
	// an Ethernet frame, which is that of IPv4: of what the pod sends, and of what it gets.
	podAddr    = netip.MustParseAddr("8.0.0.2")
	remoteAddr = netip.MustParseAddr("8.0.1.2")
	localVTEP  = netip.MustParseAddr("192.168.0.1")
	remoteVTEP = netip.MustParseAddr("192.168.0.2")

	podMAC       = mac("02:00:00:00:00:01")
	gatewayMAC   = mac("02:00:00:00:00:02")
	tunnelMAC    = mac("02:00:00:00:00:03")
	farTunnelMAC = mac("02:00:00:00:00:04")
	farMAC       = mac("02:00:00:00:00:05")
)

func mac(s string) net.HardwareAddr {
	m, err := net.ParseMAC(s)
	if err != nil {
		panic(err)
	}
	return m
}

// rig is a fast path whose tables say that one flow can be carried.
type rig struct {
	netns     string
	pod, wire int // indices of devices
	wireMAC   net.HardwareAddr
	objs      *bpf.Objects
	key       bpf.FlowKey
	flow      bpf.Flow
	podEntry  bpf.Pod
	unnoted   bool // the address of the pod
	peer      bpf.Peer
	protocol  layers.IPProtocol
	epoch     uint32
	deadline  uint64 // jiffies
	tracking  bpf.Tracking
}

const peerNumber = 3

func newRig(t testing.TB, kind string, protocol layers.IPProtocol) *rig {
	t.Helper()
	r := &rig{netns: testenv.Devices(t), protocol: protocol, epoch: 1, deadline: 1 << 62}
	testenv.InNetns(t, r.netns, func() error {
		pod, err := netlink.LinkByName("veth0")
		if err != nil {
			return err
		}
		wire, err := netlink.LinkByName("veth1")
		if err != nil {
			return err
		}
		r.pod, r.wire, r.wireMAC = pod.Attrs().Index, wire.Attrs().Index, wire.Attrs().HardwareAddr
		return nil
	})
	r.objs = pool.get(t, kind, func() (*bpf.Objects, error) { return bpf.New(kind, bpf.Options{}, port) })
	tenant := uint32(0)
	outer := bpf.Outer{
		From: r.wireMAC, To: farMAC, Local: localVTEP, Remote: remoteVTEP, TTL: 64, Port: port, VNI: vni,
		InnerFrom: tunnelMAC, InnerTo: farTunnelMAC,
	}
	switch kind {
	case bpf.VXLAN:
		tenant = vni
		r.peer = bpf.VXLANPeer(5, uint32(r.wire), 1450, outer)
	case bpf.Geneve:
		r.peer = bpf.GenevePeer(5, uint32(r.wire), 1450, outer)
	case bpf.IPIP:
		r.peer = bpf.IPIPPeer(5, uint32(r.wire), 1480, bpf.Outer{From: r.wireMAC, To: farMAC, Local: localVTEP, Remote: remoteVTEP})
	default:
		r.peer = bpf.RoutedPeer(5, uint32(r.wire), 1500, r.wireMAC, farMAC)
	}
	r.podEntry = bpf.NewPod(6, tenant, 1500, podAddr, podMAC, gatewayMAC)
	r.podEntry.MacEpoch = r.podEntry.Epoch
	r.key = bpf.NewFlowKey(tenant, uint8(protocol), netip.AddrPortFrom(podAddr, 4000), netip.AddrPortFrom(remoteAddr, 5000))
	r.flow = bpf.Flow{Epoch: 1, SeenOut: 1, SeenIn: 1, Pod: uint32(r.pod), PodEpoch: 6, Peer: peerNumber, PeerEpoch: 5, Port: binary.NativeEndian.Uint16([]byte{0xc0, 0x01})}
	return r
}

// hopKey is how the network addresses the peer.
func (r *rig) hopKey(kind string) bpf.HopKey {
	return bpf.NewHopKey(r.wire, map[string][]byte{bpf.VXLAN: farTunnelMAC, bpf.Geneve: farTunnelMAC, bpf.IPIP: remoteVTEP.AsSlice(), bpf.Routed: farMAC, bpf.Routed6: farMAC}[kind])
}

// putHop lets the network know the peer, by how it addresses it.
func (r *rig) putHop(t testing.TB, kind string) {
	t.Helper()
	check(t, r.objs.Hops.Put(r.hopKey(kind), bpf.Hop{Peer: peerNumber, Tenant: r.key.TenantProto >> 8}))
}

// inFrontOf is a frame as it is on a tunnel's device: without MACs where there are none.
func inFrontOf(kind string, frame []byte) []byte {
	if kind == bpf.IPIP {
		return frame[14:]
	}
	return frame
}

// put writes the tables.
func (r *rig) put(t testing.TB) {
	t.Helper()
	if !r.unnoted {
		check(t, r.objs.PutPodAt(bpf.PodKey{Tenant: r.key.TenantProto >> 8, Addr: r.key.Local}, uint32(r.pod)))
	}
	for _, err := range []error{
		r.objs.PutFlow(r.key, r.flow),
		r.objs.Pods.Put(uint32(r.pod), r.podEntry),
		r.objs.Peers.Put(uint32(peerNumber), r.peer),
		r.objs.Deadline.Set(r.deadline),
		r.objs.Epoch.Set(r.epoch),
		r.objs.Tenant.Set(r.key.TenantProto >> 8),
		r.objs.SetTracking(r.tracking),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// skb is the kernel's __sk_buff, as far as a test says something in it.
type skb struct {
	_       [10]uint32
	Ifindex uint32
	_       [37]uint32
}

// run runs a program over a packet that comes by a device.
func (r *rig) run(t testing.TB, p *ebpf.Program, device int, packet []byte) (verdict uint32, out []byte) {
	t.Helper()
	o := ebpf.RunOptions{Data: packet, DataOut: make([]byte, len(packet)+256), Context: skb{Ifindex: uint32(device)}}
	return r.runWith(t, p, &o), o.DataOut
}

// runWith runs a program on the core of the test, see [onCore].
func (r *rig) runWith(t testing.TB, p *ebpf.Program, o *ebpf.RunOptions) (verdict uint32) {
	t.Helper()
	var cores unix.CPUSet // of this thread; the one in the namespace may be a child of another
	check(t, unix.SchedGetaffinity(0, &cores))
	testenv.InNetns(t, r.netns, func() (err error) {
		if err := unix.SchedSetaffinity(0, &cores); err != nil {
			return err
		}
		verdict, err = p.Run(o)
		return err
	})
	return verdict
}

// counted gives what was counted since the tables were made, for which reasons.
func (r *rig) counted(t *testing.T) map[bpf.Count]uint64 {
	t.Helper()
	sums := map[bpf.Count]uint64{}
	for c := range bpf.Counts {
		var by []bpf.Counter
		if err := r.objs.Counts.Lookup(uint32(c), &by); err != nil {
			t.Fatal(err)
		}
		for _, one := range by {
			if one.Packets > 0 {
				sums[c] += one.Packets
			}
		}
	}
	return sums
}

// packet is what a test sends, as layers that it may change.
type packet struct {
	outerEth     layers.Ethernet
	outerIP      layers.IPv4
	outerUDP     layers.UDP
	vxlan        layers.VXLAN
	geneve       uint32 // what its header begins with in place of VXLAN's; 0: it is VXLAN
	eth          layers.Ethernet
	ip           layers.IPv4
	tcp          layers.TCP
	udp          layers.UDP
	payload      gopacket.Payload
	encapsulated bool // with the outer headers
	outerSum     bool // the outer UDP header has a checksum
	wrongSum     bool // that of the outer IP header is wrong
}

// bytes writes the packet.
func (p *packet) bytes(t testing.TB) []byte {
	t.Helper()
	inner := []gopacket.SerializableLayer{&p.eth, &p.ip}
	ipip := p.encapsulated && p.outerIP.Protocol == layers.IPProtocolIPv4
	if ipip {
		inner = inner[1:]
	}
	if p.ip.Protocol == layers.IPProtocolTCP {
		check(t, p.tcp.SetNetworkLayerForChecksum(&p.ip))
		inner = append(inner, &p.tcp)
	} else {
		check(t, p.udp.SetNetworkLayerForChecksum(&p.ip))
		inner = append(inner, &p.udp)
	}
	b := gopacket.NewSerializeBuffer()
	o := gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}
	check(t, gopacket.SerializeLayers(b, o, append(inner, p.payload)...))
	if !p.encapsulated {
		return bytes.Clone(b.Bytes())
	}
	whole := gopacket.NewSerializeBuffer()
	payload := gopacket.Payload(bytes.Clone(b.Bytes()))
	if ipip {
		return p.outermost(t, whole, payload)
	}
	if p.outerSum {
		check(t, p.outerUDP.SetNetworkLayerForChecksum(&p.outerIP))
	}
	check(t, gopacket.SerializeLayers(whole, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: p.outerSum},
		&p.outerUDP, &p.vxlan, payload))
	payload = bytes.Clone(whole.Bytes())
	if p.geneve != 0 {
		binary.BigEndian.PutUint32(payload[8:], p.geneve)
	}
	return p.outermost(t, whole, payload)
}

// outermost writes the outer Ethernet and IP headers, and what is behind them.
func (p *packet) outermost(t testing.TB, whole gopacket.SerializeBuffer, payload gopacket.Payload) []byte {
	t.Helper()
	o := gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}
	check(t, gopacket.SerializeLayers(whole, o, &p.outerEth, &p.outerIP, payload))
	frame := bytes.Clone(whole.Bytes())
	if p.wrongSum {
		frame[14+10]++
	}
	return frame
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// podPacket is a packet of the flow as the pod sends it.
func (r *rig) podPacket() *packet {
	return &packet{
		eth: layers.Ethernet{SrcMAC: podMAC, DstMAC: gatewayMAC, EthernetType: layers.EthernetTypeIPv4},
		ip:  layers.IPv4{Version: 4, IHL: 5, TTL: 64, Id: 4711, Protocol: r.protocol, SrcIP: podAddr.AsSlice(), DstIP: remoteAddr.AsSlice(), Flags: layers.IPv4DontFragment},
		tcp: layers.TCP{SrcPort: 4000, DstPort: 5000, ACK: true, PSH: true, Seq: 1000, Ack: 2000, Window: 500},
		udp: layers.UDP{SrcPort: 4000, DstPort: 5000}, payload: []byte("hello, other side of the wire"),
	}
}

// received is one of the other way, as it comes by the wire.
func (r *rig) received(kind string) *packet {
	p := r.podPacket()
	p.ip.SrcIP, p.ip.DstIP = p.ip.DstIP, p.ip.SrcIP
	p.tcp.SrcPort, p.tcp.DstPort = p.tcp.DstPort, p.tcp.SrcPort
	p.udp.SrcPort, p.udp.DstPort = p.udp.DstPort, p.udp.SrcPort
	p.eth.SrcMAC, p.eth.DstMAC = farMAC, r.wireMAC
	if kind == bpf.Routed {
		return p
	}
	p.encapsulated = true
	p.eth.SrcMAC, p.eth.DstMAC = farTunnelMAC, tunnelMAC
	p.outerEth = layers.Ethernet{SrcMAC: farMAC, DstMAC: r.wireMAC, EthernetType: layers.EthernetTypeIPv4}
	p.outerIP = layers.IPv4{Version: 4, IHL: 5, TTL: 63, Protocol: layers.IPProtocolUDP, SrcIP: remoteVTEP.AsSlice(), DstIP: localVTEP.AsSlice()}
	p.outerUDP = layers.UDP{SrcPort: 50000, DstPort: port}
	p.encapsulateFor(kind)
	if kind == bpf.IPIP {
		p.outerIP.Flags = p.ip.Flags
	}
	return p
}

// hopped is the same packet behind a router.
func hopped(p *packet, from, to net.HardwareAddr) *packet {
	p.ip.TTL--
	p.eth.SrcMAC, p.eth.DstMAC, p.encapsulated = from, to, false
	return p
}

func protocols(t *testing.T, run func(t *testing.T, protocol layers.IPProtocol)) {
	testenv.Root(t)
	for _, p := range []layers.IPProtocol{unix.IPPROTO_TCP, unix.IPPROTO_UDP} {
		t.Run(p.String(), func(t *testing.T) { run(t, p) })
	}
}

func TestVXLANCarriesOut(t *testing.T) {
	protocols(t, func(t *testing.T, protocol layers.IPProtocol) {
		r := newRig(t, "vxlan", protocol)
		r.put(t)
		for _, tos := range []uint8{0, 1, 2, 3, 0xb8} {
			p := r.podPacket()
			p.ip.TOS = tos
			verdict, out := r.run(t, r.objs.FromPod, r.pod, p.bytes(t))
			if verdict != redirect {
				t.Fatalf("verdict %d, counted %v", verdict, r.counted(t))
			}
			p.outerEth = layers.Ethernet{SrcMAC: r.wireMAC, DstMAC: farMAC, EthernetType: layers.EthernetTypeIPv4}
			p.outerIP = layers.IPv4{Version: 4, IHL: 5, TOS: tos & 3, TTL: 64, Id: p.ip.Id, Protocol: layers.IPProtocolUDP, SrcIP: localVTEP.AsSlice(), DstIP: remoteVTEP.AsSlice()}
			p.outerUDP = layers.UDP{SrcPort: 0xc001, DstPort: port}
			p.vxlan = layers.VXLAN{ValidIDFlag: true, VNI: vni}
			hopped(p, tunnelMAC, farTunnelMAC).encapsulated = true
			if want := p.bytes(t); !bytes.Equal(out, want) {
				t.Errorf("tos %#x: out comes\n% x, want\n% x", tos, out, want)
			}
		}
	})
}

func TestVXLANCarriesIn(t *testing.T) {
	protocols(t, func(t *testing.T, protocol layers.IPProtocol) {
		r := newRig(t, "vxlan", protocol)
		r.put(t)
		p := r.received("vxlan")
		verdict, out := r.run(t, r.objs.FromWire, r.wire, p.bytes(t))
		if verdict != redirect {
			t.Fatalf("verdict %d, counted %v", verdict, r.counted(t))
		}
		if want := hopped(p, gatewayMAC, podMAC).bytes(t); !bytes.Equal(out, want) {
			t.Errorf("in comes\n% x, want\n% x", out, want)
		}
	})
}

func TestRoutedCarries(t *testing.T) {
	protocols(t, func(t *testing.T, protocol layers.IPProtocol) {
		r := newRig(t, "routed", protocol)
		r.put(t)
		p := r.podPacket()
		verdict, out := r.run(t, r.objs.FromPod, r.pod, p.bytes(t))
		if want := hopped(p, r.wireMAC, farMAC).bytes(t); verdict != redirect || !bytes.Equal(out, want) {
			t.Errorf("verdict %d, out comes\n% x, want\n% x", verdict, out, want)
		}
		p = r.received("routed")
		verdict, out = r.run(t, r.objs.FromWire, r.wire, p.bytes(t))
		if want := hopped(p, gatewayMAC, podMAC).bytes(t); verdict != redirect || !bytes.Equal(out, want) {
			t.Errorf("verdict %d, in comes\n% x, want\n% x", verdict, out, want)
		}
	})
}
