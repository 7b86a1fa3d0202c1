package bpf_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/netip"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/gopacket/gopacket/layers"

	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/testenv"
)

// nat is how the flow of a rig is translated: what its pod sees, and what the wire sees.
type nat struct {
	name                 string
	local, remote        netip.AddrPort
	wireLocal, wireOther netip.AddrPort
}

var nats = []nat{
	{"Service", addrPort("8.0.0.2:4000"), addrPort("10.96.0.10:53"), addrPort("8.0.0.2:4000"), addrPort("10.244.1.2:5000")},
	{"Service with the port of its pods", addrPort("8.0.0.2:4000"), addrPort("10.96.0.10:5000"), addrPort("8.0.0.2:4000"), addrPort("10.244.1.2:5000")},
	{"Service whose client gets another port", addrPort("8.0.0.2:4000"), addrPort("10.96.0.10:53"), addrPort("8.0.0.2:61000"), addrPort("10.244.1.2:5000")},
	{"masquerade", addrPort("8.0.0.2:4000"), addrPort("10.244.1.2:5000"), addrPort("10.244.0.0:33333"), addrPort("10.244.1.2:5000")},
	{"port of a node", addrPort("8.0.0.2:4000"), addrPort("192.168.0.1:30080"), addrPort("10.244.0.0:33333"), addrPort("10.244.1.2:5000")},
	{"pod behind another address", addrPort("8.0.0.2:4000"), addrPort("10.244.1.2:5000"), addrPort("10.96.0.10:53"), addrPort("10.244.1.2:5000")},
	{"ports only", addrPort("8.0.0.2:4000"), addrPort("10.244.1.2:53"), addrPort("8.0.0.2:4000"), addrPort("10.244.1.2:5000")},
}

var addrPort = netip.MustParseAddrPort

// translate makes the flow of a rig, before its tables are written, one that is translated, and
// gives the entry that it has by its key on the wire.
func (r *rig) translate(n nat) (wire bpf.FlowKey, onWire bpf.Flow) {
	tenant := r.key.TenantProto >> 8
	r.key = bpf.NewFlowKey(tenant, uint8(r.protocol), n.local, n.remote)
	wire = bpf.NewFlowKey(tenant, uint8(r.protocol), n.wireLocal, n.wireOther).OnWire()
	setOther(&r.flow, wire)
	setOther(&onWire, r.key)
	return wire, onWire
}

// newTranslated is a rig of a kind whose flow is translated, with its tables written, and the entry that the flow has
// by its key on the wire.
func newTranslated(t testing.TB, kind string, protocol layers.IPProtocol, n nat) (r *rig, wire bpf.FlowKey, onWire bpf.Flow) {
	t.Helper()
	if r = rigOf(t, kind, protocol); kind == bpf.Routed6 {
		wire, onWire = r.translate6(t, n)
	} else {
		wire, onWire = r.translate(n)
	}
	r.put(t)
	r.putHop(t, kind)
	check(t, r.objs.PutFlow(wire, onWire))
	return r, wire, onWire
}

// withEnds gives a packet other ends.
func (p *packet) withEnds(from, to netip.AddrPort) *packet {
	p.ip.SrcIP, p.ip.DstIP = from.Addr().AsSlice(), to.Addr().AsSlice()
	p.tcp.SrcPort, p.tcp.DstPort = layers.TCPPort(from.Port()), layers.TCPPort(to.Port())
	p.udp.SrcPort, p.udp.DstPort = layers.UDPPort(from.Port()), layers.UDPPort(to.Port())
	return p
}

// A carried packet has the addresses, ports and checksums that the network's own translation
// gives it, each way.
func TestTranslates(t *testing.T) {
	for _, kind := range kinds {
		for _, n := range nats {
			if n.wireLocal.Addr() != podAddr && kind == "routed" {
				continue // what comes back is for no pod's address
			}
			t.Run(kind+", "+n.name, func(t *testing.T) {
				protocols(t, func(t *testing.T, protocol layers.IPProtocol) { translates(t, kind, n, protocol) })
			})
		}
	}
}

