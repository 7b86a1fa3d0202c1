package shadow

import (
	"cmp"
	"slices"
	"time"
)

// PacketCount counts the packets of a direction that would be carried.
type PacketCount struct {
	Equal     uint64 `json:"equal"`     // the network sends the same
	Different uint64 `json:"different"` // it sends another one
	// NotForwarded are packets of which it sends nothing.
	NotForwarded uint64 `json:"not_forwarded"`
	// Changed are packets that differ because rules, pods or peers changed at that moment.
	Changed uint64 `json:"changed"`
	Missed  uint64 `json:"missed"` // not compared: they came faster than they could be read
}

// Result is what a comparison has found.
type Result struct {
	Flows int `json:"flows"` // of which packets were compared, without those below
	// Inconclusive are flows that lost every packet in one direction, which are too few to tell why.
	Inconclusive int         `json:"inconclusive"`
	Out          PacketCount `json:"out"`  // what pods send
	In           PacketCount `json:"into"` // what they get
	Differences  []Mismatch  `json:"differences"`
	// Loss is why nothing is to be carried though no packet differs; nil: networks lose as much anyway.
	Loss *Loss `json:"loss,omitempty"`
}

func (p PacketCount) compared() uint64 { return p.Equal + p.Different + p.NotForwarded }

// Compared counts the packets that were compared.
func (r Result) Compared() uint64 { return r.Out.compared() + r.In.compared() }

// Different counts the packets that differ from the network's.
func (r Result) Different() uint64 { return r.Out.Different + r.In.Different }

// NotForwarded counts the packets that the network did not forward.
func (r Result) NotForwarded() uint64 { return r.Out.NotForwarded + r.In.NotForwarded }

// IsDifferent: a packet differs, or too many packets are not forwarded.
func (r Result) IsDifferent() bool { return r.Different() > 0 || r.Loss != nil }

const (
	// settle is how long the network may take to hand a packet on, and the daemon to learn of
	// a change that explains a difference.
	settle = time.Second
	// maxFlows limits the flows that are counted.
	maxFlows = 1 << 16
	// maxWaiting limits the packets that wait to be handed on, bytes.
	maxWaiting = 64 << 20
)

// State is what the daemon knows of the network: it changes when rules, pods or peers do.
type State struct{ Epoch, Version uint32 }

// comparer pairs packets that would be sent with those that the network sends.
type comparer struct {
	result  Result
	flows   map[flowOf]bool
	waiting []*expected            // to be handed on, in the order of time
	byStamp map[uint16][]*expected // the same, by the number in their stamp
	bytes   int                    // of them
	backlog []*packet              // read, and not looked at yet
	newest  uint64                 // time of the newest record of the reads before
	pending []pendingMismatch
	lost    time.Time // when records were last lost
	network forwarding
}

// expected is a packet that would be sent.
type expected struct {
	*packet
	read  time.Time
	slot  *slot // of that time
	done  bool  // it was compared, or given up
	stray bool  // see [forwarding.isStray]
	cut   int   // bytes of its payload that the network has sent, if it cuts it
}

// pendingMismatch is a difference that a change may still explain.
type pendingMismatch struct {
	Mismatch
	state State
	count *PacketCount
	due   time.Time
	lost  *expected // that was not forwarded; nil: it differs
}

func newComparer() *comparer {
	return &comparer{flows: map[flowOf]bool{}, byStamp: map[uint16][]*expected{}, network: forwarding{flows: map[flowOf]*flowLoss{}}}
}

func (c *comparer) countOf(p *packet) *PacketCount {
	if p.Direction == 0 {
		return &c.result.Out
	}
	return &c.result.In
}

// add takes the records of one read of all cores. A record may be older than one that was read
// before it from another core, but not older than the newest of the read before. So it looks at
// records when they have been there for one read.
func (c *comparer) add(read []*packet, lost bool, now time.Time) {
	if lost {
		c.lost = now
	}
	until := c.newest
	for _, p := range read {
		c.newest = max(c.newest, p.Time)
	}
	c.backlog = append(c.backlog, read...)
	slices.SortStableFunc(c.backlog, func(a, b *packet) int { return cmp.Compare(a.Time, b.Time) })
	n := 0
	for ; n < len(c.backlog) && c.backlog[n].Time <= until; n++ {
		c.take(c.backlog[n], now)
	}
	c.backlog = slices.Delete(c.backlog, 0, n)
}

func (c *comparer) take(p *packet, now time.Time) {
	if p.Headers == 0 {
		c.match(p, now)
		return
	}
	e := &expected{packet: p, read: now, slot: c.network.slotAt(now), stray: c.network.isStray(p)}
	c.waiting = append(c.waiting, e)
	c.byStamp[p.Number] = append(c.byStamp[p.Number], e)
	if c.bytes += len(p.bytes); c.bytes > maxWaiting {
		c.giveUp(now, true)
	}
}

// match compares a packet that the network sends with the one that has its number. Numbers come
// again, so there may be several, some of which the network has not forwarded: then the one that is
// most alike is it.
func (c *comparer) match(is *packet, now time.Time) {
	candidates := c.byStamp[is.Number]
	if len(candidates) == 0 {
		return // its first record was lost
	}
	e, read, most := candidates[0], is, -1
	for _, one := range candidates {
		p := read.parsed(one.ip)
		if alike := likeness(one, p); alike > most {
			e, is, most = one, p, alike
		}
	}
	switch {
	case most == alikeInAll:
		c.finish(e)
		c.equal(e)
	case is.length < e.length && e.Segment > 0:
		c.matchCut(e, is, now)
	case is.length > e.length && is.Segment > 0:
		c.matchMerged(e, is, now)
	default:
		c.finish(e)
		c.different(e, differ(e.packet, is), now)
	}
}

