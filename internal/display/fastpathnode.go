package display

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/node"
	"github.com/venturi-net/venturi/internal/report/view"
	"github.com/venturi-net/venturi/internal/sanitize"
)

// titleIPv6 stands above what is of IPv6, after the same of IPv4.
const titleIPv6 = "\nIPv6:\n"

// FastPathReport is what there is of a node's fast path.
type FastPathReport struct {
	Enabled     bool             `json:"enabled"`
	Running     bool             `json:"running"` // its daemon lives
	Config      *fastpath.Config `json:"config,omitempty"`
	State       *fastpath.State  `json:"state,omitempty"`
	Packets     map[string]int64 `json:"packets"` // by what became of them, since it was enabled
	SlowIngress map[string]int64 `json:"into"`    // of those that were slow, on their way into a pod
	Carried     float64          `json:"carried"` // share of all packets, 0 to 1
	Flows       int              `json:"flows"`   // in its table

	Pods  []fastpath.PodFlows  `json:"pods"`
	Peers []fastpath.PeerFlows `json:"peers"`

	IPv6 *FastPathReport `json:"ipv6,omitempty"` // the same of IPv6; nil: it is not carried
}

// NewFastPathReport tells a status.
func NewFastPathReport(s node.Status) FastPathReport {
	counts := fastPathCounts(s.Stats)
	r := FastPathReport{s.Enabled, s.Running, s.Config, s.State, counts.Packets, counts.SlowIngress, counts.Share(), s.Table.Flows, s.Pods, s.Peers, nil}
	if s.IPv6 != nil {
		six := NewFastPathReport(*s.IPv6)
		r.IPv6 = &six
	}
	if r.Packets == nil { // it has not started: scripts get what there is of a list, not null
		r.Packets, r.SlowIngress = map[string]int64{}, map[string]int64{}
	}
	if r.State != nil && r.State.Counters != nil {
		r.State.Counters.AskKernel()
	}
	if r.Pods == nil {
		r.Pods = []fastpath.PodFlows{}
	}
	if r.Peers == nil {
		r.Peers = []fastpath.PeerFlows{}
	}
	return r
}

func fastPathCounts(stats []fastpath.Stat) (all analysis.FastPath) {
	for _, s := range stats {
		all.Add(s.Key(), int64(s.Packets))
	}
	return all
}

// Print prints it for people.
func (r FastPathReport) Print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	switch {
	case !r.Enabled:
		sanitize.Fprintf(w, "there is no fast path here\n")
	case !r.Running:
		sanitize.Fprintf(w, "the daemon has ended, and nothing is carried: remove the rest with \"venturi fastpath disable\"\n")
	case r.carriesIPv6Alone():
		sanitize.Fprintf(w, "no IPv4 is carried; \"venturi fastpath plan\" says why\n")
	case r.State == nil:
		sanitize.Fprintf(w, "the fast path is starting\n")
	case r.State.Off != "":
		sanitize.Fprintf(w, "nothing is carried: %s\n", r.State.Off)
	default:
		sanitize.Fprintf(w, "%s\n", stateLine(*r.State))
	}
	if r.Running && r.State != nil {
		for _, refused := range r.State.Refused {
			sanitize.Fprintf(w, "left slow: %s %s\n", refused.Device, refused.Reason)
		}
		if r.State.Off == "" {
			printUncarried(w, r.State.Unreplied, r.State.Uncarried)
		}
		if e := r.State.Epochs; e != nil {
			sanitize.Fprintf(w, "epochs since the daemon started: %d (%s); the last at %s (%s)\n", e.Total(), causesOf(*e), formatTime(e.Time), string(e.Last))
		}
	}
	if len(r.Packets) > 0 {
		sanitize.Fprintf(w, "share of packets that was carried: %.1f %%\n", 100*r.Carried)
	}
	r.printOwners(w)
	if r.Running && r.Config != nil && r.State != nil && r.State.Counters != nil {
		printCounters(w, *r.State.Counters, r.Config.Kind, r.Config.Devices.Wire, r.Config.Devices.Tunnels)
	}
	printOutcomes(w, r.Packets, r.SlowIngress)
	if err := w.Flush(); err != nil || r.IPv6 == nil {
		return err
	}
	sanitize.Fprintf(out, titleIPv6)
	return r.IPv6.Print(out)
}

