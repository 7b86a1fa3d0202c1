package bpf_test

import (
	"bytes"
	"encoding/binary"

	"github.com/venturi-net/venturi/internal/fastpath/bpf"
)

// reference says what the programs do with a packet, in Go: their verdict, the packet that they
// leave, and what they count. It knows a few flows, the pod of them and their peer.
type reference struct {
	kind    string
	flows   []*referenceFlow
	peer    []byte // the headers that lead to it
	pod     []byte // the Ethernet header that leads there
	podAddr [4]byte
	wireMAC []byte
	tenant  uint32
	outSize int // largest IP packet to the peer, and into the pod
	inSize  int

	confirmed bool // the pod has sent from its known MAC
}

// referenceFlow is a flow that the tables have.
type referenceFlow struct {
	protocol  byte
	pod, wire tuple // as its pod sees it, and the wire
	port      []byte

	isGone bool // a packet has ended it
	warm   bool // what pods send of it has a slot
}

// tuple is the local and the remote address and port.
type tuple [12]byte

func (f *referenceFlow) translated() bool { return f.pod != f.wire }

// outcome is what becomes of a packet.
type outcome struct {
	carried bool
	packet  []byte    // that is left; nil: the same
	count   bpf.Count // bpf.Counts: nothing is counted
}

func slowFor(why bpf.Count) outcome   { return outcome{count: why} }
func slowInFor(why bpf.Count) outcome { return outcome{count: bpf.PerDirection + why} }

var uncounted = outcome{count: bpf.Counts}

// header is what is read of an IP packet.
type header struct {
	protocol byte
	tos, ttl byte
	length   int
	flags    bool // it opens or ends a connection
	closes   bool // it ends one
	ends     tuple
}

// reads reads an IP packet, up to the end of the frame. into: it is on its way into a pod.
func reads(ip []byte, into bool) (h header, why bpf.Count) {
	const first, fine = 28, bpf.CarriedOut
	switch {
	case len(ip) < first:
		return h, bpf.SlowNotIPv4
	case ip[0]>>4 != 4:
		return h, bpf.SlowNotIPv4
	case ip[0] != 0x45:
		return h, bpf.SlowOptions
	case binary.BigEndian.Uint16(ip[6:])&0xbfff != 0:
		return h, bpf.SlowFragment
	case ip[8] <= 1:
		return h, bpf.SlowTTL
	}
	h = header{protocol: ip[9], tos: ip[1], ttl: ip[8], length: int(binary.BigEndian.Uint16(ip[2:]))}
	headers := first
	switch h.protocol {
	case 6:
		if len(ip) < 40 {
			return h, bpf.SlowNotIPv4
		}
		headers = 20 + int(ip[32]>>4)*4
		if headers < 40 {
			return h, bpf.SlowSize
		}
		h.flags, h.closes = ip[33]&7 != 0 || ip[33]&0x10 == 0, ip[33]&5 != 0
	case 17:
		if int(binary.BigEndian.Uint16(ip[24:])) != (h.length-20)&0xffff {
			return h, bpf.SlowSize
		}
	default:
		return h, bpf.SlowProtocol
	}
	if h.length < headers {
		return h, bpf.SlowSize
	}
	local, remote := 0, 4
	if into {
		local, remote = 4, 0
	}
	copy(h.ends[0:], ip[12+local:][:4])
	copy(h.ends[4:], ip[12+remote:][:4])
	copy(h.ends[8:], ip[20+local/2:][:2])
	copy(h.ends[10:], ip[20+remote/2:][:2])
	return h, fine
}

// find finds the flow that a pod sees, or the wire.
func (r *reference) find(protocol byte, ends tuple, onWire bool) *referenceFlow {
	for _, f := range r.flows {
		if is := f.pod; f.protocol == protocol && !f.isGone && (!onWire && is == ends || onWire && f.wire == ends) {
			return f
		}
	}
	return nil
}

func isIPv4(frame []byte) bool { return frame[12] == 8 && frame[13] == 0 }

