package engine

// sinkCounts is what a receiver knows of a slice. The rate is read between two
// messages by the receiver's own clock: from the first one after the head to
// the last one of all. Neither the sender's start nor its end blurs it.
type sinkCounts struct {
	messages int64

	clockMask int64 // the clock is read at every such message, less one as a mask
	head      int64 // ns
	first     int64 // ns, when the slice's first reading was
	from, now mark
}

type mark struct{ messages, ns int64 }

// newSinkCounts reads the clock at every message from 1 KiB on, where it costs
// nothing, and at each sixteenth below.
func newSinkCounts(size int, head int64) sinkCounts {
	every := int64(16)
	if size >= 1024 {
		every = 1
	}
	return sinkCounts{clockMask: every - 1, head: head}
}

func (c *sinkCounts) reset() { *c = sinkCounts{clockMask: c.clockMask, head: c.head} }

func (c *sinkCounts) add(clock clock) {
	c.messages++
	if c.messages&c.clockMask == 0 {
		c.read(clock.now())
	}
}

func (c *sinkCounts) read(at int64) {
	switch {
	case c.first == 0:
		c.first = at
		if c.head == 0 {
			c.from = mark{c.messages, at}
		}
	case c.from.ns != 0:
		c.now = mark{c.messages, at}
	case at-c.first >= c.head:
		c.from = mark{c.messages, at}
	}
}

// account is what a done frame tells of a slice. The clock is one for all
// flows of a server, so the windows of several flows can be laid together.
type account struct {
	messages int64 // of the whole slice
	window   int64 // messages that arrived after from, until to
	from, to int64 // ns by the server's clock; 0, 0: too few messages for a window
}

func (c *sinkCounts) account() account {
	a := account{messages: c.messages}
	if c.now.ns > c.from.ns && c.from.ns != 0 {
		a.window, a.from, a.to = c.now.messages-c.from.messages, c.from.ns, c.now.ns
	}
	return a
}

func (a account) values() [5]uint64 {
	return [5]uint64{uint64(a.messages), uint64(a.window), uint64(a.from), uint64(a.to)}
}

func (f frame) account() account {
	return account{messages: int64(f.values[0]), window: int64(f.values[1]), from: int64(f.values[2]), to: int64(f.values[3])}
}
