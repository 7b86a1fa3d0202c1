package bpf_test

import (
	"net"
	"net/netip"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"github.com/venturi-net/venturi/internal/fastpath/bpf"
)

// siblingAddr6 is that of the sibling, where the flow is over IPv6.
var siblingAddr6 = netip.MustParseAddr("fd00:10:244::3")

var siblingEnds6 = [2]netip.AddrPort{netip.AddrPortFrom(podAddr6, 4000), netip.AddrPortFrom(siblingAddr6, 5000)}

// deliveries6 are those of IPv6, which does not carry what is translated.
var deliveries6 = []delivery{
	{"routed over IPv6", false, nat{"", siblingEnds6[0], siblingEnds6[1], siblingEnds6[0], siblingEnds6[1]}},
	{"bridged over IPv6", true, nat{"", siblingEnds6[0], siblingEnds6[1], siblingEnds6[0], siblingEnds6[1]}},
}

// siblingRig is a rig with a second pod, to which its flow goes.
type siblingRig struct {
	*rig
	delivery
	reverse     bpf.FlowKey // of what the other pod sends back
	reverseFlow bpf.Flow
	sibling     bpf.Pod
}

// newSiblingRig is one of a kind of fast path; if the ends of the flow are of IPv6, of the one that there is for it.
func newSiblingRig(t testing.TB, kind string, protocol layers.IPProtocol, l delivery) *siblingRig {
	t.Helper()
	if l.isIPv6() {
		return newSiblingRig6(t, protocol, l)
	}
	b := &siblingRig{rig: newRig(t, kind, protocol), delivery: l}
	tenant := b.key.TenantProto >> 8
	b.sibling = bpf.NewPod(16, tenant, 1400, siblingAddr, siblingMAC, siblingGateway)
	b.key = bpf.NewFlowKey(tenant, uint8(protocol), l.nat.local, l.nat.remote)
	b.reverse = bpf.NewFlowKey(tenant, uint8(protocol), l.nat.wireOther, l.nat.wireLocal)
	b.join()
	if l.nat.local != l.nat.wireLocal || l.nat.remote != l.nat.wireOther {
		setOther(&b.flow, bpf.NewFlowKey(tenant, uint8(protocol), l.nat.wireLocal, l.nat.wireOther))
		setOther(&b.reverseFlow, bpf.NewFlowKey(tenant, uint8(protocol), l.nat.remote, l.nat.local))
	}
	return b
}

func newSiblingRig6(t testing.TB, protocol layers.IPProtocol, l delivery) *siblingRig {
	t.Helper()
	b := &siblingRig{rig: newRig6(t, protocol), delivery: l}
	b.sibling = bpf.NewPod(16, 0, 1400, siblingAddr6, siblingMAC, siblingGateway)
	var err error
	b.sibling.Addr, err = b.objs.AddrWord(siblingAddr6)
	check(t, err)
	b.key, _, err = b.objs.Key(0, uint8(protocol), l.nat.local, l.nat.remote)
	check(t, err)
	b.reverse, _, err = b.objs.Key(0, uint8(protocol), l.nat.remote, l.nat.local)
	check(t, err)
	b.join()
	return b
}

// join makes both pods siblings, with an entry of the flow for each.
func (b *siblingRig) join() {
	b.sibling.MacEpoch = b.sibling.Epoch
	b.podEntry.Sibling, b.sibling.Sibling = 1, 1
	b.podEntry.IngressIfindex, b.sibling.IngressIfindex = uint32(b.pod), uint32(b.wire)
	way := uint32(bpf.Sibling)
	if b.bridged {
		b.podEntry.IngressIfindex, b.sibling.IngressIfindex = siblingBridge, siblingBridge
		way |= bridged
	}
	b.flow = bpf.Flow{Epoch: 1, SeenOut: 1, SeenIn: 1, Pod: uint32(b.pod), PodEpoch: b.podEntry.Epoch, Peer: way | uint32(b.wire), PeerEpoch: b.sibling.Epoch}
	b.reverseFlow = bpf.Flow{Epoch: 1, SeenOut: 1, SeenIn: 1, Pod: uint32(b.wire), PodEpoch: b.sibling.Epoch, Peer: way | uint32(b.pod), PeerEpoch: b.podEntry.Epoch}
}

// setOther makes a flow one that is translated.
func setOther(f *bpf.Flow, other bpf.FlowKey) {
	f.Translated = 1
	f.Other.Local, f.Other.Remote, f.Other.LocalPort, f.Other.RemotePort = other.Local, other.Remote, other.LocalPort, other.RemotePort
}

func (b *siblingRig) put(t testing.TB) {
	t.Helper()
	local := b.key.Local
	b.key.Local = b.podEntry.Addr // if it is translated, the key may have another
	b.rig.put(t)
	b.key.Local = local
	tenant := b.key.TenantProto >> 8
	check(t, b.objs.PutPodAt(bpf.PodKey{Tenant: tenant, Addr: b.sibling.Addr}, uint32(b.wire)))
	check(t, b.objs.PutPod(uint32(b.wire), b.sibling))
	check(t, b.objs.PutFlow(b.key, b.flow))
	check(t, b.objs.PutFlow(b.reverse, b.reverseFlow))
}

func (l delivery) isIPv6() bool { return l.nat.local.Addr().Is6() }

// siblingFrame is a packet of either version of IP. The parts of it are those that tests change.
type siblingFrame interface {
	bytes(t testing.TB) []byte
	parts() frameParts
}

type frameParts struct {
	eth      *layers.Ethernet
	src, dst net.IP // its bytes are the packet's
	hops     *uint8
	tcp      *layers.TCP
	payload  *gopacket.Payload
}

func (p *packet) parts() frameParts {
	return frameParts{&p.eth, p.ip.SrcIP, p.ip.DstIP, &p.ip.TTL, &p.tcp, &p.payload}
}

func (p *packet6) parts() frameParts {
	return frameParts{&p.eth, p.ip.SrcIP, p.ip.DstIP, &p.ip.HopLimit, &p.tcp, &p.payload}
}

// packetOf is a packet of the flow between two ends.
func (b *siblingRig) packetOf(from, to netip.AddrPort) siblingFrame {
	if !b.isIPv6() {
		return b.podPacket().withEnds(from, to)
	}
	p := b.podPacket6()
	p.ip.SrcIP, p.ip.DstIP = from.Addr().AsSlice(), to.Addr().AsSlice()
	return p
}

// podFrame is a packet of the flow as its pod sends it: to its gateway, or by a bridge to the other pod's MAC.
func (b *siblingRig) podFrame() siblingFrame {
	p := b.packetOf(b.nat.local, b.nat.remote)
	if to := b.nat.remote.Addr(); b.bridged && (to == siblingAddr || to == siblingAddr6) {
		p.parts().eth.DstMAC = siblingMAC
	}
	return p
}

// handedOn is the same packet as the other pod gets it.
func (b *siblingRig) handedOn() siblingFrame {
	p := b.packetOf(b.nat.wireLocal, b.nat.wireOther)
	is := p.parts()
	is.eth.SrcMAC, is.eth.DstMAC = podMAC, siblingMAC
	if !b.bridged {
		is.eth.SrcMAC = siblingGateway
		*is.hops--
	}
	return p
}
