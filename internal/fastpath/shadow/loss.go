package shadow

import (
	"encoding/binary"
	"fmt"
	"time"
)

// Loss is a flow that loses more packets in one direction than networks lose anyway, or all flows
// that do so together.
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
// those that find a queue full. So only this many are a reason to carry nothing.
const (
	minLost   = 3  // packets
	lostShare = 20 // one in so many

	// maxStray is how far the sequence number of a segment may be from what the network forwarded
	// of its flow before, for the segment to count: conntrack drops one that is far from it.
	maxStray = 1 << 20
)

// allFlows is the name of a loss of all flows together.
const allFlows = "all flows"

// forwarding counts what is forwarded of a flow in one direction. It counts packets when the network
// has had the time to drop others that were sent with them.
type forwarding struct {
	flows  map[flowOf]*flowLoss
	all    flowLoss
	recent []slot // in the order of time
}

type flowLoss struct {
	forwarded, lost uint64
	hasForwarded    bool   // something was forwarded
	sequence        uint32 // of its last segment that was
}

// slot counts what was forwarded within a time.
type slot struct {
	start     time.Time
	forwarded map[*flowLoss]uint64
}

const slotLength = settle / 10

// lossOf is nil if there are too many flows.
func (f *forwarding) lossOf(flow flowOf) *flowLoss {
	l := f.flows[flow]
	if l == nil && len(f.flows) < maxFlows {
		l = &flowLoss{}
		f.flows[flow] = l
	}
	return l
}

// forwards counts a packet that the network has forwarded.
func (f *forwarding) forwards(p *packet, now time.Time) {
	if n := len(f.recent); n == 0 || now.Sub(f.recent[n-1].start) >= slotLength {
		f.recent = append(f.recent, slot{now, map[*flowLoss]uint64{}})
	}
	counts := f.recent[len(f.recent)-1].forwarded
	counts[&f.all]++
	if l := f.lossOf(p.flow()); l != nil {
		counts[l]++
		l.hasForwarded, l.sequence = true, p.sequence()
	}
}

// loses counts one that it has not.
func (f *forwarding) loses(flow flowOf) {
	f.all.lost++
	if l := f.lossOf(flow); l != nil {
		l.lost++
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

// settle counts what was forwarded long enough ago.
func (f *forwarding) settle(now time.Time) {
	for len(f.recent) > 0 && now.Sub(f.recent[0].start) >= settle+slotLength {
		for l, n := range f.recent[0].forwarded {
			l.forwarded += n
		}
		f.recent = f.recent[1:]
	}
}

// worst is the flow that loses the largest share, or all flows; nil: none loses too much.
func (f *forwarding) worst() (worst *Loss) {
	share := 0.0
	look := func(l *flowLoss, name func() string) {
		compared := l.lost + l.forwarded
		if l.lost < minLost || l.lost*lostShare < compared || float64(l.lost)/float64(compared) <= share {
			return
		}
		share = float64(l.lost) / float64(compared)
		worst = &Loss{Flow: name(), NotForwarded: l.lost, Compared: compared}
	}
	for flow, l := range f.flows {
		look(l, flow.String)
	}
	look(&f.all, func() string { return allFlows })
	return worst
}

// sequence is that of a TCP segment.
func (p *packet) sequence() uint32 {
	if at := p.transport + tcpSeq; at+4 <= len(p.bytes) {
		return binary.BigEndian.Uint32(p.bytes[at:])
	}
	return 0
}
