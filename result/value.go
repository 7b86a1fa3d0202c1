package result

import "math"

// Value gives the figure of a slice in base units of the metric: ns for
// [OneWay] (median RTT/2) and [RoundTrip] (median RTT), per second for [Transactions], [Connections] and
// [Messages], bit/s for [Bandwidth]. It is false when the slice has none: it failed, nothing
// arrived, or the slice is of another kind. A figure is always finite and
// above zero, so its logarithm exists.
func (s *Slice) Value(m Metric) (float64, bool) {
	if s.Failed != "" {
		return 0, false
	}
	var v float64
	switch m {
	case OneWay:
		if s.Latency == nil || s.Latency.RTTMedian <= 0 {
			return s.Mean()
		}
		v = float64(s.Latency.RTTMedian) / 2
	case RoundTrip:
		if s.Latency == nil || s.Latency.Replies <= 0 {
			return 0, false
		}
		v = float64(s.Latency.RTTMedian)
		if mean, ok := s.Mean(); v <= 0 && ok { // a tool tells the mean
			v = 2 * mean
		}
	case Transactions, Connections:
		if s.Latency == nil || s.Elapsed <= 0 {
			return 0, false
		}
		v = float64(s.Latency.Replies) / float64(s.Elapsed) * 1e9
	case Bandwidth:
		if s.Stream == nil || s.Stream.RateNs <= 0 {
			return 0, false
		}
		v = float64(s.Stream.RateBytes) * 8 / float64(s.Stream.RateNs) * 1e9
	case Messages:
		if s.Stream == nil || s.Stream.RateNs <= 0 {
			return 0, false
		}
		v = float64(s.Stream.RateMessages) / float64(s.Stream.RateNs) * 1e9
	}
	if !(v > 0) || math.IsInf(v, 0) {
		return 0, false
	}
	return v, true
}

// Mean gives the mean RTT/2 of a slice in ns, which is what qperf and netperf
// call latency. One interruption of the machine moves it more than any path
// does, so ratios are taken of the median.
func (s *Slice) Mean() (float64, bool) {
	if s.Failed != "" || s.Latency == nil || s.Latency.Replies <= 0 || s.Latency.RTTSum <= 0 {
		return 0, false
	}
	return float64(s.Latency.RTTSum) / float64(s.Latency.Replies) / 2, true
}
