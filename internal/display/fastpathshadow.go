package display

import (
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
	sanitize.Fprintf(w, "\nPACKETS\tEQUAL\tDIFFERENT\tCHANGED\tMISSED\n")
	for _, line := range []struct {
		name string
		shadow.PacketCount
	}{{"out of pods", r.Out}, {"into pods", r.In}} {
		sanitize.Fprintf(w, "%s\t%d\t%d\t%d\t%d\n", line.name, line.Equal, line.Different, line.Changed, line.Missed)
	}
	for _, d := range r.Differences {
		sanitize.Fprintf(w, "\n%d differ: %s\n", d.Packets, d.String())
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
	sanitize.Fprintf(out, "venturi: compared %d %s packets of %d flows with the network's own: all are equal\n", r.Compared(), family, r.Flows)
}
