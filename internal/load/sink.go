package load

// sinkCounts is what a receiver knows of a slice. The rate is read between two
// messages by the receiver's own clock: from the first one after the head to
// the last one of all. Neither the sender's start nor its end blurs it.
type sinkCounts struct {
	messages, bytes int64

	every     int64 // the clock is read at every such message, less one as a mask
	head      int64 // ns
	first     int64 // ns, when the slice's first reading was
	from, now mark
}

type mark struct{ messages, bytes, at int64 }

// newSinkCounts reads the clock at every message from 1 KiB on, where it costs
// nothing, and at each sixteenth below.
func newSinkCounts(size int, head int64) sinkCounts {
	every := int64(16)
	if size >= 1024 {
		every = 1
	}
	return sinkCounts{every: every - 1, head: head}
}

func (c *sinkCounts) reset() { *c = sinkCounts{every: c.every, head: c.head} }

func (c *sinkCounts) add(n int, clock clock) {
	c.messages++
	c.bytes += int64(n)
	if c.messages&c.every == 0 {
		c.read(clock.now())
	}
}

func (c *sinkCounts) read(at int64) {
	switch {
	case c.first == 0:
		c.first = at
		if c.head == 0 {
			c.from = mark{c.messages, c.bytes, at}
		}
	case c.from.at != 0:
		c.now = mark{c.messages, c.bytes, at}
	case at-c.first >= c.head:
		c.from = mark{c.messages, c.bytes, at}
	}
}

// values are those of a done frame: messages and bytes of the whole slice,
// then messages, bytes and ns of the rate.
func (c *sinkCounts) values() [5]uint64 {
	v := [5]uint64{uint64(c.messages), uint64(c.bytes)}
	if c.now.at > c.from.at && c.from.at != 0 {
		v[2] = uint64(c.now.messages - c.from.messages)
		v[3] = uint64(c.now.bytes - c.from.bytes)
		v[4] = uint64(c.now.at - c.from.at)
	}
	return v
}
