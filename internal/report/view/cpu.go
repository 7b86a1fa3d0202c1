package view

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/internal/report/unit"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/result"
)

const (
	// manyCores is how many cores a line names; a big machine's others are idle
	// or much alike.
	manyCores = 8
	// idleCore is the busy share below which a core is not worth its name.
	idleCore = 0.005
	// stealShown is the share of stolen time from which it is worth a word.
	stealShown = 0.001
	// coarseCPU is what the resolution of the fallback source holds.
	coarseCPU = "10 ms units"
)

// cpuFields are columns for Markdown only: a terminal has lines below the rows.
func cpuFields(c *analysis.Cell) []field {
	if !slices.ContainsFunc(c.Rows, func(r analysis.Row) bool { return r.CPU != nil }) {
		return nil
	}
	return []field{
		{Column{"CPU time in", true, RankMarkdownOnly}, func(r *analysis.Row) string { return ClassText(r.CPU) }},
		{Column{"cores busy", true, RankMarkdownOnly}, func(r *analysis.Row) string { return CoreText(r.CPU) }},
	}
}

// cpuLines says for each path what the CPU time was spent in and on which core.
func cpuLines(c *analysis.Cell) []CPULine {
	var out []CPULine
	for i := range c.Rows {
		if r := &c.Rows[i]; r.CPU != nil {
			out = append(out, CPULine{sanitize.Text(r.Arm.Name), ClassText(r.CPU), CoreText(r.CPU), ""})
			if len(r.Threads) > 0 {
				out[len(out)-1].Threads = ThreadText(r)
			}
		}
	}
	return out
}

// CPULine is what a path's CPU time was spent in, and by which threads; no Threads: not known.
type CPULine struct{ Path, Classes, Cores, Threads string }

// ClassText splits the CPU time by class, the largest first, on each machine that has cores of
// its own: shares of the time that the kernel accounted for. Guest time is within user's.
func ClassText(c *analysis.CPU) string {
	if c == nil {
		return unit.NoFigure
	}
	if len(c.MachineClasses) == 0 {
		return cmp.Or(classShares(c.Classes, c.Steal), unit.NoFigure)
	}
	var parts []string
	for _, machine := range slices.Sorted(maps.Keys(c.MachineClasses)) {
		text := cmp.Or(classShares(c.MachineClasses[machine], c.MachineSteal[machine]), unit.NoFigure)
		parts = append(parts, sanitize.Text(machine)+": "+text)
	}
	return strings.Join(parts, "; ")
}

// classShares lists the shares of the classes, and what the hypervisor took.
func classShares(classes map[string]float64, steal float64) string {
	sum := 0.0
	var names []string
	for name, v := range classes {
		if name != "guest" && v > 0 {
			sum += v
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(classes[b], classes[a]), cmp.Compare(a, b))
	})
	var parts []string
	for _, name := range names {
		if share := classes[name] / sum; share >= idleCore {
			parts = append(parts, sanitize.Text(name)+" "+unit.Percent(share))
		}
	}
	if steal > stealShown {
		parts = append(parts, "steal "+unit.Percent(steal)+" of a core beside it")
	}
	return strings.Join(parts, ", ")
}

// CoreText says how busy the cores were, in their order.
func CoreText(c *analysis.CPU) string {
	if c == nil || len(c.ByCore) == 0 {
		return unit.NoFigure
	}
	names := slices.SortedFunc(maps.Keys(c.ByCore), ByCoreNumber)
	busiest := slices.SortedStableFunc(slices.Values(names), func(a, b string) int {
		return cmp.Compare(c.ByCore[b], c.ByCore[a])
	})
	shown := busiest[:min(manyCores, len(busiest))]
	var parts []string
	for _, name := range names {
		if share := c.ByCore[name]; slices.Contains(shown, name) && (share >= idleCore || len(names) <= manyCores) {
			parts = append(parts, coreName(name)+": "+unit.Percent(share))
		}
	}
	if n := len(names) - len(parts); n > 0 {
		rest := c.ByCore[busiest[len(parts)]]
		parts = append(parts, fmt.Sprintf("%d more at most %s", n, unit.Percent(rest)))
	}
	return strings.Join(parts, ", ")
}

// coreName makes "cpu3" into "3" and "b/cpu3" into "b 3".
func coreName(key string) string {
	machine, core, ok := strings.Cut(key, "/")
	if !ok {
		machine, core = "", key
	}
	return strings.TrimSpace(sanitize.Text(machine) + " " + sanitize.Text(strings.TrimPrefix(core, "cpu")))
}

func ByCoreNumber(a, b string) int {
	machine := func(s string) (string, int) {
		at := strings.LastIndex(s, "cpu")
		if at < 0 {
			return s, 0
		}
		n, _ := strconv.Atoi(s[at+3:])
		return s[:at], n
	}
	ma, na := machine(a)
	mb, nb := machine(b)
	return cmp.Or(cmp.Compare(ma, mb), cmp.Compare(na, nb), cmp.Compare(a, b))
}

// cpuRemarks state once how finely CPU time was read; briefly only where that
// limits the figures.
func cpuRemarks(rec *result.Record, verbose bool) []string {
	var out []string
	unread := map[string]string{}
	for _, m := range rec.Meters {
		if len(m.Values) == 0 {
			unread[sanitize.Text(m.Name)] = sanitize.Text(m.Resolution)
			continue
		}
		if m.Name != "cpu" || m.Resolution == "" {
			continue
		}
		text := "CPU time is split by class (shares of it) and by core (how busy each was during the slices). Its resolution: " + sanitize.Text(m.Resolution) + "."
		coarse := strings.Contains(m.Resolution, coarseCPU)
		if !coarse && !verbose {
			continue
		}
		if coarse {
			text += " A slice is only a few of these units: only large differences in CPU cost can be relied on."
		}
		if !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(unread)) {
		out = append(out, fmt.Sprintf("The meter %s could not be read throughout, series in which it failed are left out of its figures: %s.", name, unread[name]))
	}
	return out
}
