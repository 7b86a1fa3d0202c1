package engine

import (
	"crypto/subtle"
	"encoding/binary"

	"github.com/venturi-net/venturi/internal/load"
	"github.com/venturi-net/venturi/internal/load/goodput"
)

// The in-band protocol. Both ends talk over the sockets that carry the
// traffic, so a slice starts and ends in order with its messages and nothing
// else is on the wire. A control frame is frameSize bytes:
//
//	0      1     2        4      8      16     24
//	| 0xff | kind | version | magic | token | slice | 5 values, u64 each |
//
// A data message never starts with 0xff: its first byte is below 0x80. On TCP
// that is enough at a message boundary; a datagram must also have the size,
// the magic and the token of its series.
//
//	client                          server
//	hello (nonce) ---------------->          once a flow; see admission
//	       <-----------------------  ready
//	begin  ----------------------->          each slice: counters to zero
//	       <-----------------------  ready
//	messages ...                             echoed, or counted
//	end (messages, bytes sent) --->
//	       <-----------------------  done (what arrived)
//
// A datagram of control that is lost is sent again; the server answers a
// repeated one with the answer that it gave before.
const (
	frameSize    = load.ControlSize
	frameMark    = 0xff
	frameVersion = 1
	frameMagic   = 0x56544e31 // "VTN1"
)

// warmSlice marks the number of a slice that only warms an arm up.
const warmSlice = 1 << 63

type frameKind byte

const (
	frameHello frameKind = iota + 1
	frameBegin
	frameReady
	frameEnd
	frameDone
)

type frame struct {
	kind   frameKind
	token  uint64
	slice  uint64
	values [5]uint64 // of done: see valuesOf; of hello: the nonce
}

func (f frame) put(b []byte) {
	b[0], b[1] = frameMark, byte(f.kind)
	binary.LittleEndian.PutUint16(b[2:], frameVersion)
	binary.LittleEndian.PutUint32(b[4:], frameMagic)
	binary.LittleEndian.PutUint64(b[8:], f.token)
	binary.LittleEndian.PutUint64(b[16:], f.slice)
	for i, v := range f.values {
		binary.LittleEndian.PutUint64(b[24+8*i:], v)
	}
}

// parseFrame reads a frame of the series named by token; ok is false for anything else.
func parseFrame(b []byte, token uint64) (f frame, ok bool) {
	if len(b) != frameSize || b[0] != frameMark ||
		binary.LittleEndian.Uint16(b[2:]) != frameVersion ||
		binary.LittleEndian.Uint32(b[4:]) != frameMagic ||
		binary.LittleEndian.Uint64(b[8:]) != token {
		return frame{}, false
	}
	f = frame{kind: frameKind(b[1]), token: token, slice: binary.LittleEndian.Uint64(b[16:])}
	for i := range f.values {
		f.values[i] = binary.LittleEndian.Uint64(b[24+8*i:])
	}
	return f, f.kind >= frameHello && f.kind <= frameDone
}

// valuesOf are those of a done frame.
func valuesOf(a goodput.Account) [5]uint64 {
	return [5]uint64{uint64(a.Messages), uint64(a.Bytes), uint64(a.From), uint64(a.To)}
}

// account is what a done frame tells.
func (f frame) account() goodput.Account {
	return goodput.Account{Messages: int64(f.values[0]), Bytes: int64(f.values[1]), From: int64(f.values[2]), To: int64(f.values[3])}
}

// withNonce puts a nonce into a hello.
func (f frame) withNonce(n load.Nonce) frame {
	for i := range len(n) / 8 {
		f.values[i] = binary.LittleEndian.Uint64(n[8*i:])
	}
	return f
}

// hasNonce takes the same time however much of it is right.
func (f frame) hasNonce(n load.Nonce) bool {
	var got load.Nonce
	for i := range len(got) / 8 {
		binary.LittleEndian.PutUint64(got[8*i:], f.values[i])
	}
	return subtle.ConstantTimeCompare(got[:], n[:]) == 1
}

// messageRoom is how many bytes a buffer for any message of a plan has.
func messageRoom(p *load.Plan) int { return max(p.Size, p.Response, frameSize) }

func putNumber(b []byte, n uint64) {
	b[0] = byte(n & 0x7f)
	if len(b) >= load.NumberSize {
		binary.LittleEndian.PutUint64(b[1:], n)
	}
}

// getNumber reads the number of a message that is large enough for all of it.
func getNumber(b []byte) uint64 { return binary.LittleEndian.Uint64(b[1:]) }

func hasNumber(b []byte, n uint64) bool {
	if len(b) >= load.NumberSize {
		return binary.LittleEndian.Uint64(b[1:]) == n && b[0] == byte(n&0x7f)
	}
	return len(b) > 0 && b[0] == byte(n&0x7f)
}
