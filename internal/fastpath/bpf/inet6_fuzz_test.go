package bpf_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"testing"

	"github.com/gopacket/gopacket/layers"

	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/testenv"
)

// reads6 reads a frame, by what is written of packets, and not by how the programs parse them: the protocol and the
// ends of its flow. false: no flow has it, or it opens or ends one.
func reads6(frame []byte) (protocol byte, ends [2]fuzzEnd, ok bool) {
	const eth, ip = 14, 40
	if len(frame) < eth+ip+8 || binary.BigEndian.Uint16(frame[12:]) != 0x86dd {
		return protocol, ends, false
	}
	header, transport := frame[eth:eth+ip], frame[eth+ip:]
	protocol = header[6]
	for i := range ends {
		ends[i] = fuzzEnd{header[8+16*i:][:16], binary.BigEndian.Uint16(transport[2*i:])}
	}
	payload := int(binary.BigEndian.Uint16(header[4:]))
	switch {
	case header[0]>>4 != 6 || header[7] < 2:
		return protocol, ends, false
	case protocol == byte(layers.IPProtocolUDP):
		return protocol, ends, payload >= 8 && int(binary.BigEndian.Uint16(transport[4:])) == payload
	case protocol != byte(layers.IPProtocolTCP) || len(transport) < 20:
		return protocol, ends, false
	}
	offset := int(transport[12]>>4) * 4
	return protocol, ends, transport[13]&0x17 == 0x10 && offset >= 20 && payload >= offset
}

// carries6 is the reference: it says whether a frame is carried whose flow is that between two ends. from and to are
// its MACs.
func carries6(frame []byte, protocol byte, ends [2]fuzzEnd, from, to []byte) bool {
	is, of, ok := reads6(frame)
	return ok && hasMACs(frame, from, to) && is == protocol && of[0].equal(ends[0]) && of[1].equal(ends[1]) && 40+int(binary.BigEndian.Uint16(frame[14+4:])) <= 1500
}

func hasMACs(frame, from, to []byte) bool {
	return bytes.Equal(frame[:6], to) && bytes.Equal(frame[6:12], from)
}

type fuzzEnd struct {
	addr []byte
	port uint16
}

func (e fuzzEnd) equal(other fuzzEnd) bool {
	return bytes.Equal(e.addr, other.addr) && e.port == other.port
}

func (e fuzzEnd) addrPort() netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom16([16]byte(e.addr)), e.port)
}

func fuzzEnds(from, to netip.AddrPort) [2]fuzzEnd {
	return [2]fuzzEnd{{from.Addr().AsSlice(), from.Port()}, {to.Addr().AsSlice(), to.Port()}}
}

// withEnds6 is a frame with other ends, and the checksum that the network's own translation gives it: one
// change of it for addresses, and one for ports.
func withEnds6(frame []byte, protocol byte, to [2]fuzzEnd) []byte {
	const addrs, ports = 14 + 8, 14 + 40
	frame = bytes.Clone(frame)
	check := frame[ports+6:][:2]
	if protocol == byte(layers.IPProtocolTCP) {
		check = frame[ports+16:][:2]
	}
	newPorts := binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, to[0].port), to[1].port)
	for _, part := range []struct {
		at int
		is []byte
	}{{addrs, slices.Concat(to[0].addr, to[1].addr)}, {ports, newPorts}} {
		was := bytes.Clone(frame[part.at : part.at+len(part.is)])
		copy(frame[part.at:], part.is)
		if bytes.Equal(was, part.is) || protocol == byte(layers.IPProtocolUDP) && check[0]|check[1] == 0 {
			continue
		}
		if replace(check, was, part.is); protocol == byte(layers.IPProtocolUDP) && check[0]|check[1] == 0 {
			check[0], check[1] = 0xff, 0xff
		}
	}
	return frame
}

// Packets of IPv6 with bytes changed at random are carried if and only if the reference says so. What is
// carried has other MACs and one hop less, and is translated if its flow is; anything else is left as it is.
func TestFuzzIPv6(t *testing.T) {
	testenv.Root(t)
	onCore(t, 0)
	seed, most := testenv.Generated(t, fuzzEnv, fewFuzzed)
	t.Logf("%s=%d:%d", fuzzEnv, seed, most)
	rng := rand.New(rand.NewPCG(seed, 11))
	direct := nat{"not translated", nats6[0].local, nats6[0].wireOther, nats6[0].local, nats6[0].wireOther}
	for _, n := range []nat{direct, nats6[0], nats6[2], nats6[4]} {
		for _, protocol := range []layers.IPProtocol{layers.IPProtocolTCP, layers.IPProtocolUDP} {
			t.Run(n.name+", "+protocol.String(), func(t *testing.T) { fuzz6(t, rng, n, protocol, most/4) })
		}
	}
}

