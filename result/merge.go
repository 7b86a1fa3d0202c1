package result

import (
	"bytes"
	"slices"
)

// mostSlices is how many slices a record holds in memory after it was read. In a longer
// one, rounds that follow each other are merged: two, four, eight and so on, the same ones
// of all arms, so that they can still be compared.
const mostSlices = 3 << 14

// Merged says what was merged to read a long record.
type Merged struct {
	Rounds int `json:"rounds"`           // that a slice stands for, at most; 0: nothing was merged
	Slices int `json:"slices"`           // slices of the file
	Failed int `json:"failed,omitempty"` // of these, slices without a figure that are in one that has a figure
}

// merger collects the slices of a record.
type merger struct {
	rec     *Record
	limit   int               // see mostSlices
	last    map[seriesKey]int // index of the latest slice
	metrics map[string]Metric // of cells; nil: not looked up yet
}

func newMerger(rec *Record) *merger {
	return &merger{rec: rec, limit: mostSlices, last: map[seriesKey]int{}}
}

// add takes a slice, which the caller may use again afterwards, and its histograms, of which it
// decodes those that the record keeps.
func (m *merger) add(s *Slice, h histograms) {
	rec := m.rec
	rec.Merged.Slices++
	if rec.Merged.Rounds > 1 {
		s.Round /= rec.Merged.Rounds
		if at, ok := m.last[seriesKey{s.Cell, s.Arm, s.Series}]; ok && rec.Slices[at].Round == s.Round {
			kept := rec.Slices[at].Latency
			h.decode(s.Latency, kept == nil || len(kept.RTT) == 0, kept == nil || len(kept.Lateness) == 0)
			m.merge(&rec.Slices[at], s)
			return
		}
		m.last[seriesKey{s.Cell, s.Arm, s.Series}] = len(rec.Slices)
	}
	h.decode(s.Latency, true, true)
	rec.Slices = append(rec.Slices, s.clone())
	if len(rec.Slices) > m.limit {
		m.halve()
	}
}

// halve merges each two rounds. What cannot be merged, such as a thousand series of one
// round, stays, and there may be as many more before the next time.
func (m *merger) halve() {
	rec := m.rec
	rec.Merged.Rounds = 2 * max(1, rec.Merged.Rounds)
	for i := range rec.Slices {
		rec.Slices[i].Round /= 2
	}
	m.mergeEqual()
	m.limit = max(mostSlices, 2*len(rec.Slices))
	if len(rec.Slices) <= mostSlices*3/4 {
		m.limit = mostSlices
	}
}

// mergeEqual merges the slices that have the same round.
func (m *merger) mergeEqual() {
	rec := m.rec
	type key struct {
		seriesKey
		round int
	}
	places := make(map[key]int, len(rec.Slices)/2)
	clear(m.last)
	kept := rec.Slices[:0]
	for i := range rec.Slices {
		s := rec.Slices[i]
		of := seriesKey{s.Cell, s.Arm, s.Series}
		if at, ok := places[key{of, s.Round}]; ok {
			m.merge(&kept[at], &s)
			continue
		}
		places[key{of, s.Round}], m.last[of] = len(kept), len(kept)
		kept = append(kept, s)
	}
	clear(rec.Slices[len(kept):])
	rec.Slices = kept
}

// end merges what came out of order.
func (m *merger) end() {
	if m.rec.Merged.Rounds > 1 {
		m.mergeEqual()
	} else {
		m.rec.Merged = Merged{}
	}
}

// clone copies what a slice points to.
func (s *Slice) clone() Slice {
	out := *s
	if s.Latency != nil {
		l := *s.Latency
		l.RTT, l.Lateness, l.PerFlow = bytes.Clone(l.RTT), bytes.Clone(l.Lateness), slices.Clone(l.PerFlow)
		out.Latency = &l
	}
	out.Stream, out.Background = s.Stream.clone(), s.Background.clone()
	return out
}

func (t *Stream) clone() *Stream {
	if t == nil {
		return nil
	}
	out := *t
	out.PerFlow = slices.Clone(t.PerFlow)
	return &out
}

// merge adds o to s, and counts of how many slices of the file they are.
func (m *merger) merge(s, o *Slice) {
	metric := m.metric(s.Cell)
	all, blank := s.Counts(metric)
	more, also := o.Counts(metric)
	s.merge(o, &m.rec.Merged)
	s.Merged, s.Blank = all+more, blank+also
}

// metric is that of a cell.
func (m *merger) metric(cell string) Metric {
	if m.metrics == nil {
		m.metrics = map[string]Metric{}
		for _, c := range m.rec.Plan.Cells {
			m.metrics[c.Name] = c.Metric
		}
	}
	return m.metrics[cell]
}

// merge adds a slice of the same arm: counts and times are sums, and so every rate is right.
// The median is the mean of both, and of the histograms one stands for both.
func (s *Slice) merge(o *Slice, m *Merged) {
	if o.Failed != "" {
		if s.Failed == "" {
			m.Failed++
		}
		return
	}
	if s.Failed != "" {
		m.Failed++
		round := s.Round
		*s = o.clone()
		s.Round = round
		return
	}
	s.Start, s.Elapsed = min(s.Start, o.Start), s.Elapsed+o.Elapsed
	s.Latency = s.Latency.plus(o.Latency)
	s.Stream = s.Stream.plus(o.Stream)
	s.Background = s.Background.plus(o.Background)
}

// plus adds another to l, which it changes; nil is nothing.
func (l *Latency) plus(o *Latency) *Latency {
	if l == nil || o == nil {
		return l
	}
	if n := l.Replies + o.Replies; l.RTTMedian > 0 && o.RTTMedian > 0 && n > 0 {
		share := float64(o.Replies) / float64(n)
		l.RTTMedian += int64(share * float64(o.RTTMedian-l.RTTMedian))
	} else {
		l.RTTMedian = max(l.RTTMedian, o.RTTMedian)
	}
	l.Requests += o.Requests
	l.Replies += o.Replies
	l.Lost += o.Lost
	l.Late += o.Late
	l.RTTSum += o.RTTSum
	l.HeadReplies += o.HeadReplies
	l.Missed += o.Missed
	l.Timeout = max(l.Timeout, o.Timeout)
	l.PerFlow = plusEach(l.PerFlow, o.PerFlow)
	if len(l.RTT) == 0 {
		l.RTT = bytes.Clone(o.RTT)
	}
	if len(l.Lateness) == 0 {
		l.Lateness = bytes.Clone(o.Lateness)
	}
	return l
}

// plus adds another to t, which it changes; nil is nothing.
func (t *Stream) plus(o *Stream) *Stream {
	if t == nil || o == nil {
		return t
	}
	t.AskedMessages += o.AskedMessages
	t.SentMessages += o.SentMessages
	t.SentBytes += o.SentBytes
	t.SendNs += o.SendNs
	t.RecvMessages += o.RecvMessages
	t.RecvBytes += o.RecvBytes
	t.RateMessages += o.RateMessages
	t.RateBytes += o.RateBytes
	t.RateNs += o.RateNs
	t.Packets += o.Packets
	t.Retransmits += o.Retransmits
	t.PerFlow = plusEach(t.PerFlow, o.PerFlow)
	return t
}

func plusEach(a, b []int64) []int64 {
	for i := range min(len(a), len(b)) {
		a[i] += b[i]
	}
	return a
}