// printOwners prints whose flows are in the table.
func (r FastPathReport) printOwners(w io.Writer) {
	if len(r.Pods) > 0 {
		sanitize.Fprintf(w, "\nPOD\tADDRESS\tFLOWS\tCARRIED\tTRANSLATED\n")
	}
	for _, p := range r.Pods {
		sanitize.Fprintf(w, "%s\t%s\t%d\t%d\t%d\n", p.Device, p.Addr.String(), p.Flows, p.Carried, p.Translated)
	}
	if len(r.Peers) > 0 {
		sanitize.Fprintf(w, "\nPEER\tFLOWS\tCARRIED\tTRANSLATED\n")
	}
	for _, p := range r.Peers {
		sanitize.Fprintf(w, "%s\t%d\t%d\t%d\n", p.Addr, p.Flows, p.Carried, p.Translated)
	}
}

// causesOf lists how many epochs each cause began.
func causesOf(e fastpath.Epochs) string {
	var all []string
	for _, cause := range e.Causes() {
		all = append(all, fmt.Sprintf("%s %d", cause, e.Counts[cause]))
	}
	return strings.Join(all, ", ")
}

// carriesIPv6Alone: there is no fast path for IPv4.
func (r FastPathReport) carriesIPv6Alone() bool { return r.Config == nil && r.IPv6 != nil }

func stateLine(s fastpath.State) sanitize.Safe {
	line := sanitize.Sprintf("carried: pods %d, peers %d", s.Pods, s.Peers)
	if s.Waiting > 0 {
		line += sanitize.Sprintf("; pods that wait for their programs %d", s.Waiting)
	}
	return line
}

// printOutcomes prints what became of packets.
func printOutcomes(w io.Writer, packets, into map[string]int64) {
	keys := view.ByOutcome(&analysis.FastPath{Packets: packets})
	if len(keys) > 0 {
		sanitize.Fprintf(w, "\nSINCE IT WAS ENABLED\tPACKETS\tINTO PODS\n")
	}
	for _, key := range keys {
		pods := ""
		if n, told := into[key]; told {
			pods = fmt.Sprint(n)
		}
		sanitize.Fprintf(w, "%s\t%d\t%s\n", view.Outcome(key), packets[key], pods)
	}
}

// PrintFastPathState prints a change of what a node's fast path carries.
func PrintFastPathState(out io.Writer, s fastpath.State) { printState(out, "venturi", s) }

// PrintFastPathState6 prints it of the fast path for IPv6.
func PrintFastPathState6(out io.Writer, s fastpath.State) { printState(out, "venturi: IPv6", s) }

func printState(out io.Writer, who string, s fastpath.State) {
	if s.Off != "" {
		sanitize.Fprintf(out, "%s: nothing is carried: %s\n", who, s.Off)
		return
	}
	sanitize.Fprintf(out, "%s: %s\n", who, stateLine(s))
	for _, refused := range s.Refused {
		sanitize.Fprintf(out, "%s: left slow: %s %s\n", who, refused.Device, refused.Reason)
	}
}

// PrintFastPathEnd prints what a fast path has done that has ended.
func PrintFastPathEnd(out io.Writer, stats node.FamilyStats) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	sanitize.Fprintf(w, "the fast path is disabled; nothing of it is left\n")
	counts := fastPathCounts(stats.IPv4)
	printOutcomes(w, counts.Packets, counts.SlowIngress)
	if len(stats.IPv6) > 0 {
		sanitize.Fprintf(w, titleIPv6)
		counts = fastPathCounts(stats.IPv6)
		printOutcomes(w, counts.Packets, counts.SlowIngress)
	}
	return w.Flush()
}
