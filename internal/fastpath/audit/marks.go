package audit

import (
	"encoding/binary"

	"github.com/venturi-net/venturi/internal/nlmsg"
	"golang.org/x/sys/unix"
)

// markValue is what is known of a mark, bit by bit: the bit itself, or that it is equal to that of
// the connection's mark. Any other bit has some value which all packets of a flow share.
type markValue struct {
	bits, value uint32 // bits that are known, and which of them are set
	conn        uint32 // bits that are those of the connection's mark
}

func knownMark(value uint32) markValue { return markValue{bits: ^uint32(0), value: value} }

// join is what is known of a mark that is one of two.
func (v markValue) join(o markValue) markValue {
	same := v.bits & o.bits &^ (v.value ^ o.value)
	return markValue{same, v.value & same, v.conn & o.conn}
}

// assign is the mark after its bits in mask were cleared, and it was combined with those of a
// number by exclusive or.
func (v markValue) assign(mask, xor uint32) markValue {
	v.bits |= mask
	v.value = v.value&^mask ^ xor&v.bits
	v.conn &^= mask | xor
	return v
}

// merge is the mark after its bits in mask were cleared, and it was combined with another one by
// exclusive or.
func (v markValue) merge(mask uint32, o markValue) markValue {
	v = v.assign(mask, 0)
	zero, otherZero := v.bits&^v.value, o.bits&^o.value
	known := v.bits & o.bits
	return markValue{known, (v.value ^ o.value) & known, v.conn&otherZero | o.conn&zero}
}

// keep is the mark with the bits in mask only.
func (v markValue) keep(mask uint32) markValue { return v.assign(^mask, 0) }

// markState is what is known of the marks of packets at some place between rules.
type markState struct {
	reached  bool      // there are such packets
	packet   markValue // the packet's mark
	conn     markValue // of the mark of its connection: bits that the packet has met a write of
	diverged bool      // see [chainWalker.findLater]: they may be without the first packet of their connection
	differs  uint32    // likewise: bits of the packet's mark that may differ from those of the first one
}

// join is the state where packets of two states meet.
func (s markState) join(o markState) markState {
	switch {
	case !s.reached:
		return o
	case !o.reached:
		return s
	}
	return markState{true, s.packet.join(o.packet), s.conn.join(o.conn), s.diverged || o.diverged, s.differs | o.differs}
}

// connMark is the mark of the packet's connection.
func (r *exprEvaluator) connMark() markValue {
	return markValue{r.marks.conn.bits, r.marks.conn.value, ^r.marks.conn.bits}
}

// readConn records that the rule depends on a value, and so on bits of the connection's mark.
func (r *exprEvaluator) readConn(v markValue) { r.connReads |= v.conn }

// readMark records that the rule depends on a value, and so on marks.
func (r *exprEvaluator) readMark(v markValue) {
	r.readConn(v)
	r.readsDiffering = r.readsDiffering || r.marks.differs&^v.bits&^v.conn != 0
}

// setMark sets the packet's mark.
func (r *exprEvaluator) setMark(v markValue) {
	r.readConn(v)
	written := ^r.marks.packet.join(v).bits
	r.markWrites |= written
	r.marks.differs &^= v.bits
	if r.readsDiffering {
		r.marks.differs |= written
	}
	r.marks.packet = v
	r.acts = true
	r.setsMark = r.setsMark || v != knownMark(0)
}

// saveMark sets the connection's mark. Bits that are its own already do not change.
func (r *exprEvaluator) saveMark(v markValue) {
	changed := ^(v.conn | r.marks.conn.bits&v.bits&^(r.marks.conn.value^v.value))
	r.connWrites |= changed
	r.marks.conn = markValue{bits: v.bits | r.marks.conn.bits&^changed, value: v.value&v.bits | r.marks.conn.value&^changed}
	r.marks.packet.conn &^= changed
	for register, held := range r.values {
		held.conn &^= changed
		r.values[register] = held
	}
	r.acts = true
}

// compareMark evaluates a comparison with a mark.
func (r *exprEvaluator) compareMark(v markValue, value []byte, op int) {
	if len(value) != 4 || op != unix.NFT_CMP_EQ && op != unix.NFT_CMP_NEQ {
		r.readMark(v)
		r.alwaysMatches = false
		return
	}
	r.matchMark(v, ^uint32(0), binary.NativeEndian.Uint32(value), op == unix.NFT_CMP_EQ)
}

