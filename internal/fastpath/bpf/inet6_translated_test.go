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
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/testenv"
)

// nats6 are nats over IPv6.
var nats6 = []nat{
	{"Service", addrPort("[fd00:10:244::2]:4000"), addrPort("[fd00:10:96::a]:53"), addrPort("[fd00:10:244::2]:4000"), addrPort("[fd00:10:244:1::2]:5000")},
	{"Service with the port of its pods", addrPort("[fd00:10:244::2]:4000"), addrPort("[fd00:10:96::a]:5000"), addrPort("[fd00:10:244::2]:4000"), addrPort("[fd00:10:244:1::2]:5000")},
	{"Service whose client gets another port", addrPort("[fd00:10:244::2]:4000"), addrPort("[fd00:10:96::a]:53"), addrPort("[fd00:10:244::2]:61000"), addrPort("[fd00:10:244:1::2]:5000")},
	{"masquerade", addrPort("[fd00:10:244::2]:4000"), addrPort("[fd00:10:244:1::2]:5000"), addrPort("[fd00:c8::1]:33333"), addrPort("[fd00:10:244:1::2]:5000")},
	{"port of a node", addrPort("[fd00:10:244::2]:4000"), addrPort("[fd00:c8::1]:30080"), addrPort("[fd00:c8::1]:33333"), addrPort("[fd00:10:244:1::2]:5000")},
	{"ports only", addrPort("[fd00:10:244::2]:4000"), addrPort("[fd00:10:244:1::2]:53"), addrPort("[fd00:10:244::2]:4000"), addrPort("[fd00:10:244:1::2]:5000")},
}

// translate6 makes the flow of a rig for IPv6, before its tables are written, one that is translated, and
// gives the entry that it has by its key on the wire. What comes back is let in.
func (r *rig) translate6(t testing.TB, n nat) (wire bpf.FlowKey, onWire bpf.Flow) {
	t.Helper()
	key := func(local, remote netip.AddrPort) bpf.FlowKey {
		for _, end := range []netip.AddrPort{local, remote} {
			_, err := r.objs.AddrWord(end.Addr())
			check(t, err)
		}
		k, ok, err := r.objs.Key(0, uint8(r.protocol), local, remote)
		check(t, err)
		if !ok {
			t.Fatalf("there is no key between %v and %v", local, remote)
		}
		return k
	}
	r.key = key(n.local, n.remote)
	wire = key(n.wireLocal, n.wireOther)
	at := bpf.PodKey{Addr: wire.Local}
	check(t, r.objs.PutPodAt(at, uint32(r.pod)))
	check(t, r.objs.PodAt.Delete(at)) // its bit stays, as the programs set it
	wire = wire.OnWire()
	setOther(&r.flow, wire)
	setOther(&onWire, r.key)
	return wire, onWire
}

// withEnds gives a packet other ends.
func (p *packet6) withEnds(from, to netip.AddrPort) *packet6 {
	p.ip.SrcIP, p.ip.DstIP = from.Addr().AsSlice(), to.Addr().AsSlice()
	p.tcp.SrcPort, p.tcp.DstPort = layers.TCPPort(from.Port()), layers.TCPPort(to.Port())
	p.udp.SrcPort, p.udp.DstPort = layers.UDPPort(from.Port()), layers.UDPPort(to.Port())
	return p
}

// hopped6 is the same packet behind a router.
func hopped6(p *packet6, from, to net.HardwareAddr) *packet6 {
	p.ip.HopLimit--
	p.eth.SrcMAC, p.eth.DstMAC = from, to
	return p
}

