package bpf

import (
	"encoding/binary"
	"net"
	"net/netip"
)

// Outer holds the outer headers of packets to one peer.
type Outer struct {
	From, To      net.HardwareAddr // on the wire
	Local, Remote netip.Addr       // IPv4
	DSCP          uint8
	TTL           uint8 // with IPIP, 0: that of the pod's packet
	DontFragment  bool  // with IPIP, false: as the pod's packet says

	// Of VXLAN and Geneve alone.
	Port               uint16 // UDP, of the tunnel
	VNI                uint32
	InnerFrom, InnerTo net.HardwareAddr // of the tunnel's devices
}

// Lengths of headers, bytes.
const (
	ethLen   = 14
	ipLen    = 20
	udpLen   = 8
	vxlanLen = 8
)

// First words of a tunnel's header that says nothing but the VNI.
const (
	vxlanPlain  = 0x08000000 // the VNI holds
	genevePlain = 0x6558     // no options, and Ethernet inside
)

// VXLANPeer is a peer behind a tunnel. epoch must not be 0, device is the ifindex on the
// wire, and size that of the largest IP packet that fits, in bytes.
func VXLANPeer(epoch, device, size uint32, o Outer) Peer {
	return peerInUDP(epoch, device, size, vxlanPlain, o)
}

// GenevePeer is the same behind a tunnel of Geneve.
func GenevePeer(epoch, device, size uint32, o Outer) Peer {
	return peerInUDP(epoch, device, size, genevePlain, o)
}

func peerInUDP(epoch, device, size, plain uint32, o Outer) Peer {
	p := Peer{Epoch: epoch, Ifindex: device, Size: size}
	h := p.startOuter(o, 17 /* UDP */)
	h = append(h, 0, 0) // the source port is the flow's
	h = binary.BigEndian.AppendUint16(h, o.Port)
	h = append(h, 0, 0, 0, 0) // the length is the packet's; no checksum
	h = binary.BigEndian.AppendUint32(h, plain)
	h = binary.BigEndian.AppendUint32(h, o.VNI<<8)
	p.fill(ethernet(h, o.InnerFrom, o.InnerTo))
	return p
}

// IPIPPeer is the same behind a tunnel that puts only an IP header around packets.
func IPIPPeer(epoch, device, size uint32, o Outer) Peer {
	p := Peer{Epoch: epoch, Ifindex: device, Size: size}
	p.fill(p.startOuter(o, 4 /* IP in IP */))
	return p
}

// startOuter makes the headers up to the outer IP header, and sums that up.
func (p *vxlanPeer) startOuter(o Outer, protocol uint8) []byte {
	h := ethernet(make([]byte, 0, 8*len(p.Header)), o.From, o.To)
	h = append(h, 4<<4|ipLen/4, o.DSCP<<2, 0, 0, 0, 0, 0, 0, o.TTL, protocol, 0, 0)
	if o.DontFragment {
		h[ethLen+6] |= 0x40
	}
	h = append(append(h, o.Local.AsSlice()...), o.Remote.AsSlice()...)
	for i := 0; i < ipLen; i += 2 {
		p.Sum += uint32(binary.NativeEndian.Uint16(h[ethLen+i:]))
	}
	for p.Sum > 0xffff {
		p.Sum = p.Sum&0xffff + p.Sum>>16
	}
	return h
}

// NewHopKey is the key of a next hop that packets are sent to by a device on the wire: its MAC,
// which is the inner one in a tunnel, or its address on the wire, if there are no MACs in the tunnel.
func NewHopKey(device int, to []byte) HopKey {
	k := HopKey{Ifindex: uint32(device)}
	copy(k.Mac[:], to)
	return k
}

// RoutedPeer is a peer without a tunnel.
func RoutedPeer(epoch, device, size uint32, from, to net.HardwareAddr) Peer {
	p := Peer{Epoch: epoch, Ifindex: device, Size: size}
	p.fill(ethernet(nil, from, to))
	return p
}

// NewPod is a pod. epoch must not be 0, size is that of the largest IP packet that it
// accepts, in bytes, and gateway is the source MAC of packets to it. With an address of IPv6, the
// caller sets what [Objects.AddrWord] gives.
func NewPod(epoch, tenant uint32, size uint16, addr netip.Addr, mac, gateway net.HardwareAddr) Pod {
	p := Pod{Epoch: epoch, Tenant: tenant, Size: size, Addr: word(addr)}
	h := ethernet(nil, gateway, mac)
	for i := range p.Header {
		p.Header[i] = binary.NativeEndian.Uint16(h[2*i:])
	}
	return p
}

func (p *vxlanPeer) fill(header []byte) {
	header = append(header, make([]byte, 8*len(p.Header)-len(header))...)
	for i := range p.Header {
		p.Header[i] = binary.NativeEndian.Uint64(header[8*i:])
	}
}

// Remote is the address on the wire of a peer behind a tunnel.
func (p vxlanPeer) Remote() netip.Addr {
	const at = ethLen + ipLen - 4 // of the destination in the outer header
	var h []byte
	for _, word := range p.Header {
		h = binary.NativeEndian.AppendUint64(h, word)
	}
	return netip.AddrFrom4([4]byte(h[at:]))
}

// ethernet appends a header for IPv4.
func ethernet(b []byte, from, to net.HardwareAddr) []byte {
	return append(append(append(b, to...), from...), 0x08, 0x00)
}

// word is an IPv4 address in network byte order; 0: it is none.
func word(a netip.Addr) uint32 {
	if !a.Is4() {
		return 0
	}
	return binary.NativeEndian.Uint32(a.AsSlice())
}

// NewFlowKey is the key of a flow; the tenant is its VNI, or 0.
func NewFlowKey(tenant uint32, protocol uint8, local, remote netip.AddrPort) FlowKey {
	return FlowKey{
		TenantProto: tenant<<8 | uint32(protocol),
		Local:       word(local.Addr()), Remote: word(remote.Addr()),
		LocalPort: swap(local.Port()), RemotePort: swap(remote.Port()),
	}
}
