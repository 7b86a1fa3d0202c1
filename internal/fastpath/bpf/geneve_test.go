package bpf_test

import (
	"bytes"
	"testing"

	"github.com/gopacket/gopacket/layers"

	"github.com/venturi-net/venturi/internal/fastpath/bpf"
)

// plainHeader is what the header of a tunnel in UDP begins with that says nothing but the VNI.
var plainHeader = map[string]uint32{bpf.VXLAN: 0x08000000, bpf.Geneve: 0x6558}

const inUDPKinds = bpf.VXLAN + " " + bpf.Geneve

// inUDP tells whether packets travel in UDP.
func inUDP(kind string) bool { return plainHeader[kind] != 0 }

// encapsulateFor says what is behind the outer IP header, as the peer or this host sends it.
func (p *packet) encapsulateFor(kind string) {
	p.vxlan = layers.VXLAN{ValidIDFlag: true, VNI: vni}
	switch kind {
	case bpf.Geneve:
		p.geneve = plainHeader[kind]
	case bpf.IPIP:
		p.outerIP.Protocol = layers.IPProtocolIPv4
	}
}

// A packet gets a header of Geneve without options, and loses it. The outer IP header has the TTL, DF and
// DSCP of the tunnel.
func TestGeneveCarries(t *testing.T) {
	protocols(t, func(t *testing.T, protocol layers.IPProtocol) {
		for _, outer := range []bpf.Outer{{TTL: 64}, {TTL: 9, DontFragment: true, DSCP: 46}} {
			r := newRig(t, bpf.Geneve, protocol)
			outer.From, outer.To, outer.Local, outer.Remote = r.wireMAC, farMAC, localVTEP, remoteVTEP
			outer.Port, outer.VNI, outer.InnerFrom, outer.InnerTo = port, vni, tunnelMAC, farTunnelMAC
			r.peer = bpf.GenevePeer(5, uint32(r.wire), 1450, outer)
			r.put(t)
			for _, tos := range []uint8{0, 1, 2, 3, 0xb8} {
				p := r.podPacket()
				p.ip.TOS = tos
				verdict, out := r.run(t, r.objs.FromPod, r.pod, p.bytes(t))
				if verdict != redirect {
					t.Fatalf("verdict %d, counted %v", int32(verdict), r.counted(t))
				}
				want := r.forwarded(bpf.Geneve)
				want.ip.TOS, want.outerIP.Id, want.outerUDP.SrcPort = tos, p.ip.Id, 0xc001
				want.outerIP.TOS, want.outerIP.TTL = outer.DSCP<<2|tos&3, outer.TTL
				if outer.DontFragment {
					want.outerIP.Flags = layers.IPv4DontFragment
				}
				if want := want.bytes(t); !bytes.Equal(out, want) {
					t.Errorf("tos %#x, %+v: out comes\n% x, want\n% x", tos, outer, out, want)
				}
			}
			p := r.received(bpf.Geneve)
			verdict, out := r.run(t, r.objs.FromWire, r.wire, p.bytes(t))
			if want := hopped(p, gatewayMAC, podMAC).bytes(t); verdict != redirect || !bytes.Equal(out, want) {
				t.Errorf("verdict %d, in comes\n% x, want\n% x", int32(verdict), out, want)
			}
		}
	})
}