// A carried packet has the addresses, ports and checksums that the network's own translation gives it, each way.
func TestTranslatesIPv6(t *testing.T) {
	for _, n := range nats6 {
		t.Run(n.name, func(t *testing.T) {
			protocols(t, func(t *testing.T, protocol layers.IPProtocol) {
				r, _, _ := newTranslated(t, bpf.Routed6, protocol, n)
				for i := range 300 { // sums of many values, those around zero too
					with := func(p *packet6) *packet6 {
						p.payload = binary.BigEndian.AppendUint16(bytes.Clone(p.payload), uint16(i*219))
						return p
					}
					p := with(r.podPacket6().withEnds(n.local, n.remote))
					verdict, out := r.run(t, r.objs.FromPod, r.pod, p.bytes(t))
					if want := hopped6(p.withEnds(n.wireLocal, n.wireOther), r.wireMAC, farMAC).bytes(t); verdict != redirect || !bytes.Equal(out, want) {
						t.Fatalf("verdict %d, counted %v, out comes\n% x, want\n% x", int32(verdict), r.counted(t), out, want)
					}
					p = with(r.received6().withEnds(n.wireOther, n.wireLocal))
					verdict, out = r.run(t, r.objs.FromWire, r.wire, p.bytes(t))
					if want := hopped6(p.withEnds(n.remote, n.local), gatewayMAC, podMAC).bytes(t); verdict != redirect || !bytes.Equal(out, want) {
						t.Fatalf("verdict %d, counted %v, in comes\n% x, want\n% x", int32(verdict), r.counted(t), out, want)
					}
				}
			})
		})
	}
}

// A datagram without a checksum, which tunnels may send over IPv6, stays without, as when the network
// translates it.
func TestTranslatesIPv6WithoutChecksum(t *testing.T) {
	testenv.Root(t)
	n := nats6[0]
	r, _, _ := newTranslated(t, bpf.Routed6, layers.IPProtocolUDP, n)
	const sum = 14 + 40 + 6 // offset
	frame := r.podPacket6().withEnds(n.local, n.remote).bytes(t)
	copy(frame[sum:], []byte{0, 0})
	verdict, out := r.run(t, r.objs.FromPod, r.pod, frame)
	want := hopped6(r.podPacket6().withEnds(n.wireLocal, n.wireOther), r.wireMAC, farMAC).bytes(t)
	copy(want[sum:], []byte{0, 0})
	if verdict != redirect || !bytes.Equal(out, want) {
		t.Errorf("verdict %d, out comes\n% x, want\n% x", int32(verdict), out, want)
	}
}

// expect6 runs a program over a packet, which is to be carried (Counts), or slow for a reason and unchanged.
func (r *rig) expect6(t *testing.T, p *ebpf.Program, device int, packet *packet6, slow bpf.Count) {
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

// A translated flow is what its two entries say together, and its addresses are those that have the numbers
// in them now: one whose number was taken back, or is being taken back, ends it.
func TestTranslatedApartIPv6(t *testing.T) {
	testenv.Root(t)
	onCore(t, 0)
	n := nats6[0]
	taken := func(addr netip.Addr, halfway bool) func(*testing.T, *rig, bpf.FlowKey) {
		return func(t *testing.T, r *rig, wire bpf.FlowKey) {
			check(t, r.objs.TakeBack(addr, halfway))
		}
	}
	for _, c := range []struct {
		name    string
		change  func(t *testing.T, r *rig, wire bpf.FlowKey)
		out, in bpf.Count // Counts: carried
	}{
		{"whole", func(*testing.T, *rig, bpf.FlowKey) {}, bpf.Counts, bpf.Counts},
		{"no entry on the wire", func(t *testing.T, r *rig, wire bpf.FlowKey) {
			check(t, errors.Join(r.objs.Flows.Delete(wire), r.objs.InvalidateSlots(wire)))
		}, bpf.Counts, bpf.SlowUnknown},
		{"no entry of the pod's", func(t *testing.T, r *rig, _ bpf.FlowKey) {
			check(t, errors.Join(r.objs.Flows.Delete(r.key), r.objs.InvalidateSlots(r.key)))
		}, bpf.SlowUnknown, bpf.SlowUnknown},
		{"entry of the pod's of another connection", func(t *testing.T, r *rig, _ bpf.FlowKey) {
			r.flow.Other.RemotePort++
			check(t, errors.Join(r.objs.PutFlow(r.key, r.flow), r.objs.InvalidateSlots(r.key)))
		}, bpf.Counts, bpf.SlowUnknown},
		{"rules changed", func(t *testing.T, r *rig, _ bpf.FlowKey) { check(t, r.objs.Epoch.Set(uint32(2))) }, bpf.SlowStale, bpf.SlowStale},
		{"number of the endpoint taken back", taken(n.wireOther.Addr(), false), bpf.SlowStale, bpf.SlowUnknown},
		{"number of the endpoint being taken back", taken(n.wireOther.Addr(), true), bpf.SlowStale, bpf.SlowUnknown},
		{"number of the virtual address taken back", taken(n.remote.Addr(), false), bpf.SlowUnknown, bpf.SlowStale},
		{"number of the virtual address being taken back", taken(n.remote.Addr(), true), bpf.SlowUnknown, bpf.SlowStale},
		{"another number of the endpoint", func(t *testing.T, r *rig, wire bpf.FlowKey) {
			check(t, r.objs.Renumber(n.wireOther.Addr(), 77))
			check(t, r.objs.PutPod(uint32(r.pod), r.podEntry)) // ends all slots
		}, bpf.SlowStale, bpf.SlowUnknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, wire, _ := newTranslated(t, bpf.Routed6, layers.IPProtocolUDP, n)
			try := func(out, in bpf.Count) {
				t.Helper()
				for range 2 { // the second finds what the first has left
					r.expect6(t, r.objs.FromPod, r.pod, r.podPacket6().withEnds(n.local, n.remote), out)
				}
				if in != bpf.Counts {
					in += bpf.PerDirection
				}
				for range 2 {
					r.expect6(t, r.objs.FromWire, r.wire, r.received6().withEnds(n.wireOther, n.wireLocal), in)
				}
			}
			try(bpf.Counts, bpf.Counts)
			c.change(t, r, wire)
			try(c.out, c.in)
			// From the pod to the other end directly, from the virtual address by the wire, and as another pod, are no
			// packets of the flow.
			if c.name == "whole" {
				r.expect6(t, r.objs.FromPod, r.pod, r.podPacket6().withEnds(n.wireLocal, n.wireOther), bpf.SlowUnknown)
				r.expect6(t, r.objs.FromWire, r.wire, r.received6().withEnds(n.remote, n.local), bpf.SlowUnknown+bpf.PerDirection)
				r.expect6(t, r.objs.FromPod, r.pod, r.podPacket6().withEnds(addrPort("[fd00:10:244::3]:4000"), n.remote), bpf.SlowSource)
				try(bpf.Counts, bpf.Counts)
			}
		})
	}
}

