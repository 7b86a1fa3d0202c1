package bpf_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/gopacket/gopacket/layers"

	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/testenv"
)

// What cannot be carried goes on as it came, and is counted by reason.
func TestGoesSlow(t *testing.T) {
	testenv.Root(t)
	const tcp, udp = layers.IPProtocolTCP, layers.IPProtocolUDP
	const out, in = "out", "in"
	none := bpf.Counts // nothing is counted
	for _, c := range []struct {
		name     string
		kind     string
		protocol layers.IPProtocol
		way      string
		change   func(r *rig, p *packet)
		counted  bpf.Count
		forgets  bool // the flow
	}{
		{"syn", "vxlan", tcp, out, func(_ *rig, p *packet) { p.tcp.SYN = true }, bpf.SlowFlags, true},
		{"fin", "vxlan", tcp, out, func(_ *rig, p *packet) { p.tcp.FIN = true }, bpf.SlowFlags, true},
		{"rst", "vxlan", tcp, out, func(_ *rig, p *packet) { p.tcp.RST = true }, bpf.SlowFlags, true},
		{"syn in", "vxlan", tcp, in, func(_ *rig, p *packet) { p.tcp.SYN = true }, bpf.SlowFlags, true},
		{"fin in", "vxlan", tcp, in, func(_ *rig, p *packet) { p.tcp.FIN = true }, bpf.SlowFlags, true},
		{"rst in", "routed", tcp, in, func(_ *rig, p *packet) { p.tcp.RST = true }, bpf.SlowFlags, true},
		{"rst in", "ipip", tcp, in, func(_ *rig, p *packet) { p.tcp.RST = true }, bpf.SlowFlags, true},
		{"rst in, with congestion", "ipip", tcp, in, func(_ *rig, p *packet) { p.tcp.RST, p.ip.TOS, p.outerIP.TOS = true, 2, 3 }, bpf.SlowFlags, true},
		{"no ack", "vxlan", tcp, out, func(_ *rig, p *packet) { p.tcp.ACK = false }, bpf.SlowFlags, true},
		{"no ack in", "routed", tcp, in, func(_ *rig, p *packet) { p.tcp.ACK = false }, bpf.SlowFlags, true},
		{"no daemon", "vxlan", tcp, out, func(r *rig, _ *packet) { r.deadline = 1 }, bpf.SlowNoDaemon, false},
		{"no daemon in", "vxlan", tcp, in, func(r *rig, _ *packet) { r.deadline = 1 }, bpf.SlowNoDaemon, false},
		{"no daemon, routed", "routed", udp, out, func(r *rig, _ *packet) { r.deadline = 1 }, bpf.SlowNoDaemon, false},
		{"no daemon, routed in", "routed", udp, in, func(r *rig, _ *packet) { r.deadline = 1 }, bpf.SlowNoDaemon, false},
		{"other port", "vxlan", tcp, out, func(_ *rig, p *packet) { p.tcp.SrcPort++ }, bpf.SlowUnknown, false},
		{"other port in", "vxlan", udp, in, func(_ *rig, p *packet) { p.udp.DstPort++ }, bpf.SlowUnknown, false},
		{"other protocol", "vxlan", tcp, out, func(_ *rig, p *packet) { p.ip.Protocol = udp }, bpf.SlowUnknown, false},
		{"sctp", "vxlan", udp, out, func(_ *rig, p *packet) { p.ip.Protocol = layers.IPProtocolSCTP }, bpf.SlowProtocol, false},
		{"icmp in", "vxlan", udp, in, func(_ *rig, p *packet) { p.ip.Protocol = layers.IPProtocolICMPv4 }, bpf.SlowProtocol, false},
		{"options", "vxlan", tcp, out, func(_ *rig, p *packet) { p.ip.Options = []layers.IPv4Option{{OptionType: 1}} }, bpf.SlowOptions, false},
		{"options in", "vxlan", tcp, in, func(_ *rig, p *packet) { p.ip.Options = []layers.IPv4Option{{OptionType: 1}} }, bpf.SlowOptions, false},
		{"first fragment", "vxlan", udp, out, func(_ *rig, p *packet) { p.ip.Flags = layers.IPv4MoreFragments }, bpf.SlowFragment, false},
		{"last fragment", "vxlan", udp, out, func(_ *rig, p *packet) { p.ip.FragOffset = 100 }, bpf.SlowFragment, false},
		{"fragment in", "vxlan", udp, in, func(_ *rig, p *packet) { p.ip.Flags = layers.IPv4MoreFragments }, bpf.SlowFragment, false},
		{"outer fragment", "vxlan", udp, in, func(_ *rig, p *packet) { p.outerIP.Flags = layers.IPv4MoreFragments }, bpf.SlowFragment, false},
		{"ttl ends", "vxlan", tcp, out, func(_ *rig, p *packet) { p.ip.TTL = 1 }, bpf.SlowTTL, false},
		{"ttl ends in", "routed", tcp, in, func(_ *rig, p *packet) { p.ip.TTL = 1 }, bpf.SlowTTL, false},
		{"ipv6", "vxlan", tcp, out, func(_ *rig, p *packet) { p.eth.EthernetType = layers.EthernetTypeIPv6 }, bpf.SlowNotIPv4, false},
		{"ipv6 inside", "vxlan", tcp, in, func(_ *rig, p *packet) { p.eth.EthernetType = layers.EthernetTypeIPv6 }, bpf.SlowNotIPv4, false},
		{"version", "vxlan", tcp, out, func(_ *rig, p *packet) { p.ip.Version = 5 }, bpf.SlowNotIPv4, false},
		{"too large", "vxlan", udp, out, func(_ *rig, p *packet) { p.payload = make([]byte, 1450-28+1) }, bpf.SlowSize, false},
		{"not its own address", "vxlan", udp, out, func(_ *rig, p *packet) { p.ip.SrcIP = remoteVTEP.AsSlice() }, bpf.SlowSource, false},
		{"another pod's flow", "vxlan", udp, out, func(r *rig, _ *packet) {
			r.flow.Pod = uint32(r.wire)
			check(t, r.objs.PutPod(r.flow.Pod, r.podEntry))
		}, bpf.SlowSource, false},
		{"not to its gateway", "vxlan", udp, out, func(_ *rig, p *packet) { p.eth.DstMAC = farMAC }, bpf.SlowSource, false},
		{"not by its own MAC", "routed", tcp, out, func(_ *rig, p *packet) { p.eth.SrcMAC = farMAC }, bpf.SlowSource, false},
		{"resets another one's", "routed", tcp, out, func(_ *rig, p *packet) { p.eth.SrcMAC, p.tcp.RST = farMAC, true }, bpf.SlowSource, true},
		{"ends another one's", "routed", tcp, out, func(_ *rig, p *packet) { p.eth.SrcMAC, p.tcp.FIN = farMAC, true }, bpf.SlowSource, true},
		{"opens another one's", "routed", tcp, out, func(_ *rig, p *packet) { p.eth.SrcMAC, p.tcp.SYN = farMAC, true }, bpf.SlowSource, false},
		{"no pod", "vxlan", udp, out, func(r *rig, _ *packet) { r.podEntry = bpf.Pod{} }, bpf.SlowSource, false},
		{"other machine", "ipip", tcp, in, func(_ *rig, p *packet) { p.outerIP.SrcIP = []byte{192, 168, 0, 3} }, bpf.SlowSource, false},
		{"to another address", "ipip", tcp, in, func(_ *rig, p *packet) { p.outerIP.DstIP = []byte{192, 168, 0, 3} }, bpf.SlowSource, false},
		{"wrong checksum around", "ipip", tcp, in, func(_ *rig, p *packet) { p.wrongSum = true }, bpf.SlowChecksum, false},
		{"congestion", "ipip", tcp, in, func(_ *rig, p *packet) { p.ip.TOS, p.outerIP.TOS = 2, 3 }, bpf.SlowECN, false},
		{"outer fragment", "ipip", udp, in, func(_ *rig, p *packet) { p.outerIP.Flags = layers.IPv4MoreFragments }, bpf.SlowFragment, false},
		{"IPv6 inside", "ipip", tcp, in, func(_ *rig, p *packet) { p.ip.Version = 6 }, bpf.SlowNotIPv4, false},
		{"not of the overlay", "ipip", tcp, in, func(_ *rig, p *packet) { p.outerIP.Protocol = 41 }, none, false},
		{"too large", "ipip", udp, out, func(_ *rig, p *packet) { p.payload = make([]byte, 1480-28+1) }, bpf.SlowSize, false},
		{"no daemon in", "ipip", tcp, in, func(r *rig, _ *packet) { r.deadline = 1 }, bpf.SlowNoDaemon, false},
		{"other machine", "vxlan", tcp, in, func(_ *rig, p *packet) { p.outerIP.SrcIP = []byte{192, 168, 0, 3} }, bpf.SlowSource, false},
		{"to another address", "vxlan", tcp, in, func(_ *rig, p *packet) { p.outerIP.DstIP = []byte{192, 168, 0, 3} }, bpf.SlowSource, false},
		{"to another tunnel device", "vxlan", tcp, in, func(_ *rig, p *packet) { p.eth.DstMAC = gatewayMAC }, bpf.SlowSource, false},
		{"other machine, routed", "routed", tcp, in, func(_ *rig, p *packet) { p.eth.SrcMAC = gatewayMAC }, bpf.SlowSource, false},
		{"other tenant", "vxlan", tcp, in, func(_ *rig, p *packet) { p.vxlan.VNI++ }, none, false},
		{"other VNI", "geneve", tcp, in, func(_ *rig, p *packet) { p.vxlan.VNI++ }, bpf.SlowSource, false},
		{"more is said than the VNI", "vxlan", tcp, in, func(_ *rig, p *packet) { p.vxlan.GBPExtension = true }, bpf.SlowOptions, false},
		{"other machine", "geneve", tcp, in, func(_ *rig, p *packet) { p.outerIP.SrcIP = []byte{192, 168, 0, 3} }, bpf.SlowSource, false},
		{"options of Geneve", "geneve", tcp, in, func(_ *rig, p *packet) { p.geneve |= 1 << 24 }, bpf.SlowOptions, false},
		{"a critical option", "geneve", tcp, in, func(_ *rig, p *packet) { p.geneve |= 1<<24 | 1<<22 }, bpf.SlowOptions, false},
		{"of the tunnel's own management", "geneve", udp, in, func(_ *rig, p *packet) { p.geneve |= 1 << 23 }, bpf.SlowOptions, false},
		{"another version of Geneve", "geneve", udp, in, func(_ *rig, p *packet) { p.geneve |= 1 << 30 }, bpf.SlowOptions, false},
		{"no Ethernet in the tunnel", "geneve", udp, in, func(_ *rig, p *packet) { p.geneve = 0x0800 }, bpf.SlowOptions, false},
		{"ipv6 inside", "geneve", tcp, in, func(_ *rig, p *packet) { p.eth.EthernetType = layers.EthernetTypeIPv6 }, bpf.SlowNotIPv4, false},
		{"outer checksum", "geneve", tcp, in, func(_ *rig, p *packet) { p.outerSum = true }, bpf.SlowChecksum, false},
		{"outer checksum", "vxlan", tcp, in, func(_ *rig, p *packet) { p.outerSum = true }, bpf.SlowChecksum, false},
		{"wrong checksum around", "vxlan", tcp, in, func(_ *rig, p *packet) { p.wrongSum = true }, bpf.SlowChecksum, false},
		{"from our own tunnel device", "vxlan", tcp, in, func(_ *rig, p *packet) { p.eth.SrcMAC = tunnelMAC }, bpf.SlowSource, false},
		{"from another tunnel device", "vxlan", tcp, in, func(_ *rig, p *packet) { p.eth.SrcMAC = gatewayMAC }, bpf.SlowSource, false},
		{"from another tunnel device", "geneve", udp, in, func(_ *rig, p *packet) { p.eth.SrcMAC = gatewayMAC }, bpf.SlowSource, false},
		{"another version around", "vxlan", tcp, in, func(_ *rig, p *packet) { p.outerIP.Version = 5 }, none, false},
		{"congestion", "vxlan", tcp, in, func(_ *rig, p *packet) { p.ip.TOS, p.outerIP.TOS = 2, 3 }, bpf.SlowECN, false},
		{"rules changed", "vxlan", tcp, out, func(r *rig, _ *packet) { r.epoch = 2 }, bpf.SlowStale, false},
		{"rules changed in", "vxlan", tcp, in, func(r *rig, _ *packet) { r.epoch = 2 }, bpf.SlowStale, false},
		{"not seen both ways", "vxlan", tcp, out, func(r *rig, _ *packet) { r.flow.Epoch = 0 }, bpf.SlowUnproven, false},
		{"pod changed", "vxlan", tcp, out, func(r *rig, _ *packet) { r.podEntry.Epoch++ }, bpf.SlowStale, false},
		{"pod changed in", "vxlan", tcp, in, func(r *rig, _ *packet) { r.podEntry.Epoch++ }, bpf.SlowStale, false},
		{"peer changed", "vxlan", tcp, out, func(r *rig, _ *packet) { r.peer.Epoch++ }, bpf.SlowStale, false},
		{"peer changed in", "routed", tcp, in, func(r *rig, _ *packet) { r.peer.Epoch++ }, bpf.SlowStale, false},
		{"not of the overlay", "vxlan", tcp, in, func(_ *rig, p *packet) { p.outerUDP.DstPort++ }, none, false},
		{"for another machine", "vxlan", tcp, in, func(_ *rig, p *packet) { p.outerEth.DstMAC = farMAC }, bpf.SlowNotIPv4, false},
		{"for another machine, routed", "routed", tcp, in, func(_ *rig, p *packet) { p.eth.DstMAC = farMAC }, none, false},
		{"other port, routed in", "routed", tcp, in, func(_ *rig, p *packet) { p.tcp.DstPort++ }, bpf.SlowUnknown, false},
		{"of the machine itself", "routed", tcp, in, func(_ *rig, p *packet) { p.ip.DstIP = localVTEP.AsSlice() }, none, false},
		{"for an address that is noted of no pod", "routed", udp, in, func(r *rig, _ *packet) { r.unnoted = true }, none, false},
		{"opens one of the machine itself", "routed", tcp, in, func(_ *rig, p *packet) { p.ip.DstIP, p.tcp.SYN = localVTEP.AsSlice(), true }, none, false},
		{"fragment for the machine itself", "routed", udp, in, func(_ *rig, p *packet) {
			p.ip.DstIP, p.ip.Flags = localVTEP.AsSlice(), layers.IPv4MoreFragments
		}, none, false},
		{"of the machine itself, no daemon", "routed", udp, in, func(r *rig, p *packet) { r.deadline, p.ip.DstIP = 1, localVTEP.AsSlice() }, none, false},
		{"to the machine itself in the tunnel", "vxlan", udp, in, func(_ *rig, p *packet) { p.ip.DstIP = localVTEP.AsSlice() }, none, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, c.kind, c.protocol)
			p, program, device := r.podPacket(), r.objs.FromPod, r.pod
			if c.way == in {
				p, program, device = r.received(c.kind), r.objs.FromWire, r.wire
			}
			counted := c.counted
			if c.way == in && counted != none {
				counted += bpf.PerDirection
			}
			c.change(r, p)
			r.put(t)
			r.putHop(t, c.kind)
			packet := p.bytes(t)
			verdict, left := r.run(t, program, device, packet)
			if verdict != next || !bytes.Equal(left, packet) {
				t.Errorf("verdict %d, want %d; the packet leaves as\n% x, came as\n% x", int32(verdict), -1, left, packet)
			}
			want := map[bpf.Count]uint64{counted: 1}
			if counted == none {
				want = map[bpf.Count]uint64{}
			}
			if got := r.counted(t); len(got) != len(want) || got[counted] != want[counted] {
				t.Errorf("counted %v, want %v", got, want)
			}
			var f bpf.Flow
			if err := r.objs.LookupFlow(r.key, &f); errors.Is(err, ebpf.ErrKeyNotExist) != c.forgets {
				t.Errorf("the flow: %v, want it forgotten: %v", err, c.forgets)
			}
		})
	}
}

