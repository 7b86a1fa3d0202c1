// Package goodput counts what the receiver of streams gets in a slice, and adds the flows of an arm up
// to its rate. It has no clock and no sockets.
package goodput

import (
	"math/bits"
	"sync/atomic"
)

// Window is the part of a slice that the rate of an arm is of, by the clock of the server: it opens
// at the first reading of any flow after the head. All flows share it. If each had a window of
// its own, what one received between the opening of the first and that of its own would be lost
// to the sum, which is most of it where hundreds of flows have a few messages each.
type Window struct {
	Head        int64        // ns from the first bytes to where it opens at the earliest
	first, from atomic.Int64 // ns, of the first reading, and of the one that opened it; 0: not yet
}

// Reset begins a slice. It must come before anything arrives on any flow.
func (w *Window) Reset() { w.first.Store(0); w.from.Store(0) }

// open tells when the window opened, if it has for a reading at this time; 0: it is closed.
func (w *Window) open(at int64) int64 {
	w.first.CompareAndSwap(0, at)
	if at-w.first.Load() >= w.Head {
		w.from.CompareAndSwap(0, at)
	}
	if from := w.from.Load(); from <= at {
		return from
	}
	return 0
}

// Arrivals are what a receiver knows of a slice of one flow. The rate is read between two
// receive calls by the receiver's own clock: from the one that opens the window to the last one of
// all. Neither the sender's start nor its end blurs it.
type Arrivals struct {
	window   *Window
	size     int64 // of a message, bytes
	messages int64 // that are whole
	bytes    int64 // also of one that is not whole
	from     int64 // ns, when the window opened; 0: not yet, as far as this flow knows
	before   int64 // bytes that came before it opened
	last     mark
	ended    bool // what comes now is of no slice
}

// mark is a reading of the clock.
type mark struct{ bytes, ns int64 }

// New counts messages of a size, bytes, from the first [Arrivals.Begin] on.
func New(size int, w *Window) Arrivals {
	return Arrivals{size: int64(size), window: w, ended: true}
}

// Begin begins a slice of the flow.
func (a *Arrivals) Begin() { *a = Arrivals{size: a.size, window: a.window} }

// Messages is how many whole messages there were in the slice.
func (a *Arrivals) Messages() int64 { return a.messages }

// Add counts a message. Due: [Arrivals.Read] is to be called next.
func (a *Arrivals) Add() (due bool) {
	a.messages++
	a.bytes += a.size
	return a.due()
}

// AddPart counts what a receive call took of a message.
func (a *Arrivals) AddPart(bytes int, whole bool) (due bool) {
	a.bytes += int64(bytes)
	if whole {
		a.messages++
	}
	return a.due()
}

// due has the clock read at every call from 1 KiB on, where it costs nothing. Below, it is read
// the more seldom the more messages there were, down to each sixteenth: those behind the last
// reading, which are lost to the rate, are less than 2 % of a flow's.
func (a *Arrivals) due() bool {
	if a.size >= 1024 {
		return true
	}
	every := int64(1) << min(4, max(0, bits.Len64(uint64(a.messages))-7))
	return a.messages&(every-1) == 0
}

// Read notes when the bytes came that were added until now, ns by the server's clock.
func (a *Arrivals) Read(at int64) {
	if a.ended {
		return
	}
	if a.from == 0 {
		switch a.from = a.window.open(at); a.from {
		case 0:
		case at: // by this reading
			a.before = a.bytes
		default: // by another flow, since this one's last reading
			a.before = a.last.bytes
		}
	}
	a.last = mark{a.bytes, at}
}

// Account is what there is to tell of a slice. The clock is one for all flows of a server, so the
// windows of several flows are one.
type Account struct {
	Messages int64 // of the whole slice
	Bytes    int64 // that came after From, until To
	From, To int64 // ns by the server's clock; 0, 0: nothing came in the window
}

// End ends the slice of the flow.
func (a *Arrivals) End() Account {
	a.ended = true
	of := Account{Messages: a.messages}
	if a.from != 0 && a.last.ns > a.from {
		of.Bytes, of.From, of.To = a.last.bytes-a.before, a.from, a.last.ns
	}
	return of
}

// Sum adds the flows of an arm up to one slice. The rate is over one window for all, to the last
// bytes of any. Flows come in bursts, and rates over windows of their own would add up to more
// than ever arrived at a time. Where too little arrived for a rate, From and To are 0 or equal.
func Sum(flows []Account) (all Account) {
	for _, a := range flows {
		all.Messages += a.Messages
		all.Bytes += a.Bytes
		if a.To > 0 && (all.From == 0 || a.From < all.From) {
			all.From = a.From
		}
		all.To = max(all.To, a.To)
	}
	return all
}