// matchMark evaluates a rule that matches marks of which some bits have a value, or have not.
func (r *exprEvaluator) matchMark(v markValue, mask, value uint32, equal bool) {
	v = v.keep(mask)
	switch {
	case (v.value^value)&v.bits != 0:
		r.neverMatches, r.alwaysMatches = r.neverMatches || equal, r.alwaysMatches && !equal
	case v.bits == ^uint32(0):
		r.neverMatches, r.alwaysMatches = r.neverMatches || !equal, r.alwaysMatches && equal
	default:
		r.readMark(v)
		r.alwaysMatches = false
	}
}

// maskMark applies a bitwise operation to a register of which something is known; false: it is not
// known.
func (r *exprEvaluator) maskMark(data nlmsg.Map) bool {
	from, into := data.BigEndian32(unix.NFTA_BITWISE_SREG), data.BigEndian32(unix.NFTA_BITWISE_DREG)
	v, ok := r.values[from]
	mask, xor := data.DataValue(unix.NFTA_BITWISE_MASK), data.DataValue(unix.NFTA_BITWISE_XOR)
	if !ok || data.BigEndian32(bitwiseOp) > 0 || len(mask) != 4 || len(xor) != 4 {
		r.dropValues()
		return false
	}
	r.values[into] = v.assign(^binary.NativeEndian.Uint32(mask), binary.NativeEndian.Uint32(xor))
	return true
}

// dropValues forgets what registers hold, which may still be used.
func (r *exprEvaluator) dropValues() {
	for _, v := range r.values {
		r.readMark(v)
	}
	clear(r.values)
}

// targetMark evaluates iptables' target MARK: struct xt_mark_tginfo2.
func (r *exprEvaluator) targetMark(info []byte) {
	if len(info) < 8 {
		r.setMark(markValue{})
		return
	}
	mark, mask := binary.NativeEndian.Uint32(info), binary.NativeEndian.Uint32(info[4:])
	r.setMark(r.marks.packet.assign(mask, mark))
}

// Modes of the target CONNMARK.
const (
	connmarkSet = iota
	connmarkSave
	connmarkRestore
)

// targetConnmark evaluates iptables' target CONNMARK: struct xt_connmark_tginfo1, or 2, which can
// also shift marks.
func (r *exprEvaluator) targetConnmark(revision int, info []byte) {
	modeAt, shifts := 12, false
	if revision >= 2 {
		modeAt, shifts = 14, len(info) > 13 && info[13] != 0
	}
	if len(info) <= modeAt {
		r.unproven = "target CONNMARK"
		return
	}
	ctmark, ctmask, nfmask := binary.NativeEndian.Uint32(info), binary.NativeEndian.Uint32(info[4:]), binary.NativeEndian.Uint32(info[8:])
	conn, was := r.connMark(), r.marks
	switch {
	case info[modeAt] == connmarkSet && !shifts:
		r.saveMark(conn.assign(ctmask, ctmark))
	case info[modeAt] == connmarkSave && !shifts:
		r.saveMark(conn.merge(ctmask, r.marks.packet.keep(nfmask)))
	case info[modeAt] == connmarkRestore && !shifts:
		r.connReads |= conn.keep(ctmask).conn
		r.setMark(r.marks.packet.merge(nfmask, conn.keep(ctmask)))
	case info[modeAt] == connmarkRestore:
		r.readConn(conn)
		r.setMark(markValue{})
	default:
		r.readConn(conn)
		r.saveMark(markValue{})
	}
	if !r.tracked() { // where there is no connection, it does nothing
		r.marks = r.marks.join(was)
	}
}

// matchMarkOf evaluates iptables' matches mark and connmark: struct xt_mark_mtinfo1.
func (r *exprEvaluator) matchMarkOf(v markValue, info []byte) {
	if len(info) < 9 {
		r.unproven = "a match of marks"
		return
	}
	r.matchMark(v, binary.NativeEndian.Uint32(info[4:]), binary.NativeEndian.Uint32(info), info[8] == 0)
}
