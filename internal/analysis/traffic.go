package analysis

import (
	"math"

	"github.com/venturi-net/venturi/internal/stats"
	"github.com/venturi-net/venturi/result"
)

// quantiles are the percentiles of a report, those with enough samples.
var quantiles = []float64{0.5, 0.9, 0.99, 0.999}

const defaultResamples = 300

// mostHistograms is how many histograms of an arm are resampled. Of more slices, those that
// follow each other are merged: neighbours are drawn together anyway.
const mostHistograms = 1024

// histograms are those of the slices of an arm, in order.
type histograms struct {
	all    []stats.Histogram
	merged int // slices to one of these
	open   []stats.Histogram
}

func newHistograms(slices int) histograms {
	return histograms{merged: (slices + mostHistograms - 1) / mostHistograms}
}

func (h *histograms) add(slice stats.Histogram) {
	if h.open = append(h.open, slice); len(h.open) < h.merged {
		return
	}
	h.all = append(h.all, h.close())
}

// close merges the slices since the last time.
func (h *histograms) close() stats.Histogram {
	out := h.open[0]
	if len(h.open) > 1 {
		out = stats.Merge(h.open)
	}
	h.open = h.open[:0]
	return out
}

// end returns all histograms.
func (h *histograms) end() []stats.Histogram {
	if len(h.open) > 0 {
		h.all = append(h.all, h.close())
	}
	return h.all
}

// fragments counts the IP packets of one message: IP headers take 20 bytes of
// each, and a fragment's payload is a multiple of 8. TCP makes segments, not
// fragments, and an arm without an MTU is not judged.
func fragments(c result.Cell, arm result.Arm) int {
	const ipHeader, udpHeader = 20, 8
	room, size := arm.MTU-ipHeader, max(c.Size, c.Response)
	if c.Transport == "tcp" || room < 8 || size+udpHeader <= room {
		return 1
	}
	room &^= 7
	return (size + udpHeader + room - 1) / room
}

// latency fills in the sums and percentiles of a ping-pong load.
func (a *analyzer) latency(r *Row, d *armData) {
	var out Latency
	var sum, elapsed float64
	rtts, lateness := newHistograms(len(d.slices)), newHistograms(len(d.slices))
	read := func(into *histograms, enc []byte) {
		if len(enc) == 0 {
			return
		}
		h, err := histogram(enc)
		if err != nil {
			r.Unreadable++
			return
		}
		into.add(h)
	}
	found := false
	for _, s := range d.slices {
		l := s.Latency
		if l == nil {
			continue
		}
		found = true
		out.Requests += l.Requests
		out.Replies += l.Replies
		out.Lost += l.Lost
		out.Late += l.Late
		out.Missed += l.Missed
		sum += float64(l.RTTSum)
		elapsed += float64(s.Elapsed)
		if !a.opt.Live {
			read(&rtts, l.RTT)
		}
		if !a.opt.Live || a.opt.Lateness {
			read(&lateness, l.Lateness)
		}
	}
	if !found {
		return
	}
	if out.Replies > 0 {
		out.MeanRTT = sum / float64(out.Replies)
	}
	if elapsed > 0 {
		out.Rate = float64(out.Replies) / elapsed * 1e9
	}
	out.rtts = rtts.end()
	resamples := a.opt.Resamples
	if resamples == 0 {
		resamples = defaultResamples
	}
	out.Percentiles = stats.Percentiles(out.rtts, quantiles,
		stats.Bootstrap{Resamples: resamples, Seed: a.plan.Seed, Level: a.plan.Confidence})
	if late := lateness.end(); len(late) > 0 {
		out.LatenessP99 = stats.Merge(late).Quantile(0.99)
	}
	r.Latency = &out
}

// histogram decodes one slice's RTTs to its occupied buckets.
func histogram(enc []byte) (stats.Histogram, error) {
	buckets, err := result.RTTBuckets(enc)
	if err != nil {
		return nil, err
	}
	out := make(stats.Histogram, len(buckets))
	for i, b := range buckets {
		out[i] = stats.Bucket(b)
	}
	return out, nil
}

// stream fills in the sums and rates of a one-way load.
func (a *analyzer) stream(r *Row, c result.Cell, d *armData) {
	var out Stream
	var packets, sendNs float64
	found := false
	for _, s := range d.slices {
		t := s.Stream
		if t == nil {
			continue
		}
		found = true
		out.SentMessages += t.SentMessages
		out.SentBytes += t.SentBytes
		out.RecvMessages += t.RecvMessages
		out.RecvBytes += t.RecvBytes
		out.Retransmits += t.Retransmits
		packets += float64(t.Packets)
		sendNs += float64(t.SendNs)
	}
	if !found {
		return
	}
	rate := func(f func(*result.Stream) (n, ns int64)) float64 {
		v := medianOfMedians(d.rates(func(s *result.Slice) (float64, bool) {
			if s.Stream == nil {
				return 0, false
			}
			n, ns := f(s.Stream)
			return float64(n) / float64(ns) * 1e9, ns > 0
		}))
		if math.IsNaN(v) {
			return 0
		}
		return v
	}
	out.SentRate = rate(func(t *result.Stream) (int64, int64) { return t.SentMessages, t.SendNs })
	out.SentBits = 8 * rate(func(t *result.Stream) (int64, int64) { return t.SentBytes, t.SendNs })
	out.RecvRate = rate(func(t *result.Stream) (int64, int64) { return t.RateMessages, t.RateNs })
	out.RecvBits = 8 * rate(func(t *result.Stream) (int64, int64) { return t.RateBytes, t.RateNs })
	switch {
	case c.Transport == "udp":
		out.Lost = max(0, out.SentMessages-out.RecvMessages)
		out.PacketRate = out.RecvRate * float64(r.Fragments)
	case sendNs > 0:
		out.PacketRate = packets / sendNs * 1e9
		out.RetransmitRate = float64(out.Retransmits) / sendNs * 1e9
	}
	r.Stream = &out
}
