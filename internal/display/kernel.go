package display

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/venturi-net/venturi/internal/kernel"
	"github.com/venturi-net/venturi/internal/sanitize"
)

// FetchProgress shows the progress of a fetch: on a terminal in one line, else a line
// for each step.
type FetchProgress struct {
	Out      io.Writer
	Terminal bool
	lineStep string // the step of the line that stands unfinished
}

func (f *FetchProgress) Step(step string, have, total int64) {
	if step != f.lineStep {
		f.End()
		f.lineStep = step
		if !f.Terminal {
			sanitize.Fprintf(f.Out, "venturi: %s%s\n", step, downloadSize(total))
		}
	}
	if !f.Terminal {
		return
	}
	sanitize.Fprintf(f.Out, "\rventuri: %s", step)
	if total > 0 {
		sanitize.Fprintf(f.Out, ": %d of %d MB", have/1e6, total/1e6)
	}
}

func downloadSize(bytes int64) string {
	if bytes == 0 {
		return ""
	}
	return fmt.Sprintf(" (%d MB)", bytes/1e6)
}

func (f *FetchProgress) End() {
	if f.Terminal && f.lineStep != "" {
		sanitize.Fprintln(f.Out)
	}
	f.lineStep = ""
}

// StoredKernel is a line of the list of kernels.
type StoredKernel struct {
	Release string    `json:"release"`
	Series  string    `json:"series"`
	Use     []string  `json:"names"` // what to give --kernel for it
	Bytes   int64     `json:"bytes"`
	Modules bool      `json:"modules"`
	Source  string    `json:"source,omitempty"`
	Image   string    `json:"image"`
	Fetched time.Time `json:"fetched"`
}

func PrintKernels(out io.Writer, list []StoredKernel) error {
	if len(list) == 0 {
		_, err := sanitize.Fprintf(out, "no kernel is kept; fetch one: venturi kernel fetch %s\n", kernel.Default)
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	sanitize.Fprintf(w, "--kernel\tRELEASE\tSIZE\tMODULES\tFROM\n")
	for _, k := range list {
		modules, called := "yes", k.Use[len(k.Use)-1]
		if !k.Modules {
			modules = "no"
		}
		sanitize.Fprintf(w, "%s\t%s\t%d MB\t%s\t%s\n", called, k.Release, k.Bytes/1e6, modules, k.Source)
	}
	return w.Flush()
}