// The end of a connection ends both entries, whichever end says so.
func TestTranslatedEndsIPv6(t *testing.T) {
	testenv.Root(t)
	n := nats6[2]
	for _, way := range []string{"out", "in"} {
		r, wire, _ := newTranslated(t, bpf.Routed6, layers.IPProtocolTCP, n)
		p, program, device, counted := r.podPacket6().withEnds(n.local, n.remote), r.objs.FromPod, r.pod, bpf.SlowFlags
		if way == "in" {
			p, program, device, counted = r.received6().withEnds(n.wireOther, n.wireLocal), r.objs.FromWire, r.wire, bpf.SlowFlags+bpf.PerDirection
		}
		p.tcp.FIN = true
		r.expect6(t, program, device, p, counted)
		for _, k := range []bpf.FlowKey{r.key, wire} {
			if hasFlow(t, r.objs, k) {
				t.Errorf("%s: the entry %+v is left", way, k)
			}
		}
	}
}

// Told to, the programs leave translated flows alone.
func TestNoNATIPv6(t *testing.T) {
	testenv.Root(t)
	onCore(t, 0)
	n := nats6[0]
	r := rig6Of(t, layers.IPProtocolUDP, "no NAT "+bpf.Routed6, func() (*bpf.Objects, error) { return bpf.New(bpf.Routed6, bpf.Options{NoNAT: true}, 0) })
	wire, onWire := r.translate6(t, n)
	r.put(t)
	check(t, r.objs.PutFlow(wire, onWire))
	for range 2 {
		r.expect6(t, r.objs.FromPod, r.pod, r.podPacket6().withEnds(n.local, n.remote), bpf.SlowUnknown)
		r.expect6(t, r.objs.FromWire, r.wire, r.received6().withEnds(n.wireOther, n.wireLocal), bpf.SlowUnknown+bpf.PerDirection)
	}
}