// fromPod is what becomes of a packet that the pod sends.
func (r *reference) fromPod(frame []byte) outcome {
	fromOwn := bytes.Equal(frame[6:12], r.pod[:6])
	own := fromOwn && bytes.Equal(frame[:6], r.pod[6:12])
	if !isIPv4(frame) {
		r.confirmed = fromOwn
		return slowFor(bpf.SlowNotIPv4)
	}
	h, why := reads(frame[14:], false)
	if why != bpf.CarriedOut {
		return slowFor(why)
	}
	f := r.find(h.protocol, h.ends, false)
	if f != nil && f.warm && !h.flags && !own {
		f.isGone, r.confirmed = true, fromOwn
		return slowFor(bpf.SlowSource)
	}
	if f == nil || !f.warm || h.flags {
		if !own || [4]byte(h.ends[:]) != r.podAddr {
			if r.confirmed = fromOwn; f != nil && h.closes {
				f.isGone = true
			}
			return slowFor(bpf.SlowSource)
		}
		r.confirmed = true
		if h.flags {
			if f != nil {
				f.isGone = true
			}
			return slowFor(bpf.SlowFlags)
		}
		if f == nil {
			return slowFor(bpf.SlowUnknown)
		}
		f.warm = true
	}
	if h.length > r.outSize || h.length+14 != len(frame) {
		return slowFor(bpf.SlowSize)
	}
	ip := forward(frame[14:], h, f.pod, f.wire, false)
	if r.kind == "routed" {
		return outcome{true, append(append(bytes.Clone(r.peer[:12]), 8, 0), ip...), bpf.CarriedOut}
	}
	out := bytes.Clone(r.peer)
	outer := out[14:34]
	outer[1] |= h.tos & 3
	copy(outer[4:6], ip[4:6])
	clear(outer[10:12])
	if r.kind == bpf.IPIP {
		return outcome{true, r.encapsulateIP(out[:34], ip, h), bpf.CarriedOut}
	}
	binary.BigEndian.PutUint16(outer[2:], uint16(h.length+50))
	binary.BigEndian.PutUint16(outer[10:], ^words(outer))
	copy(out[34:], f.port)
	binary.BigEndian.PutUint16(out[38:], uint16(h.length+30))
	return outcome{true, append(out, ip...), bpf.CarriedOut}
}

// fromWire is what becomes of a packet that comes by the wire.
func (r *reference) fromWire(frame []byte) outcome {
	forUs, at := bytes.Equal(frame[:6], r.wireMAC), 14
	switch r.kind {
	case bpf.IPIP:
		at = 34
		switch {
		case !isIPIP(frame):
			return uncounted
		case binary.BigEndian.Uint16(frame[20:])&0xbfff != 0:
			return slowInFor(bpf.SlowFragment)
		case !forUs:
			return slowInFor(bpf.SlowNotIPv4)
		}
	case bpf.VXLAN, bpf.Geneve:
		at = 64
		switch {
		case len(frame) < 92, !isIPv4(frame), frame[14] != 0x45, frame[23] != 17, binary.BigEndian.Uint16(frame[36:]) != port:
			return uncounted
		case binary.BigEndian.Uint16(frame[20:])&0xbfff != 0:
			return slowInFor(bpf.SlowFragment)
		case forUs && (!bytes.Equal(frame[42:46], r.peer[42:46]) || frame[49] != 0):
			return slowInFor(bpf.SlowOptions)
		case !forUs, !isIPv4(frame[50:]):
			return slowInFor(bpf.SlowNotIPv4)
		}
	default:
		if len(frame) < 42 || !isIPv4(frame) || !forUs {
			return uncounted
		}
	}
	tenant := uint32(0)
	if r.kind == "vxlan" {
		tenant = binary.BigEndian.Uint32(frame[46:]) >> 8
	}
	forPod := [4]byte(frame[at+16:]) == r.podAddr && tenant == r.tenant
	counted := func(why bpf.Count) outcome {
		if forPod {
			return slowInFor(why)
		}
		return uncounted
	}
	if r.kind == "routed" && !forPod {
		return uncounted
	}
	h, why := reads(frame[at:], true)
	if why != bpf.CarriedOut {
		return counted(why)
	}
	var f *referenceFlow
	known := r.isKnownSender(frame)
	if tenant == r.tenant {
		f = r.find(h.protocol, h.ends, true)
		if h.flags && known {
			r.end(h)
		}
	}
	switch {
	case h.flags && !known:
		return counted(bpf.SlowSource)
	case h.flags:
		return counted(bpf.SlowFlags)
	case f == nil:
		return counted(bpf.SlowUnknown)
	}
	if !f.translated() {
		f.warm = true
	}
	switch {
	case !r.confirmed && !known:
		return counted(bpf.SlowSource)
	case !r.confirmed:
		return counted(bpf.SlowUnproven)
	case h.length > r.inSize, h.length+at > len(frame):
		return counted(bpf.SlowSize)
	}
	if why := r.fromPeer(frame, h); why != bpf.CarriedOut {
		return counted(why)
	}
	return outcome{true, append(bytes.Clone(r.pod), forward(frame[at:], h, f.wire, f.pod, true)...), bpf.CarriedIn}
}

