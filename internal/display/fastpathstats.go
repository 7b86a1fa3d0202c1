package display

import (
	"cmp"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/fastpath/node"
	"github.com/venturi-net/venturi/internal/report/view"
	"github.com/venturi-net/venturi/internal/sanitize"
)

// FastPathStats is why packets and flows of a node stay on the slow path.
type FastPathStats struct {
	Packets int64                `json:"packets"` // that the programs saw since the fast path was enabled
	Carried float64              `json:"carried"` // share of them, 0 to 1
	Reasons []SlowReason         `json:"reasons"` // most packets first
	Pods    []fastpath.PodFlows  `json:"pods"`    // most flows that are not carried first
	Peers   []fastpath.PeerFlows `json:"peers"`   // likewise

	IPv6 *FastPathStats `json:"ipv6,omitempty"` // the same of IPv6; nil: it is not carried

	morePods, morePeers int // that are not listed
}

// SlowReason counts the packets that were slow for a reason.
type SlowReason struct {
	Reason  string  `json:"reason"`
	Why     string  `json:"why"` // the same in words
	Packets int64   `json:"packets"`
	Bytes   int64   `json:"bytes"`
	Share   float64 `json:"share"` // of all packets, 0 to 1
	Out     int64   `json:"out"`   // of the packets, those that came out of a pod
	Ingress int64   `json:"into"`  // and those on their way into one
}

// NewFastPathStats tells them of a status, with so many pods and peers at most.
func NewFastPathStats(s node.Status, top int) FastPathStats {
	counts := fastPathCounts(s.Stats)
	stats := FastPathStats{Packets: counts.Total(), Carried: counts.Share(), Reasons: slowReasons(s.Stats, counts.Total())}
	stats.Pods, stats.morePods = slowest(s.Pods, top, func(p fastpath.PodFlows) fastpath.FlowCount { return p.FlowCount })
	stats.Peers, stats.morePeers = slowest(s.Peers, top, func(p fastpath.PeerFlows) fastpath.FlowCount { return p.FlowCount })
	if s.IPv6 != nil {
		six := NewFastPathStats(*s.IPv6, top)
		stats.IPv6 = &six
	}
	return stats
}

func slowReasons(stats []fastpath.Stat, total int64) []SlowReason {
	reasons := []SlowReason{}
	for _, s := range stats {
		what, isSlow := strings.CutPrefix(s.Key(), "slow_")
		if !isSlow || s.Packets == 0 {
			continue
		}
		what = "slow_" + strings.TrimSuffix(strings.TrimSuffix(what, "_in"), "_out")
		i := slices.IndexFunc(reasons, func(r SlowReason) bool { return r.Reason == what })
		if i < 0 {
			i = len(reasons)
			reasons = append(reasons, SlowReason{Reason: what, Why: strings.TrimPrefix(view.Outcome(what), "slow: ")})
		}
		r := &reasons[i]
		r.Packets, r.Bytes = r.Packets+int64(s.Packets), r.Bytes+int64(s.Bytes)
		r.Share = float64(r.Packets) / float64(total)
		if s.Count < bpf.PerDirection {
			r.Out += int64(s.Packets)
		} else {
			r.Ingress += int64(s.Packets)
		}
	}
	slices.SortFunc(reasons, func(a, b SlowReason) int {
		return cmp.Or(cmp.Compare(b.Packets, a.Packets), cmp.Compare(a.Reason, b.Reason))
	})
	return reasons
}

// slowest gives those with the most flows that are not carried, or in one direction only, and how
// many others there are.
func slowest[T any](all []T, top int, count func(T) fastpath.FlowCount) (first []T, more int) {
	first = slices.Clone(all)
	slices.SortStableFunc(first, func(a, b T) int {
		m, n := count(a), count(b)
		return cmp.Or(cmp.Compare(n.Slow(), m.Slow()), cmp.Compare(n.OneWay, m.OneWay), cmp.Compare(n.Flows, m.Flows))
	})
	more = max(0, len(first)-top)
	first = first[:len(first)-more]
	if first == nil {
		first = []T{}
	}
	return first, more
}

// Print prints it for people.
func (s FastPathStats) Print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	sanitize.Fprintf(w, "of %d packets, %.1f %% were carried\n", s.Packets, 100*s.Carried)
	if len(s.Reasons) > 0 {
		sanitize.Fprintf(w, "\nSLOW BECAUSE\tPACKETS\tSHARE\tOUT OF PODS\tINTO PODS\n")
	}
	for _, r := range s.Reasons {
		sanitize.Fprintf(w, "%s\t%d\t%.1f %%\t%d\t%d\n", r.Why, r.Packets, 100*r.Share, r.Out, r.Ingress)
	}
	const columns = "FLOWS\tCARRIED\tONE WAY\tLEARNING\tSTALE\n"
	flows := func(n fastpath.FlowCount) {
		sanitize.Fprintf(w, "%d\t%d\t%d\t%d\t%d\n", n.Flows, n.Carried, n.OneWay, n.Learning, n.Stale)
	}
	rest := func(more int) {
		if more > 0 {
			sanitize.Fprintf(w, "and %d more\n", more)
		}
	}
	if len(s.Pods) > 0 {
		sanitize.Fprintf(w, "\nPOD\tADDRESS\t"+columns)
	}
	for _, p := range s.Pods {
		sanitize.Fprintf(w, "%s\t%s\t", p.Device, p.Addr.String())
		flows(p.FlowCount)
	}
	rest(s.morePods)
	if len(s.Peers) > 0 {
		sanitize.Fprintf(w, "\nPEER\t"+columns)
	}
	for _, p := range s.Peers {
		sanitize.Fprintf(w, "%s\t", p.Addr)
		flows(p.FlowCount)
	}
	rest(s.morePeers)
	if err := w.Flush(); err != nil || s.IPv6 == nil {
		return err
	}
	sanitize.Fprintf(out, titleIPv6)
	return s.IPv6.Print(out)
}
