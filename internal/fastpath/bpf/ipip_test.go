package bpf_test

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/gopacket/gopacket/layers"

	"github.com/venturi-net/venturi/internal/fastpath/bpf"
)

// The outer header of IPIP has a TTL and DF of its own, or those of the packet in it.
func TestIPIPCarries(t *testing.T) {
	protocols(t, func(t *testing.T, protocol layers.IPProtocol) {
		for _, outer := range []bpf.Outer{{}, {TTL: 9}, {DontFragment: true}, {TTL: 255, DontFragment: true, DSCP: 46}} {
			t.Run(fmt.Sprintf("TTL %d, DF %v, DSCP %d", outer.TTL, outer.DontFragment, outer.DSCP), func(t *testing.T) {
				r := newRig(t, bpf.IPIP, protocol)
				outer.From, outer.To, outer.Local, outer.Remote = r.wireMAC, farMAC, localVTEP, remoteVTEP
				r.peer = bpf.IPIPPeer(5, uint32(r.wire), 1480, outer)
				r.put(t)
				for _, tos := range []uint8{0, 1, 2, 3, 0xb8} {
					for _, flags := range []layers.IPv4Flag{0, layers.IPv4DontFragment} {
						p := r.podPacket()
						p.ip.TOS, p.ip.Flags, p.ip.TTL = tos, flags, 33
						verdict, out := r.run(t, r.objs.FromPod, r.pod, p.bytes(t))
						if verdict != redirect {
							t.Fatalf("verdict %d, counted %v", int32(verdict), r.counted(t))
						}
						p.outerEth = layers.Ethernet{SrcMAC: r.wireMAC, DstMAC: farMAC, EthernetType: layers.EthernetTypeIPv4}
						p.outerIP = layers.IPv4{Version: 4, IHL: 5, TOS: outer.DSCP<<2 | tos&3, TTL: 32, Id: p.ip.Id, Flags: flags, Protocol: layers.IPProtocolIPv4, SrcIP: localVTEP.AsSlice(), DstIP: remoteVTEP.AsSlice()}
						if outer.TTL != 0 {
							p.outerIP.TTL = outer.TTL
						}
						if outer.DontFragment {
							p.outerIP.Flags = layers.IPv4DontFragment
						}
						hopped(p, nil, nil).encapsulated = true
						if want := p.bytes(t); !bytes.Equal(out, want) {
							t.Errorf("tos %#x, flags %v, %+v: out comes\n% x, want\n% x", tos, flags, outer, out, want)
						}
					}
				}
			})
		}
		r := newRig(t, bpf.IPIP, protocol)
		r.put(t)
		p := r.received(bpf.IPIP)
		verdict, out := r.run(t, r.objs.FromWire, r.wire, p.bytes(t))
		if want := hopped(p, gatewayMAC, podMAC).bytes(t); verdict != redirect || !bytes.Equal(out, want) {
			t.Errorf("verdict %d, in comes\n% x, want\n% x", int32(verdict), out, want)
		}
	})
}

// encapsulateIP is what the reference puts around a packet that leaves: the headers of the peer, and
// the packet's TTL and DF where they have none.
func (r *reference) encapsulateIP(out, ip []byte, h header) []byte {
	outer := out[14:]
	binary.BigEndian.PutUint16(outer[2:], uint16(h.length+20))
	outer[6] |= ip[6] & 0x40
	outer[8] = cmp.Or(outer[8], ip[8])
	binary.BigEndian.PutUint16(outer[10:], ^words(outer))
	return append(out, ip...)
}

// isIPIP tells whether there is an IP packet in a frame's, as far as it goes.
func isIPIP(frame []byte) bool {
	return len(frame) >= 62 && isIPv4(frame) && frame[14] == 0x45 && frame[23] == 4
}

// isKnownSender says whether the addresses around a packet by the wire are the peer's and ours: nobody
// else ends a flow.
func (r *reference) isKnownSender(frame []byte) bool {
	if r.kind == bpf.Routed {
		return true
	}
	known := bytes.Equal(frame[26:30], r.peer[30:34]) && bytes.Equal(frame[30:34], r.peer[26:30])
	return known && (r.kind == bpf.IPIP || bytes.Equal(frame[46:50], r.peer[46:50]) && bytes.Equal(frame[50:56], r.peer[56:62]) && bytes.Equal(frame[56:62], r.peer[50:56]))
}

// fromIPIPPeer says why a packet is not as the peer sends it.
func (r *reference) fromIPIPPeer(frame []byte, h header) bpf.Count {
	switch {
	case !r.isKnownSender(frame):
		return bpf.SlowSource
	case int(binary.BigEndian.Uint16(frame[16:])) != (h.length+20)&0xffff:
		return bpf.SlowSize
	case words(frame[14:34]) != 0xffff:
		return bpf.SlowChecksum
	case (frame[15]^h.tos)&3 != 0:
		return bpf.SlowECN
	}
	return bpf.CarriedOut
}

// toIPIPPeer says whether a packet on the wire is one of a flow that is learned, and which.
func (r *reference) toIPIPPeer(frame []byte) (h header, learned bool) {
	same := func(from, to int) bool { return bytes.Equal(frame[from:to], r.peer[from:to]) }
	if !isIPIP(frame) || !same(0, 12) || !same(26, 34) || (frame[15]^r.peer[15])&^3 != 0 {
		return h, false
	}
	if frame[20] != r.peer[20]|frame[40]&0x40 || frame[21] != 0 || frame[22] != cmp.Or(r.peer[22], frame[42]) {
		return h, false
	}
	h, why := reads(frame[34:], false)
	return h, why == bpf.CarriedOut && !h.flags && r.find(h.protocol, h.ends, true) != nil
}