func fuzz6(t *testing.T, rng *rand.Rand, n nat, protocol layers.IPProtocol, packets int) {
	r := newRig6(t, protocol)
	wire, onWire := r.translate6(t, n)
	known := func() { // SYN, FIN and RST end what is known of the flow
		r.put(t)
		check(t, r.objs.InvalidateSlots(r.key))
		if r.flow.Translated != 0 {
			check(t, errors.Join(r.objs.PutFlow(wire, onWire), r.objs.InvalidateSlots(wire)))
		}
	}
	if n.local == n.wireLocal && n.remote == n.wireOther {
		r.flow.Translated = 0
	}
	carried := 0
	for i := range packets {
		if i%64 == 0 {
			known()
		}
		p, program, device := r.podPacket6().withEnds(n.local, n.remote), r.objs.FromPod, r.pod
		ends, newEnds := fuzzEnds(n.local, n.remote), fuzzEnds(n.wireLocal, n.wireOther)
		from, to, newFrom, newTo := podMAC, gatewayMAC, r.wireMAC, farMAC
		if i%2 == 1 {
			p, program, device = r.received6().withEnds(n.wireOther, n.wireLocal), r.objs.FromWire, r.wire
			ends, newEnds = fuzzEnds(n.wireOther, n.wireLocal), fuzzEnds(n.remote, n.local)
			from, to, newFrom, newTo = farMAC, r.wireMAC, gatewayMAC, podMAC
		}
		p.ip.TrafficClass, p.ip.FlowLabel, p.ip.HopLimit = uint8(rng.Uint32()), rng.Uint32()&0xfffff, uint8(rng.Uint32())
		p.payload = make([]byte, rng.IntN(1600))
		for i := range p.payload {
			p.payload[i] = byte(rng.Uint32())
		}
		frame := p.bytes(t)
		for range rng.IntN(3) {
			frame[rng.IntN(min(len(frame), 14+40+20))] ^= 1 << rng.IntN(8)
		}
		if at := 14 + 40 + 6; protocol == layers.IPProtocolUDP && rng.IntN(8) == 0 { // a checksum, or none
			binary.BigEndian.PutUint16(frame[at:], []uint16{0, 1, 0xffff, 0xfffe, uint16(rng.Uint32())}[rng.IntN(5)])
		}
		if frame[0]&1 != 0 || !bytes.Equal(frame[:6], to) {
			copy(frame, to) // the kernel's test takes it for one of another host
		}
		want := carries6(frame, byte(protocol), ends, from, to)
		length := 14 + 40 + int(binary.BigEndian.Uint16(frame[14+4:]))
		if length > len(frame) || device == r.pod && length != len(frame) {
			want = false
		}
		verdict, out := r.run(t, program, device, frame)
		if !want {
			if verdict != next || !bytes.Equal(out, frame) {
				t.Fatalf("packet %d: verdict %d for\n% x, left as\n% x", i, int32(verdict), frame, out)
			}
			known()
			continue
		}
		carried++
		expected := withEnds6(frame, byte(protocol), newEnds)
		copy(expected, newTo)
		copy(expected[6:], newFrom)
		expected[14+7]--
		if verdict != redirect || !bytes.Equal(out, expected) {
			t.Fatalf("packet %d: verdict %d for\n% x, comes\n% x, want\n% x, counted %v", i, int32(verdict), frame, out, expected, r.counted(t))
		}
	}
	if carried < packets/10 {
		t.Errorf("of %d packets, only %d are carried", packets, carried)
	}
}

// Packets of IPv6 that a pod sends to its sibling, with bytes changed at random, are carried if and only if the
// reference says so, with the headers that the network gives them; anything else is left as it is.
func TestFuzzSiblingIPv6(t *testing.T) {
	testenv.Root(t)
	onCore(t, 0)
	seed, packets := testenv.Generated(t, fuzzEnv, fewFuzzed)
	t.Logf("%s=%d:%d", fuzzEnv, seed, packets)
	for i, l := range deliveries6 {
		for _, protocol := range []layers.IPProtocol{layers.IPProtocolTCP, layers.IPProtocolUDP} {
			t.Run(l.name+", "+protocol.String(), func(t *testing.T) {
				fuzzSibling6(t, newSiblingRig(t, bpf.Routed6, protocol, l), rand.New(rand.NewPCG(seed, uint64(i))), max(packets/4, 1))
			})
		}
	}
}

func fuzzSibling6(t *testing.T, b *siblingRig, rng *rand.Rand, packets int) {
	t.Helper()
	ends := [2]fuzzEnd{{podAddr6.AsSlice(), 4000}, {siblingAddr6.AsSlice(), 5000}}
	sentTo, carried := b.podFrame().parts().eth.DstMAC, 0
	forget := func() { // packets may end what is known of the flow, or of its pod's MAC
		b.put(t)
		check(t, b.objs.InvalidateSlots(b.key))
	}
	forget()
	for i := range packets {
		p := b.podFrame().(*packet6)
		p.ip.TrafficClass, p.ip.FlowLabel, p.ip.HopLimit = uint8(rng.Uint32()), rng.Uint32()&0xfffff, uint8(rng.Uint32())
		p.payload = make([]byte, rng.IntN(1500))
		if rng.IntN(20) == 0 {
			p.eth.DstMAC = []net.HardwareAddr{gatewayMAC, siblingMAC, farMAC}[rng.IntN(3)]
		}
		frame := p.bytes(t)
		for range rng.IntN(3) {
			frame[rng.IntN(min(len(frame), 14+40+20))] ^= 1 << rng.IntN(8)
		}
		length := 40 + int(binary.BigEndian.Uint16(frame[14+4:]))
		want := carries6(frame, byte(b.protocol), ends, podMAC, sentTo) && length+14 == len(frame) && length <= int(b.sibling.Size)
		verdict, out := b.run(t, b.objs.FromPod, b.pod, frame)
		if !want {
			if verdict != next || !bytes.Equal(out, frame) {
				t.Fatalf("packet %d: verdict %d for\n% x, left as\n% x", i, int32(verdict), frame, out)
			}
			forget()
			continue
		}
		carried++
		expected := append(bytes.Clone(siblingMAC), frame[6:]...)
		if !b.bridged {
			copy(expected[6:], siblingGateway)
			expected[14+7]--
		}
		if verdict != redirect || !bytes.Equal(out, expected) {
			t.Fatalf("packet %d: verdict %d for\n% x, comes\n% x, want\n% x, counted %v", i, int32(verdict), frame, out, expected, b.counted(t))
		}
	}
	if carried < packets/10 {
		t.Errorf("of %d packets, only %d are carried", packets, carried)
	}
}