func translates(t *testing.T, kind string, n nat, protocol layers.IPProtocol) {
	r, _, _ := newTranslated(t, kind, protocol, n)
	for i := range 300 { // sums of many values, those around zero too
		p := r.podPacket()
		p.payload = binary.BigEndian.AppendUint16(bytes.Clone(p.payload), uint16(i*219))
		p.withEnds(n.local, n.remote)
		verdict, out := r.run(t, r.objs.FromPod, r.pod, p.bytes(t))
		if verdict != redirect {
			t.Fatalf("out: verdict %d, counted %v", int32(verdict), r.counted(t))
		}
		at := map[string]int{bpf.VXLAN: 50, bpf.Geneve: 50, bpf.IPIP: 34}[kind] // of what was around
		from, to := r.wireMAC, farMAC
		if inUDP(kind) {
			from, to = tunnelMAC, farTunnelMAC
		}
		if want := inFrontOf(kind, hopped(p.withEnds(n.wireLocal, n.wireOther), from, to).bytes(t)); !bytes.Equal(out[at:], want) {
			t.Fatalf("out comes\n% x, want\n% x", out[at:], want)
		}
		p = r.received(kind).withEnds(n.wireOther, n.wireLocal)
		p.payload = binary.BigEndian.AppendUint16(bytes.Clone(p.payload), uint16(i*219))
		verdict, out = r.run(t, r.objs.FromWire, r.wire, p.bytes(t))
		if verdict != redirect {
			t.Fatalf("in: verdict %d, counted %v", int32(verdict), r.counted(t))
		}
		if want := hopped(p.withEnds(n.remote, n.local), gatewayMAC, podMAC).bytes(t); !bytes.Equal(out, want) {
			t.Fatalf("in comes\n% x, want\n% x", out, want)
		}
	}
}

// A datagram without a checksum stays without.
func TestTranslatesWithoutChecksum(t *testing.T) {
	testenv.Root(t)
	r, _, _ := newTranslated(t, bpf.Routed, layers.IPProtocolUDP, nats[0])
	const sum = 14 + 20 + 6 // offset
	frame := r.podPacket().withEnds(nats[0].local, nats[0].remote).bytes(t)
	copy(frame[sum:], []byte{0, 0})
	verdict, out := r.run(t, r.objs.FromPod, r.pod, frame)
	want := hopped(r.podPacket().withEnds(nats[0].wireLocal, nats[0].wireOther), r.wireMAC, farMAC).bytes(t)
	copy(want[sum:], []byte{0, 0})
	if verdict != redirect || !bytes.Equal(out, want) {
		t.Errorf("verdict %d, out comes\n% x, want\n% x", int32(verdict), out, want)
	}
}

// A translated flow is what its two entries say together, and only in the direction that each
// is for; what is between the same ends and is not translated is another flow.
func TestTranslatedApart(t *testing.T) {
	testenv.Root(t)
	onCore(t, 0)
	n := nats[0]
	for _, c := range []struct {
		name    string
		change  func(t *testing.T, r *rig, wire bpf.FlowKey, onWire bpf.Flow)
		out, in bpf.Count // Counts: carried
	}{
		{"whole", func(*testing.T, *rig, bpf.FlowKey, bpf.Flow) {}, bpf.Counts, bpf.Counts},
		{"no entry on the wire", func(t *testing.T, r *rig, wire bpf.FlowKey, _ bpf.Flow) {
			check(t, r.objs.Flows.Delete(wire))
			check(t, r.objs.InvalidateSlots(wire))
		}, bpf.Counts, bpf.SlowUnknown},
		{"no entry of the pod's", func(t *testing.T, r *rig, _ bpf.FlowKey, _ bpf.Flow) {
			check(t, r.objs.Flows.Delete(r.key))
			check(t, r.objs.InvalidateSlots(r.key))
		}, bpf.SlowUnknown, bpf.SlowUnknown},
		{"entry on the wire of an earlier connection", func(t *testing.T, r *rig, wire bpf.FlowKey, onWire bpf.Flow) {
			onWire.Other.LocalPort++
			check(t, r.objs.PutFlow(wire, onWire))
			check(t, r.objs.InvalidateSlots(wire))
		}, bpf.Counts, bpf.SlowUnknown},
		{"entry of the pod's of another connection", func(t *testing.T, r *rig, _ bpf.FlowKey, _ bpf.Flow) {
			r.flow.Other.RemotePort++
			check(t, r.objs.PutFlow(r.key, r.flow))
			check(t, r.objs.InvalidateSlots(r.key))
		}, bpf.Counts, bpf.SlowUnknown},
		{"rules changed", func(t *testing.T, r *rig, _ bpf.FlowKey, _ bpf.Flow) { check(t, r.objs.Epoch.Set(uint32(2))) }, bpf.SlowStale, bpf.SlowStale},
		{"pod changed", func(t *testing.T, r *rig, _ bpf.FlowKey, _ bpf.Flow) {
			r.podEntry.Epoch++
			check(t, r.objs.PutPod(uint32(r.pod), r.podEntry))
		}, bpf.SlowStale, bpf.SlowStale},
		{"seen out only", func(t *testing.T, r *rig, _ bpf.FlowKey, _ bpf.Flow) {
			r.flow.SeenIn = 0
			check(t, r.objs.PutFlow(r.key, r.flow))
			check(t, r.objs.InvalidateSlots(r.key))
		}, bpf.Counts, bpf.SlowUnproven},
		{"direct flow with the same ends on the wire", func(t *testing.T, r *rig, wire bpf.FlowKey, _ bpf.Flow) {
			direct := r.flow // which the network gives another port
			direct.Other.LocalPort++
			direct.Other.Remote, direct.Other.RemotePort = wire.Remote, wire.RemotePort
			wire.TenantProto &^= 0x80
			check(t, r.objs.PutFlow(wire, direct))
		}, bpf.Counts, bpf.Counts},
	} {
		for _, kind := range kinds {
			t.Run(kind+", "+c.name, func(t *testing.T) {
				r, wire, onWire := newTranslated(t, kind, layers.IPProtocolUDP, n)
				try := func(out, in bpf.Count) {
					t.Helper()
					r.expect(t, r.objs.FromPod, r.pod, r.podPacket().withEnds(n.local, n.remote), out)
					if in != bpf.Counts {
						in += bpf.PerDirection
					}
					r.expect(t, r.objs.FromWire, r.wire, r.received(kind).withEnds(n.wireOther, n.wireLocal), in)
				}
				try(bpf.Counts, bpf.Counts)
				c.change(t, r, wire, onWire)
				try(c.out, c.in)
				// From the pod to the other end directly, and from the virtual address by the
				// wire, are no packets of the flow.
				if c.name == "whole" {
					r.expect(t, r.objs.FromPod, r.pod, r.podPacket().withEnds(n.wireLocal, n.wireOther), bpf.SlowUnknown)
					r.expect(t, r.objs.FromWire, r.wire, r.received(kind).withEnds(n.remote, n.local), bpf.SlowUnknown+bpf.PerDirection)
					try(bpf.Counts, bpf.Counts)
				}
			})
		}
	}
}

