package display

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/venturi-net/venturi/internal/fastpath/shadow"
	"github.com/venturi-net/venturi/internal/sanitize"
)

// PrintShadow prints how packets that the fast path would send differ from the network's.
func PrintShadow(out io.Writer, r shadow.Result) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if r.Compared() == 0 {
		sanitize.Fprintf(w, "no packet was compared: none would have been carried in this time\n")
	} else {
		sanitize.Fprintf(w, "packets of %d flows were compared with the network's own\n", r.Flows)
	}
	sanitize.Fprintf(w, "\nPACKETS\tEQUAL\tDIFFERENT\tNOT FORWARDED\tCHANGED\tMISSED\n")
	for _, line := range []struct {
		name string
		shadow.PacketCount
	}{{"out of pods", r.Out}, {"into pods", r.In}} {
		sanitize.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\n", line.name, line.Equal, line.Different, line.NotForwarded, line.Changed, line.Missed)
	}
	for _, d := range r.Differences {
		if d.IsLoss() {
			sanitize.Fprintf(w, "\n%d not forwarded; the first: %s, %s\n", d.Packets, d.Flow, d.Direction)
			continue
		}
		sanitize.Fprintf(w, "\n%d differ: %s\n", d.Packets, d.String())
	}
	switch {
	case r.Loss != nil:
		sanitize.Fprintf(w, "\ntoo many are lost: %s\n", r.Loss)
	case r.Inconclusive > 0:
		sanitize.Fprintf(w, "\ninconclusive flows: %d (every packet in one direction was lost, too few to tell why)\n", r.Inconclusive)
	}
	return w.Flush()
}

// PrintShadowJSON prints the same as JSON.
func PrintShadowJSON(out io.Writer, r shadow.Result) error {
	if r.Differences == nil {
		r.Differences = []shadow.Mismatch{} // and not null
	}
	return PrintJSON(out, r)
}

// PrintCompared prints how many packets and flows of a version of IP were compared, and were equal, before the
// fast path carries any.
func PrintCompared(out io.Writer, family string, r shadow.Result) {
	if r.Compared() == 0 {
		sanitize.Fprintf(out, "venturi: no %s packets were compared: no flow that would be carried was seen in time (see --shadow-time)\n", family)
		return
	}
	found := "all are equal"
	if n := r.NotForwarded(); n > 0 {
		found = fmt.Sprintf("it did not forward %d, all others are equal", n)
	}
	if r.Inconclusive > 0 {
		found += fmt.Sprintf("; inconclusive flows: %d", r.Inconclusive)
	}
	sanitize.Fprintf(out, "venturi: compared %d %s packets of %d flows with the network's own: %s\n", r.Compared(), family, r.Flows, found)
}
