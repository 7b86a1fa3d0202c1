package engine

import (
	"math/bits"
	"sync/atomic"
)

// window is the part of a slice that the rate of an arm is of, by the clock of the server: it opens
// at the first reading of any flow after the head. All flows share it. If each had a window of
// its own, what one received between the opening of the first and that of its own would be lost
// to the sum, which is most of it where hundreds of flows have a few messages each.
type window struct {
	head        int64        // ns
	first, from atomic.Int64 // ns, of the first reading, and of the one that opened it; 0: not yet
}

// reset begins a slice. It must come before anything arrives on any flow.
func (w *window) reset() { w.first.Store(0); w.from.Store(0) }

// open tells when the window opened, if it has for a reading at this time; 0: it is closed.
func (w *window) open(at int64) int64 {
	w.first.CompareAndSwap(0, at)
	if at-w.first.Load() >= w.head {
		w.from.CompareAndSwap(0, at)
	}
	if from := w.from.Load(); from <= at {
		return from
	}
	return 0
}

// sinkCounts is what a receiver knows of a slice of one flow. The rate is read between two
// receive calls by the receiver's own clock: from the one that opens the window to the last one of
// all. Neither the sender's start nor its end blurs it.
type sinkCounts struct {
	window   *window
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

func newSinkCounts(size int, w *window) sinkCounts {
	return sinkCounts{size: int64(size), window: w, ended: true}
}

func (c *sinkCounts) reset() { *c = sinkCounts{size: c.size, window: c.window} }

// add counts a message.
func (c *sinkCounts) add(clock clock) {
	c.messages++
	c.bytes += c.size
	c.readOften(clock)
}

// addPart counts what a receive call took of a message.
func (c *sinkCounts) addPart(bytes int, whole bool, clock clock) {
	c.bytes += int64(bytes)
	if whole {
		c.messages++
	}
	c.readOften(clock)
}

// readOften reads the clock at every call from 1 KiB on, where it costs nothing. Below, it does
// so the more seldom the more messages there were, down to each sixteenth: those behind the last
// reading, which are lost to the rate, are less than 2 % of a flow's.
func (c *sinkCounts) readOften(clock clock) {
	if c.size < 1024 {
		every := int64(1) << min(4, max(0, bits.Len64(uint64(c.messages))-7))
		if c.messages&(every-1) != 0 {
			return
		}
	}
	c.read(clock.now())
}

func (c *sinkCounts) read(at int64) {
	if c.ended {
		return
	}
	if c.from == 0 {
		switch c.from = c.window.open(at); c.from {
		case 0:
		case at: // by this reading
			c.before = c.bytes
		default: // by another flow, since this one's last reading
			c.before = c.last.bytes
		}
	}
	c.last = mark{c.bytes, at}
}

// account is what a done frame tells of a slice. The clock is one for all
// flows of a server, so the windows of several flows are one.
type account struct {
	messages int64 // of the whole slice
	window   int64 // bytes that arrived after from, until to
	from, to int64 // ns by the server's clock; 0, 0: nothing came in the window
}

func (c *sinkCounts) account() account {
	c.ended = true
	a := account{messages: c.messages}
	if c.from != 0 && c.last.ns > c.from {
		a.window, a.from, a.to = c.last.bytes-c.before, c.from, c.last.ns
	}
	return a
}

func (a account) values() [5]uint64 {
	return [5]uint64{uint64(a.messages), uint64(a.window), uint64(a.from), uint64(a.to)}
}

func (f frame) account() account {
	return account{messages: int64(f.values[0]), window: int64(f.values[1]), from: int64(f.values[2]), to: int64(f.values[3])}
}