// fromTunnel is what becomes of a packet that the tunnel's device hands on, and that fromWire has left to it.
func (r *reference) fromTunnel(frame []byte) outcome {
	at := 14
	if r.kind == bpf.IPIP { // whose device has no MACs
		at = 0
	}
	if !isIPv4(frame) {
		return slowInFor(bpf.SlowNotIPv4)
	}
	if len(frame) < at+20 || frame[at+9] != 17 {
		return slowInFor(bpf.SlowSource) // fromWire leaves nothing but UDP to it
	}
	h, why := reads(frame[at:], true)
	if why != bpf.CarriedOut {
		return slowInFor(why)
	}
	f := r.find(h.protocol, h.ends, true)
	if f == nil {
		return slowInFor(bpf.SlowUnknown)
	}
	if !f.translated() {
		f.warm = true
	}
	switch {
	case !r.confirmed:
		return slowInFor(bpf.SlowUnproven)
	case h.length > r.inSize, h.length+at > len(frame):
		return slowInFor(bpf.SlowSize)
	case at > 0 && !(bytes.Equal(frame[:6], r.peer[56:62]) && bytes.Equal(frame[6:12], r.peer[50:56])):
		return slowInFor(bpf.SlowSource)
	}
	return outcome{true, append(bytes.Clone(r.pod), forward(frame[at:], h, f.wire, f.pod, true)...), bpf.CarriedIn}
}

// end ends the flows of a packet that comes by the wire.
func (r *reference) end(h header) {
	if f := r.find(h.protocol, h.ends, true); f != nil {
		f.isGone = true
	}
}

// fromPeer says why a packet is not as the peer sends it.
func (r *reference) fromPeer(frame []byte, h header) bpf.Count {
	if r.kind == "routed" {
		if !bytes.Equal(frame[6:12], r.peer[:6]) {
			return bpf.SlowSource
		}
		return bpf.CarriedOut
	}
	if r.kind == bpf.IPIP {
		return r.fromIPIPPeer(frame, h)
	}
	switch {
	case !bytes.Equal(frame[26:30], r.peer[30:34]), !bytes.Equal(frame[30:34], r.peer[26:30]), !bytes.Equal(frame[46:50], r.peer[46:50]), !bytes.Equal(frame[50:56], r.peer[56:62]), !bytes.Equal(frame[56:62], r.peer[50:56]):
		return bpf.SlowSource
	case int(binary.BigEndian.Uint16(frame[16:])) != (h.length+50)&0xffff, int(binary.BigEndian.Uint16(frame[38:])) != (h.length+30)&0xffff:
		return bpf.SlowSize
	case frame[40] != 0, frame[41] != 0, words(frame[14:34]) != 0xffff:
		return bpf.SlowChecksum
	case (frame[15]^h.tos)&3 != 0:
		return bpf.SlowECN
	}
	return bpf.CarriedOut
}

// toTunnel says whether a packet in front of the tunnel is one of a flow that gets an entry, and
// which. So does toPeer of one on the wire, and toPod of one for the pod.
func (r *reference) toTunnel(frame []byte) (h header, learned bool) {
	if !isIPv4(frame) {
		return h, false
	}
	ip := frame
	if r.kind != bpf.IPIP { // whose tunnel's device has no MACs
		ip = frame[14:]
	}
	h, why := reads(ip, false)
	return h, why == bpf.CarriedOut && !h.flags && [4]byte(h.ends[:]) == r.podAddr
}

func (r *reference) toPeer(frame []byte) (h header, learned bool) {
	if r.kind == "routed" {
		h, learned = r.toTunnel(frame)
		return h, learned && bytes.Equal(frame[:12], r.peer[:12])
	}
	if r.kind == bpf.IPIP {
		return r.toIPIPPeer(frame)
	}
	same := func(from, to int) bool { return bytes.Equal(frame[from:to], r.peer[from:to]) }
	if len(frame) < 92 || !isIPv4(frame) || frame[14] != 0x45 || frame[23] != 17 || binary.BigEndian.Uint16(frame[36:]) != port ||
		!same(42, 50) || !isIPv4(frame[50:]) {
		return h, false
	}
	if !same(0, 12) || !same(50, 62) || !same(26, 34) || !same(22, 23) || !same(20, 22) || (frame[15]^r.peer[15])&^3 != 0 {
		return h, false
	}
	h, why := reads(frame[64:], false)
	return h, why == bpf.CarriedOut && !h.flags && r.find(h.protocol, h.ends, true) != nil
}

func (r *reference) toPod(frame []byte) (h header, learned bool) {
	if !isIPv4(frame) {
		return h, false
	}
	h, why := reads(frame[14:], true)
	return h, why == bpf.CarriedOut && !h.flags && bytes.Equal(frame[:6], podMAC) && [4]byte(h.ends[:]) == r.podAddr && r.find(h.protocol, h.ends, true) != nil
}