// What comes through a tunnel, but not from a peer to this host, ends no flow and resets none: anybody
// can send it, and rules may drop it.
func TestStrangersEndNoFlow(t *testing.T) {
	testenv.Root(t)
	for _, kind := range []string{bpf.VXLAN, bpf.Geneve, bpf.IPIP} {
		for _, c := range []struct {
			name     string
			protocol layers.IPProtocol
			change   func(r *rig, p *packet)
		}{
			{"opens a connection", layers.IPProtocolTCP, func(_ *rig, p *packet) { p.tcp.SYN = true }},
			{"ends one", layers.IPProtocolTCP, func(_ *rig, p *packet) { p.tcp.FIN = true }},
			{"resets one", layers.IPProtocolTCP, func(_ *rig, p *packet) { p.tcp.RST = true }},
			{"is the first reply", layers.IPProtocolUDP, func(r *rig, _ *packet) { r.flow.Unreplied, r.flow.SeenIn = 1, 0 }},
		} {
			for sender, change := range map[string]func(*packet){
				"the peer":                   nil,
				"another machine":            func(p *packet) { p.outerIP.SrcIP = []byte{192, 168, 0, 3} },
				"the peer to somebody else":  func(p *packet) { p.outerIP.DstIP = []byte{192, 168, 0, 3} },
				"another device in a tunnel": func(p *packet) { p.eth.SrcMAC = gatewayMAC },
			} {
				if kind == bpf.IPIP && sender == "another device in a tunnel" {
					continue // there are no MACs
				}
				t.Run(kind+", "+c.name+", from "+sender, func(t *testing.T) {
					r := newRig(t, kind, c.protocol)
					r.flow.Used = 1
					p := r.received(kind)
					if c.change(r, p); change != nil {
						change(p)
					}
					r.put(t)
					r.putHop(t, kind)
					verdict, _ := r.run(t, r.objs.FromWire, r.wire, p.bytes(t))
					var f bpf.Flow
					err := r.objs.LookupFlow(r.key, &f)
					same := err == nil && f == r.flow
					counted := r.counted(t)[bpf.PerDirection+bpf.SlowSource] == 1
					if verdict != next || same != (change != nil) || counted != (change != nil) {
						t.Errorf("verdict %d, counted %v; the flow is %+v (%v), and was %+v", int32(verdict), r.counted(t), f, err, r.flow)
					}
				})
			}
		}
	}
}

// A frame that was too short for the wire comes padded.
func TestCarriesPadded(t *testing.T) {
	testenv.Root(t)
	r := newRig(t, "routed", layers.IPProtocolUDP)
	r.put(t)
	p := r.received("routed")
	p.payload = []byte("x") // gopacket pads it
	verdict, _ := r.run(t, r.objs.FromWire, r.wire, p.bytes(t))
	if verdict != redirect {
		t.Errorf("verdict %d, counted %v", int32(verdict), r.counted(t))
	}
}