// expect runs a program over a packet, which is to be carried (Counts), or slow for a reason and
// unchanged.
func (r *rig) expect(t *testing.T, p *ebpf.Program, device int, packet interface{ bytes(testing.TB) []byte }, slow bpf.Count) {
	t.Helper()
	frame, before := packet.bytes(t), r.counted(t)
	verdict, out := r.run(t, p, device, frame)
	after := r.counted(t)
	switch {
	case slow == bpf.Counts && verdict != redirect:
		t.Errorf("verdict %d, counted %v, before %v; want it carried", int32(verdict), after, before)
	case slow != bpf.Counts && (verdict != next || after[slow] != before[slow]+1 || !bytes.Equal(out, frame)):
		t.Errorf("verdict %d, counted %v, before %v; want one that is %s", int32(verdict), after, before, slow)
	}
}

// The end of a connection ends both entries, whichever end says so, and whatever was direct
// between its ends on the wire.
func TestTranslatedEnds(t *testing.T) {
	testenv.Root(t)
	n := nats[2]
	for _, kind := range kinds {
		for _, way := range []string{"out", "in"} {
			r, wire, _ := newTranslated(t, kind, layers.IPProtocolTCP, n)
			p, program, device := r.podPacket().withEnds(n.local, n.remote), r.objs.FromPod, r.pod
			counted, keys := bpf.SlowFlags, []bpf.FlowKey{r.key, wire}
			if way == "in" {
				direct := wire
				direct.TenantProto &^= 0x80
				check(t, r.objs.PutFlow(direct, bpf.Flow{Epoch: 1}))
				keys = append(keys, direct)
				p, program, device = r.received(kind).withEnds(n.wireOther, n.wireLocal), r.objs.FromWire, r.wire
				counted += bpf.PerDirection
			}
			p.tcp.FIN = true
			r.expect(t, program, device, p, counted)
			for _, k := range keys {
				var f bpf.Flow
				if err := r.objs.LookupFlow(k, &f); !errors.Is(err, ebpf.ErrKeyNotExist) {
					t.Errorf("%s, %s: an entry is left: %+v, %v", kind, way, f, err)
				}
			}
		}
	}
}

// Told to, the programs leave translated flows alone.
func TestNoNAT(t *testing.T) {
	testenv.Root(t)
	onCore(t, 0)
	r := newRig(t, "vxlan", layers.IPProtocolUDP)
	objs, err := bpf.New(bpf.VXLAN, bpf.Options{NoNAT: true}, port)
	check(t, err)
	t.Cleanup(objs.Close)
	r.objs = objs
	wire, onWire := r.translate(nats[0])
	r.put(t)
	check(t, r.objs.PutFlow(wire, onWire))
	for range 2 { // the second finds what the first has left
		r.expect(t, r.objs.FromPod, r.pod, r.podPacket().withEnds(nats[0].local, nats[0].remote), bpf.SlowUnknown)
		r.expect(t, r.objs.FromWire, r.wire, r.received("vxlan").withEnds(nats[0].remote, nats[0].local), bpf.SlowUnknown+bpf.PerDirection)
		r.expect(t, r.objs.FromWire, r.wire, r.received("vxlan").withEnds(nats[0].wireOther, nats[0].wireLocal), bpf.SlowUnknown+bpf.PerDirection)
	}
}
