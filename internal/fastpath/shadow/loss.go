package shadow

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"
)

// Loss is a flow that loses more packets in one direction than networks lose anyway, or several
// flows that do so together.
type Loss struct {
	Flow         string `json:"flow"`
	NotForwarded uint64 `json:"not_forwarded"` // of the packets below
	Compared     uint64 `json:"compared"`
}

// String describes it in one line.
func (l Loss) String() string {
	return fmt.Sprintf("the network did not forward %d of %d packets of %s", l.NotForwarded, l.Compared, l.Flow)
}

// A network drops some packets of flows that it forwards: those that conntrack calls invalid, and
// those that find a queue full. So only this many are a reason to carry nothing. A flow that has lost
// all of fewer packets proves nothing: it does not count as compared, and only this many such flows are
// a reason.
const (
	minLost   = 3  // packets, or flows
	lostShare = 20 // one in so many

	// maxStray is how far the sequence number of a segment may be from what the network forwarded
	// of its flow before, for the segment to count: conntrack drops one that is far from it.
	maxStray = 1 << 20
)

// allFlows is the name of a loss of all flows together.
const allFlows = "all flows"

// forwarding counts what is forwarded of a flow in one direction, and what is not: both of the packets that
// were sent long enough ago to know.
type forwarding struct {
	flows  map[flowOf]*flowLoss
	all    flowLoss
	recent []*slot // in the order of time
}

type flowLoss struct {
	connection      flowOf // see [packet]
	forwarded, lost uint64
	hasForwarded    bool   // something was forwarded
	sequence        uint32 // of its last segment that was
}

// slot counts what has become of the packets that were sent within a time.
type slot struct {
	start           time.Time
	forwarded, lost map[*flowLoss]uint64
}

const slotLength = settle / 10

// lossOf is nil if there are too many flows.
func (f *forwarding) lossOf(p *packet) *flowLoss {
	flow := p.flow()
	l := f.flows[flow]
	if l == nil && len(f.flows) < maxFlows {
		l = &flowLoss{connection: p.connection}
		f.flows[flow] = l
	}
	return l
}

// slotAt is that of the packets that are sent now.
func (f *forwarding) slotAt(now time.Time) *slot {
	if n := len(f.recent); n == 0 || now.Sub(f.recent[n-1].start) >= slotLength {
		f.recent = append(f.recent, &slot{now, map[*flowLoss]uint64{}, map[*flowLoss]uint64{}})
	}
	return f.recent[len(f.recent)-1]
}

// forwards counts a packet that the network has forwarded.
func (f *forwarding) forwards(e *expected) {
	e.slot.forwarded[&f.all]++
	if l := f.lossOf(e.packet); l != nil {
		e.slot.forwarded[l]++
		l.hasForwarded, l.sequence = true, e.sequence()
	}
}

// loses counts one that it has not.
func (f *forwarding) loses(e *expected) {
	e.slot.lost[&f.all]++
	if l := f.lossOf(e.packet); l != nil {
		e.slot.lost[l]++
	}
}

// isStray tells whether a segment is far from what was forwarded before.
func (f *forwarding) isStray(p *packet) bool {
	l := f.flows[p.flow()]
	if p.protocol() != tcp || l == nil || !l.hasForwarded {
		return false
	}
	away := int32(p.sequence() - l.sequence)
	return away > maxStray || away < -maxStray
}

// settle counts what was sent so long ago that it was forwarded or given up.
func (f *forwarding) settle(now time.Time) {
	for len(f.recent) > 0 && now.Sub(f.recent[0].start) >= settle+slotLength {
		for l, n := range f.recent[0].forwarded {
			l.forwarded += n
		}
		for l, n := range f.recent[0].lost {
			l.lost += n
		}
		f.recent = f.recent[1:]
	}
}

// worst is the flow that loses the largest share, or several flows; nil: none loses too much. It also
// counts the connections, among all that were compared, that have lost all of too few packets in a direction.
func (f *forwarding) worst(connections int) (worst *Loss, inconclusive int) {
	share := 0.0
	look := func(l *flowLoss, name func() string) {
		compared := l.lost + l.forwarded
		if l.lost < minLost || l.lost*lostShare < compared || float64(l.lost)/float64(compared) <= share {
			return
		}
		share = float64(l.lost) / float64(compared)
		worst = &Loss{Flow: name(), NotForwarded: l.lost, Compared: compared}
	}
	var silent flowLoss // all of them
	var names []string
	few := map[flowOf]bool{}
	for flow, l := range f.flows {
		look(l, flow.String)
		if !l.hasForwarded && l.lost < minLost {
			silent.lost += l.lost
			few[l.connection] = true
			names = append(names, flow.String())
		}
	}
	look(&f.all, func() string { return allFlows })
	if len(few) >= minLost && len(few)*lostShare >= connections {
		look(&silent, func() string { return fmt.Sprintf("%d flows, such as %s", len(few), slices.Min(names)) })
	}
	return worst, len(few)
}

// sequence is that of a TCP segment.
func (p *packet) sequence() uint32 {
	if at := p.transport + tcpSeq; at+4 <= len(p.bytes) {
		return binary.BigEndian.Uint32(p.bytes[at:])
	}
	return 0
}
