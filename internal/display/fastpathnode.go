package display

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/node"
	"github.com/venturi-net/venturi/internal/report/view"
	"github.com/venturi-net/venturi/internal/sanitize"
)

// FastPathReport is what there is of a node's fast path.
type FastPathReport struct {
	Enabled     bool             `json:"enabled"`
	Running     bool             `json:"running"` // its daemon lives
	Config      *fastpath.Config `json:"config,omitempty"`
	State       *fastpath.State  `json:"state,omitempty"`
	Packets     map[string]int64 `json:"packets,omitempty"` // by what became of them, since it was enabled
	SlowIngress map[string]int64 `json:"into,omitempty"`    // of those that were slow, on their way into a pod
	Flows       int              `json:"flows"`             // in its table
}

// NewFastPathReport tells a status.
func NewFastPathReport(s node.Status) FastPathReport {
	counts := fastPathCounts(s.Stats)
	return FastPathReport{s.Enabled, s.Running, s.Config, s.State, counts.Packets, counts.SlowIngress, s.Table.Flows}
}

func fastPathCounts(stats []fastpath.Stat) (all analysis.FastPath) {
	for _, s := range stats {
		all.Add(s.Count.Key(), int64(s.Packets))
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
	}
	printFates(w, r.Packets, r.SlowIngress)
	return w.Flush()
}

func stateLine(s fastpath.State) sanitize.Safe {
	line := sanitize.Sprintf("carried: pods %d, peers %d", s.Pods, s.Peers)
	if s.Waiting > 0 {
		line += sanitize.Sprintf("; pods that wait for their programs %d", s.Waiting)
	}
	return line
}

// printFates prints what became of packets.
func printFates(w io.Writer, packets, into map[string]int64) {
	keys := view.ByFate(&analysis.FastPath{Packets: packets})
	if len(keys) > 0 {
		sanitize.Fprintf(w, "\nSINCE IT WAS ENABLED\tPACKETS\tINTO PODS\n")
	}
	for _, key := range keys {
		pods := ""
		if n, told := into[key]; told {
			pods = fmt.Sprint(n)
		}
		sanitize.Fprintf(w, "%s\t%d\t%s\n", view.Fate(key), packets[key], pods)
	}
}

// PrintFastPathState prints a change of what a node's fast path carries.
func PrintFastPathState(out io.Writer, s fastpath.State) {
	if s.Off != "" {
		sanitize.Fprintf(out, "venturi: nothing is carried: %s\n", s.Off)
		return
	}
	sanitize.Fprintf(out, "venturi: %s\n", stateLine(s))
	for _, refused := range s.Refused {
		sanitize.Fprintf(out, "venturi: left slow: %s %s\n", refused.Device, refused.Reason)
	}
}

// PrintFastPathEnd prints what a fast path has done that has ended.
func PrintFastPathEnd(out io.Writer, stats []fastpath.Stat) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	sanitize.Fprintf(w, "the fast path is disabled; nothing of it is left\n")
	counts := fastPathCounts(stats)
	printFates(w, counts.Packets, counts.SlowIngress)
	return w.Flush()
}
