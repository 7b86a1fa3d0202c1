package display

import (
	"strings"
	"time"

	"github.com/venturi-net/venturi/internal/load"
	"github.com/venturi-net/venturi/internal/path"
	"github.com/venturi-net/venturi/internal/sanitize"
)

func PathHelp() string {
	var b strings.Builder
	for _, d := range path.Table {
		sanitize.Fprintf(&b, "  %-12s %s\n               (like %s)\n", d.Name, d.Summary, d.Example)
	}
	return strings.TrimRight(b.String(), "\n")
}

// PathAndLoadHelp lists paths and loads for --help.
func PathAndLoadHelp() string {
	var b strings.Builder
	b.WriteString("Paths:\n" + PathHelp() + "\n\nLoads:\n")
	for _, l := range load.Table {
		sanitize.Fprintf(&b, "  %-8s %s; %d B, %s\n", l.Name, l.Summary, l.Size, l.Slice.Round(time.Millisecond))
	}
	return strings.TrimRight(b.String(), "\n")
}