// How much a packet that the network sends is like one that would be sent, see [likeness].
const (
	alikeInFlow = iota + 1
	alikeInPart
	alikeInAll
)

// likeness says how much they are alike.
func likeness(e *expected, is *packet) int {
	switch {
	case e.cut == 0 && differ(e.packet, is) == nil:
		return alikeInAll
	case is.length < e.length && e.Segment > 0 && differPart(e.packet, is, e.cut) == nil,
		is.length > e.length && is.Segment > 0 && differPart(e.packet, is, 0) == nil:
		return alikeInPart
	case is.length >= is.payload && is.payload > is.transport && e.flow() == is.flow():
		return alikeInFlow
	}
	return 0
}

// matchCut compares a segment that the network has cut from a packet.
func (c *comparer) matchCut(e *expected, is *packet, now time.Time) {
	d := differPart(e.packet, is, e.cut)
	e.cut += is.length - is.payload
	switch {
	case d != nil:
		c.finish(e)
		c.different(e, d, now)
	case e.cut >= e.length-e.payload:
		c.finish(e)
		c.equal(e)
	}
}

// matchMerged compares a packet that the network has merged from several of a flow, of which it
// has the number of the first.
func (c *comparer) matchMerged(first *expected, is *packet, now time.Time) {
	flow, at := first.flow(), 0
	for _, e := range c.waiting {
		if e.done || e.Time < first.Time || e.flow() != flow {
			continue
		}
		if at >= is.length-is.payload {
			return
		}
		d := differPart(e.packet, is, at)
		at += e.length - e.payload
		c.finish(e)
		if d != nil {
			c.different(e, d, now)
		} else {
			c.equal(e)
		}
	}
}

func (c *comparer) finish(e *expected) {
	e.done = true
	c.bytes -= len(e.bytes)
	same := c.byStamp[e.Number]
	c.byStamp[e.Number] = slices.Delete(same, slices.Index(same, e), slices.Index(same, e)+1)
	if len(c.byStamp[e.Number]) == 0 {
		delete(c.byStamp, e.Number)
	}
}

func (c *comparer) equal(e *expected) {
	c.countOf(e.packet).Equal++
	c.note(e.packet)
	c.network.forwards(e)
}

// note counts the flow of a packet that was compared.
func (c *comparer) note(p *packet) {
	if len(c.flows) < maxFlows {
		c.flows[p.connection] = true
	}
}

func (c *comparer) different(e *expected, d *Mismatch, now time.Time) {
	c.note(e.packet)
	c.network.forwards(e)
	c.pending = append(c.pending, pendingMismatch{*d, State{e.Epoch, e.Version}, c.countOf(e.packet), now.Add(settle), nil})
}

// notForwarded notes a packet of which the network has sent nothing for long enough.
func (c *comparer) notForwarded(e *expected, now time.Time) {
	d := Mismatch{Direction: e.direction(), Field: notPassedOn, Flow: e.flow().String()}
	c.pending = append(c.pending, pendingMismatch{d, State{e.Epoch, e.Version}, c.countOf(e.packet), now, e})
}

// giveUp no longer waits for packets that the network should have handed on: those that were read
// long ago, or, if there are too many, half of them.
func (c *comparer) giveUp(now time.Time, tooMany bool) {
	left := c.waiting[:0]
	for i, e := range c.waiting {
		crowded := tooMany && i < len(c.waiting)/2
		switch {
		case e.done:
		case !crowded && now.Sub(e.read) < settle:
			left = append(left, e)
		default:
			c.finish(e)
			if crowded || !c.lost.Before(e.read.Add(-settle)) {
				c.countOf(e.packet).Missed++ // its second record may be lost
				continue
			}
			c.notForwarded(e, now)
		}
	}
	clear(c.waiting[len(left):])
	c.waiting = left
}

// confirmMismatches counts differences that no change explains: at the end all of them.
func (c *comparer) confirmMismatches(now time.Time, state State, end bool) {
	c.giveUp(now, false)
	left := c.pending[:0]
	for _, d := range c.pending {
		switch {
		case d.state != state:
			d.count.Changed++
		case !end && now.Before(d.due):
			left = append(left, d)
		default:
			c.confirm(d)
		}
	}
	c.pending = left
	c.network.settle(now)
}

func (c *comparer) confirm(d pendingMismatch) {
	switch {
	case d.lost == nil:
		d.count.Different++
	default:
		d.count.NotForwarded++
		c.note(d.lost.packet)
		if !d.lost.stray {
			c.network.loses(d.lost)
		}
	}
	c.keep(d.Mismatch)
}

// snapshot is what was found until now.
func (c *comparer) snapshot() Result {
	r := c.result
	r.Differences = slices.Clone(r.Differences)
	r.Loss, r.Inconclusive = c.network.worst(len(c.flows))
	r.Flows = len(c.flows) - r.Inconclusive
	return r
}

// keep counts a difference, and keeps the first of its kind.
func (c *comparer) keep(d Mismatch) {
	for i := range c.result.Differences {
		k := &c.result.Differences[i]
		if k.Direction == d.Direction && k.Field == d.Field {
			k.Packets++
			return
		}
	}
	d.Packets = 1
	c.result.Differences = append(c.result.Differences, d)
}
