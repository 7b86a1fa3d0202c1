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
func (e *exprEvaluator) connMark() markValue {
	return markValue{e.marks.conn.bits, e.marks.conn.value, ^e.marks.conn.bits}
}

// readConn records that the rule depends on a value, and so on bits of the connection's mark.
func (e *exprEvaluator) readConn(v markValue) { e.connReads |= v.conn }

// readMark records that the rule depends on a value, and so on marks.
func (e *exprEvaluator) readMark(v markValue) {
	e.readConn(v)
	e.readsDiffering = e.readsDiffering || e.marks.differs&^v.bits&^v.conn != 0
}

// setMark sets the packet's mark.
func (e *exprEvaluator) setMark(v markValue) {
	e.readConn(v)
	written := ^e.marks.packet.join(v).bits
	e.markWrites |= written
	e.marks.differs &^= v.bits
	if e.readsDiffering {
		e.marks.differs |= written
	}
	e.marks.packet = v
	e.acts = true
	e.setsMark = e.setsMark || v != knownMark(0)
}

// saveMark sets the connection's mark. Bits that are its own already do not change.
func (e *exprEvaluator) saveMark(v markValue) {
	changed := ^(v.conn | e.marks.conn.bits&v.bits&^(e.marks.conn.value^v.value))
	e.connWrites |= changed
	e.marks.conn = markValue{bits: v.bits | e.marks.conn.bits&^changed, value: v.value&v.bits | e.marks.conn.value&^changed}
	e.marks.packet.conn &^= changed
	for register, held := range e.values {
		held.conn &^= changed
		e.values[register] = held
	}
	e.acts = true
}

// compareMark evaluates a comparison with a mark.
func (e *exprEvaluator) compareMark(v markValue, value []byte, op int) {
	if len(value) != 4 || op != unix.NFT_CMP_EQ && op != unix.NFT_CMP_NEQ {
		e.readMark(v)
		e.alwaysMatches = false
		return
	}
	e.matchMark(v, ^uint32(0), binary.NativeEndian.Uint32(value), op == unix.NFT_CMP_EQ)
}

// matchMark evaluates a rule that matches marks of which some bits have a value, or have not.
func (e *exprEvaluator) matchMark(v markValue, mask, value uint32, equal bool) {
	v = v.keep(mask)
	switch {
	case (v.value^value)&v.bits != 0:
		e.neverMatches, e.alwaysMatches = e.neverMatches || equal, e.alwaysMatches && !equal
	case v.bits == ^uint32(0):
		e.neverMatches, e.alwaysMatches = e.neverMatches || !equal, e.alwaysMatches && equal
	default:
		e.readMark(v)
		e.alwaysMatches = false
	}
}

// maskMark applies a bitwise operation to a register of which something is known; false: it is not
// known.
func (e *exprEvaluator) maskMark(data nlmsg.Map) bool {
	from, into := data.BigEndian32(unix.NFTA_BITWISE_SREG), data.BigEndian32(unix.NFTA_BITWISE_DREG)
	v, ok := e.values[from]
	mask, xor := data.DataValue(unix.NFTA_BITWISE_MASK), data.DataValue(unix.NFTA_BITWISE_XOR)
	if !ok || data.BigEndian32(bitwiseOp) > 0 || len(mask) != 4 || len(xor) != 4 {
		e.dropValues()
		return false
	}
	e.values[into] = v.assign(^binary.NativeEndian.Uint32(mask), binary.NativeEndian.Uint32(xor))
	return true
}

// dropValues forgets what registers hold, which may still be used.
func (e *exprEvaluator) dropValues() {
	for _, v := range e.values {
		e.readMark(v)
	}
	clear(e.values)
}

// targetMark evaluates iptables' target MARK: struct xt_mark_tginfo2.
func (e *exprEvaluator) targetMark(info []byte) {
	if len(info) < 8 {
		e.setMark(markValue{})
		return
	}
	mark, mask := binary.NativeEndian.Uint32(info), binary.NativeEndian.Uint32(info[4:])
	e.setMark(e.marks.packet.assign(mask, mark))
}

// Modes of the target CONNMARK.
const (
	connmarkSet = iota
	connmarkSave
	connmarkRestore
)

// targetConnmark evaluates iptables' target CONNMARK: struct xt_connmark_tginfo1, or 2, which can
// also shift marks.
func (e *exprEvaluator) targetConnmark(revision int, info []byte) {
	modeAt, shifts := 12, false
	if revision >= 2 {
		modeAt, shifts = 14, len(info) > 13 && info[13] != 0
	}
	if len(info) <= modeAt {
		e.unproven = "target CONNMARK"
		return
	}
	ctmark, ctmask, nfmask := binary.NativeEndian.Uint32(info), binary.NativeEndian.Uint32(info[4:]), binary.NativeEndian.Uint32(info[8:])
	conn, was := e.connMark(), e.marks
	switch {
	case info[modeAt] == connmarkSet && !shifts:
		e.saveMark(conn.assign(ctmask, ctmark))
	case info[modeAt] == connmarkSave && !shifts:
		e.saveMark(conn.merge(ctmask, e.marks.packet.keep(nfmask)))
	case info[modeAt] == connmarkRestore && !shifts:
		e.connReads |= conn.keep(ctmask).conn
		e.setMark(e.marks.packet.merge(nfmask, conn.keep(ctmask)))
	case info[modeAt] == connmarkRestore:
		e.readConn(conn)
		e.setMark(markValue{})
	default:
		e.readConn(conn)
		e.saveMark(markValue{})
	}
	if !e.tracked() { // where there is no connection, it does nothing
		e.marks = e.marks.join(was)
	}
}

// matchMarkOf evaluates iptables' matches mark and connmark: struct xt_mark_mtinfo1.
func (e *exprEvaluator) matchMarkOf(v markValue, info []byte) {
	if len(info) < 9 {
		e.unproven = "a match of marks"
		return
	}
	e.matchMark(v, binary.NativeEndian.Uint32(info[4:]), binary.NativeEndian.Uint32(info), info[8] == 0)
}