// The slots of translated flows whose keys share a place in another order are not taken for each other's: each
// slot has a translation of its own.
func TestTranslationsOfSlotsIPv6(t *testing.T) {
	testenv.Root(t)
	onCore(t, 0)
	r := newRig6(t, layers.IPProtocolUDP)
	const flows = 200
	var all []nat
	for i := range uint16(flows) {
		n := nats6[0]
		n.local, n.wireLocal = netip.AddrPortFrom(podAddr6, 4000+i), netip.AddrPortFrom(podAddr6, 4000+i)
		n.remote, n.wireOther = netip.AddrPortFrom(n.remote.Addr(), 53+i%3), netip.AddrPortFrom(n.wireOther.Addr(), 5000+i)
		all = append(all, n)
		wire, onWire := r.translate6(t, n)
		r.put(t)
		check(t, r.objs.PutFlow(wire, onWire))
	}
	for round := range 2 {
		for i, n := range all {
			verdict, out := r.run(t, r.objs.FromPod, r.pod, r.podPacket6().withEnds(n.local, n.remote).bytes(t))
			want := hopped6(r.podPacket6().withEnds(n.wireLocal, n.wireOther), r.wireMAC, farMAC).bytes(t)
			if verdict != redirect || !bytes.Equal(out, want) {
				t.Fatalf("round %d, flow %d: verdict %d, out comes\n% x, want\n% x", round, i, int32(verdict), out, want)
			}
		}
	}
}

// A shadow leaves packets over IPv6 as they are, and records the bytes that the fast path sends in their place.
func TestShadowIPv6(t *testing.T) {
	for _, n := range append([]nat{{name: "not translated"}}, nats6...) {
		t.Run(n.name, func(t *testing.T) {
			protocols(t, func(t *testing.T, protocol layers.IPProtocol) {
				plain := newRig6(t, protocol)
				shadow, records := shadowOf(t, plain, bpf.Routed6)
				if !n.local.IsValid() {
					n = nat{"", netip.AddrPortFrom(podAddr6, 4000), netip.AddrPortFrom(remoteAddr6, 5000), netip.AddrPortFrom(podAddr6, 4000), netip.AddrPortFrom(remoteAddr6, 5000)}
				}
				for _, r := range []*rig{plain, shadow} {
					wire, onWire := r.translate6(t, n)
					r.podEntry.Addr = r.key.Local
					if n.remote == n.wireOther && n.local == n.wireLocal {
						r.flow.Translated = 0
					}
					r.put(t)
					if r.flow.Translated != 0 {
						check(t, r.objs.PutFlow(wire, onWire))
					}
				}
				out := plain.podPacket6().withEnds(n.local, n.remote)
				compareShadow(t, plain, shadow, records, "out", out.bytes(t))
				compareShadow(t, plain, shadow, records, "in", plain.received6().withEnds(n.wireOther, n.wireLocal).bytes(t))
			})
		})
	}
}

// A card may have given the sum of a whole packet from the wire. It is right behind the program, too: otherwise
// the kernel would sum the packet up again, and complain about the card.
func TestKeepsSumOfPacketIPv6(t *testing.T) {
	direct := nat{"not translated", nats6[0].local, nats6[0].wireOther, nats6[0].local, nats6[0].wireOther}
	for _, n := range append([]nat{direct}, nats6...) {
		t.Run(n.name, func(t *testing.T) {
			protocols(t, func(t *testing.T, protocol layers.IPProtocol) {
				const sumGiven = 1 << 2 // BPF_F_TEST_SKB_CHECKSUM_COMPLETE: the kernel sums up before the run, and compares after it
				r := newRig6(t, protocol)
				wire, onWire := r.translate6(t, n)
				if n.remote == n.wireOther && n.local == n.wireLocal {
					r.flow.Translated = 0
				} else {
					check(t, r.objs.PutFlow(wire, onWire))
				}
				r.put(t)
				for i := range 50 {
					p := r.received6().withEnds(n.wireOther, n.wireLocal)
					p.payload = binary.BigEndian.AppendUint16(bytes.Clone(p.payload), uint16(i*1311))
					packet := p.bytes(t)
					o := ebpf.RunOptions{Data: packet, DataOut: make([]byte, len(packet)+256), Context: skb{Ifindex: uint32(r.wire)}, Flags: sumGiven}
					verdict := next
					var failed error
					testenv.InNetns(t, r.netns, func() error { verdict, failed = r.objs.FromWire.Run(&o); return nil })
					if errors.Is(failed, unix.EINVAL) {
						t.Skip("this kernel's test gives no sums")
					}
					if failed != nil || verdict != redirect {
						t.Fatalf("packet %d: verdict %d, %v, counted %v", i, int32(verdict), failed, r.counted(t))
					}
				}
			})
		})
	}
}
