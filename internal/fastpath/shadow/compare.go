package shadow

import (
	"bytes"
	"fmt"
	"strconv"
)

// Mismatch is a difference between what would be sent and what is.
type Mismatch struct {
	Direction string `json:"direction"` // of the packets: out of a pod, or into one
	Field     string `json:"field"`     // the header that differs, or what else does
	Packets   uint64 `json:"packets"`   // that differ there
	// The rest is of the first of them.
	Flow     string `json:"flow"`
	Offset   int    `json:"offset"`   // in the packet, of the first byte that differs
	Expected string `json:"expected"` // from there on, what would be sent
	Actual   string `json:"actual"`   // what the network sends
}

// IsLoss: the network sends nothing, and no byte differs.
func (d Mismatch) IsLoss() bool { return d.Field == notPassedOn }

// String describes it in one line.
func (d Mismatch) String() string {
	where := d.Field
	if d.Expected != "" {
		where = fmt.Sprintf("%s, from byte %d: %s would be sent, the network sends %s", d.Field, d.Offset, d.Expected, d.Actual)
	}
	return fmt.Sprintf("%s (%s, %s)", where, d.Direction, d.Flow)
}

// Directions of packets.
const (
	outOfPod = "out of a pod"
	intoPod  = "into a pod"
)

// notPassedOn is a difference: the network sends nothing.
const notPassedOn = "the network did not forward it"

func (p *packet) direction() string {
	if p.Direction == 0 {
		return outOfPod
	}
	return intoPod
}

// differ says how a packet that the network sends differs from what would be sent; nil: it does
// not. Only one of two packets may have a complete checksum.
func differ(would, is *packet) *Mismatch {
	d := &Mismatch{Direction: would.direction(), Flow: would.flow().String()}
	switch {
	case would.Device != is.Device || would.Direction != is.Direction:
		d.Field, d.Expected, d.Actual = "device", ifindex(would), ifindex(is)
		return d
	case would.outerWrong:
		d.Field, d.Offset = "checksum of the outer IP header", ethLen+ipCheck
		return d
	}
	if would.Partial != is.Partial {
		would.complete()
		is.complete()
	}
	if at := firstDifference(would.bytes, is.bytes); at >= 0 {
		d.Field, d.Offset, d.Expected, d.Actual = would.nameAt(at), at, hexFrom(would.bytes, at), hexFrom(is.bytes, at)
		return d
	}
	if would.length != is.length {
		d.Field, d.Offset, d.Expected, d.Actual = "length", min(would.length, is.length), strconv.Itoa(would.length), strconv.Itoa(is.length)
		return d
	}
	if would.Priority != is.Priority {
		d.Field, d.Expected, d.Actual = "priority for queueing", strconv.Itoa(int(would.Priority)), strconv.Itoa(int(is.Priority))
		return d
	}
	return nil
}

func ifindex(p *packet) string { return fmt.Sprintf("ifindex %d, %s", p.Device, p.direction()) }

// firstDifference is the offset of the first byte that differs, as far as both go; -1: none.
func firstDifference(a, b []byte) int {
	n := min(len(a), len(b))
	if bytes.Equal(a[:n], b[:n]) {
		return -1
	}
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return -1
}

// excerptLen is how many bytes of a difference are kept.
const excerptLen = 8

func hexFrom(b []byte, at int) string { return fmt.Sprintf("% x", b[at:min(at+excerptLen, len(b))]) }

// nameAt names what is at an offset of a packet.
func (p *packet) nameAt(at int) string {
	inner := ""
	if p.isEncapsulated() {
		inner = "inner "
		switch {
		case at < ethLen:
			return "outer Ethernet header"
		case at < ethLen+ipLen:
			return "outer IP header"
		case !p.isInUDP():
		case at < ethLen+ipLen+udpLen:
			return "outer UDP header"
		case at < ethLen+ipLen+udpLen+tunnelLen:
			return "tunnel header"
		}
	}
	switch {
	case at < p.ip:
		return inner + "Ethernet header"
	case at < p.transport:
		return inner + "IP header"
	case at < p.payload:
		return "transport header"
	}
	return "payload"
}

// differPart compares a segment with the large packet that the network has merged it into, or cut
// it from: payload is its offset in the payload of that. Fields that depend on the segment are left
// out.
func differPart(would, is *packet, payload int) *Mismatch {
	whole, part := would, is
	if is.length > would.length {
		whole, part = is, would
	}
	if d := differ(would.segmentHeaders(), is.segmentHeaders()); d != nil {
		return d
	}
	from := min(whole.payload+payload, len(whole.bytes))
	at := firstDifference(whole.bytes[from:], part.bytes[part.payload:])
	if at < 0 {
		return nil
	}
	d := &Mismatch{Direction: would.direction(), Field: "payload", Flow: would.flow().String(), Offset: part.payload + at}
	d.Expected, d.Actual = hexFrom(whole.bytes[from:], at), hexFrom(part.bytes[part.payload:], at)
	if whole == is {
		d.Expected, d.Actual = d.Actual, d.Expected
	}
	return d
}

// segmentHeaders are the headers of a packet without what differs between segments.
func (p *packet) segmentHeaders() *packet {
	h := *p
	h.bytes = bytes.Clone(p.bytes[:p.payload])
	h.length, h.Partial = len(h.bytes), 0
	zero := func(at, n int) { clear(h.bytes[min(at, len(h.bytes)):min(at+n, len(h.bytes))]) }
	if p.isEncapsulated() {
		zero(ethLen+ipTotal, 2)
	}
	if p.isInUDP() {
		zero(ethLen+ipLen+udpLength, 2)
	}
	if p.isIPv6() {
		zero(p.ip+layout6.total, 2)
	} else {
		zero(p.ip+ipTotal, 4) // and the ID
		zero(p.ip+ipCheck, 2)
	}
	if p.protocol() != tcp {
		zero(p.transport+udpLength, 4)
		return &h
	}
	zero(p.transport+tcpSeq, 4)
	zero(p.transport+tcpFlags, 1) // the last segment has PSH
	zero(p.transport+tcpCheck, 2)
	return &h
}
