package pods

import (
	"fmt"
	"io"
)

// Print shows what all loads did on all arms, and gives the rows by load and name of the arm.
func Print(w io.Writer, rows []Row) map[Load]map[string]Row {
	named := map[Load]map[string]Row{}
	fmt.Fprintf(w, "%-8s %-26s %12s  %-10s %s\n", "load", "way", "typical", "carried", "lost")
	for _, r := range rows {
		if named[r.Load] == nil {
			named[r.Load] = map[string]Row{}
		}
		named[r.Load][r.Arm.Name] = r
		figure, lost, share := fmt.Sprintf("%.2f µs", r.Typical()/1e3), fmt.Sprintf("%d of %d", r.Lost, r.Requests), "-"
		if r.Load == TCPStream {
			figure, lost = fmt.Sprintf("%.0f MB/s", r.Typical()/1e6), "-"
		}
		if r.Arm.Pins != nil {
			share = fmt.Sprintf("%.2f %%", 100*r.Share())
		}
		fmt.Fprintf(w, "%-8s %-26s %12s  %-10s %s\n", r.Load, r.Arm.Name, figure, share, lost)
	}
	return named
}
