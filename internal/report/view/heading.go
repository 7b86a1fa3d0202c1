package view

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/internal/report/unit"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/internal/stats"
	"github.com/venturi-net/venturi/result"
)

// title says what was compared and how much of it.
func title(rec *result.Record) string {
	var arms []string
	for _, a := range rec.Plan.Arms {
		if a.Role == "" && !strings.HasPrefix(a.Name, a.Path+":") {
			arms = append(arms, sanitize.Text(a.Name))
		}
	}
	base := Baseline(&rec.Plan)
	if len(arms) == 0 {
		return "Venturi: " + base
	}
	return "Venturi: " + strings.Join(arms, ", ") + " against " + base
}

// Facts say on what and how it was measured.
func Facts(rec *result.Record, s *analysis.Summary) [][2]string {
	return append(machineRows(rec), conditions(rec, s)...)
}

// conditions say how it was measured: all facts but the machines.
func conditions(rec *result.Record, s *analysis.Summary) (out [][2]string) {
	p := &rec.Plan
	congestion := unit.NoFigure
	if len(rec.Facts) > 0 {
		congestion = sanitize.Text(rec.Facts[0].Congestion)
	}
	wire := []string{}
	if p.Wire != "" {
		wire = append(wire, sanitize.Text(p.Wire))
	}
	wire = append(wire, "congestion control "+congestion, services(rec))
	out = append(out, [2]string{"wire", strings.Join(wire, "; ")})
	if text := coresText(p); text != "" {
		out = append(out, [2]string{"cores", text})
	}
	if text := paths(p); text != "" {
		out = append(out, [2]string{"paths", text})
	}
	series := fmt.Sprint(s.Series)
	if s.MostSeries > s.Series && p.UntilDecided {
		series += fmt.Sprintf(" to %d", s.MostSeries)
	}
	run := fmt.Sprintf("%s series x %d rounds, seed %d", series, p.Rounds, p.Seed)
	if rec.End != nil {
		run += ", took " + unit.Elapsed(rec.End.Took)
		if rec.End.Reason == result.Precise {
			run += ", stopped early: every interval is within ±" + unit.ExactPercent(p.Precision)
		}
		if rec.End.Reason == result.Decided {
			run += ", stopped when every comparison had its verdict"
		}
	}
	if !rec.Header.Started.IsZero() {
		run += "; " + rec.Header.Started.UTC().Format("2006-01-02 15:04 UTC")
	}
	out = append(out, [2]string{"run", run})
	return append(out, [2]string{"reading", reading(p, s)})
}

// coresText says which cores each machine of a lab was confined to; empty: none was.
func coresText(p *result.Plan) string {
	var parts []string
	for _, machine := range slices.Sorted(maps.Keys(p.Cores)) {
		parts = append(parts, fmt.Sprintf("%s has %s", sanitize.Text(machine), strings.ReplaceAll(strings.Trim(fmt.Sprint(p.Cores[machine]), "[]"), " ", ", ")))
	}
	return strings.Join(parts, ", ")
}

// paths says how the paths differ from what their names promise, by options or
// by being called something else; and which versions of programs carry them.
func paths(p *result.Plan) string {
	var list []string
	for _, a := range p.Arms {
		if a.Role == result.RoleCopy || strings.HasPrefix(a.Name, a.Path+":") {
			continue
		}
		text, name := sanitize.Text(a.Name), strings.SplitN(a.Name, ".", 2)[0] // vxlan.2 is a vxlan
		if a.Options != "" || name != a.Path {
			text += " is " + sanitize.Text(a.Path)
		}
		if a.Options != "" {
			text += ":" + sanitize.Text(a.Options)
		}
		if v := versions(a); v != "" {
			text += " (" + v + ")"
		}
		if text != sanitize.Text(a.Name) {
			list = append(list, text)
		}
	}
	return strings.Join(list, "; ")
}

func versions(a result.Arm) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(a.Versions)) {
		list = append(list, sanitize.Text(name)+" "+sanitize.Text(a.Versions[name]))
	}
	return strings.Join(list, ", ")
}

// reading says how the figures come about, for one who has read no manual.
func reading(p *result.Plan, s *analysis.Summary) string {
	base, over := Baseline(p), "series"
	if s.Series < stats.MinSeries {
		over = "rounds"
	}
	text := fmt.Sprintf("\"vs %s\" is the ratio to %s in the same rounds, with its %s interval over the %s; same: the whole interval is within ±%s of 1; "+
		"noise floor: how far two identical paths may seem apart here, no smaller difference is claimed",
		base, base, unit.ExactPercent(s.Level), over, unit.ExactPercent(p.Margin))
	if s.Looks > 1 {
		text += fmt.Sprintf("; the intervals are wider than %s because the run could stop early", unit.ExactPercent(p.Confidence))
	}
	if p.UntilDecided {
		text += "; the intervals hold whenever the run stops, and are wider for it"
		if s.Tests > 1 {
			text += fmt.Sprintf("; of all faster and slower of these %d comparisons, %s at most are false in the mean (e-BH)", s.Tests, unit.ExactPercent(1-p.Confidence))
		}
	} else if s.Tests > 1 && s.Series >= stats.MinSeries {
		text += fmt.Sprintf("; faster and slower hold for all %d comparisons together (Holm)", s.Tests)
	}
	return text
}

func Baseline(p *result.Plan) string {
	for _, a := range p.Arms {
		if a.Role == result.RoleBaseline {
			return sanitize.Text(a.Name)
		}
	}
	return unit.NoFigure
}

func machineText(f result.Facts) string {
	parts := []string{sanitize.Text(f.CPUModel), Plural(f.CPUs, "CPU", "CPUs")}
	switch f.Hypervisor {
	case "":
	case "unknown":
		parts = append(parts, "a virtual machine")
	default:
		parts = append(parts, "a virtual machine ("+sanitize.Text(f.Hypervisor)+")")
	}
	if f.Emulated {
		parts = append(parts, "its CPU emulated")
	}
	parts = append(parts, "Linux "+sanitize.Text(f.Kernel), sanitize.Text(f.OS), "clock "+sanitize.Text(f.ClockSource))
	if f.Governor != "" {
		parts = append(parts, "governor "+sanitize.Text(f.Governor))
	}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), ", ")
}

// rulesFound describes the packet filter of machines that no lab made.
func rulesFound(rec *result.Record) string {
	words := []string{"the network as it was found"}
	for _, f := range rec.Facts {
		text := Plural(f.NetfilterRules, "netfilter rule", "netfilter rules")
		if f.RulesHidden {
			text = "an unknown number of netfilter rules"
		}
		if !rec.Plan.OneHost() {
			text += " on " + sanitize.Text(f.Machine)
		}
		if !slices.Contains(words, text) {
			words = append(words, text)
		}
	}
	return strings.Join(words, ", ")
}

// services says how many there are, and where their rules are not those that
// kube-proxy would have written.
func services(rec *result.Record) string {
	if rec.Plan.Wire == "" {
		return rulesFound(rec)
	}
	text := Plural(rec.Plan.Services, "Service", "Services")
	for _, f := range rec.Facts {
		if f.NetfilterRules > 0 && f.WrappedRules == 0 && rec.Plan.Services > 0 {
			return text + " (in nftables' own expressions)"
		}
	}
	return text
}

func Plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// ByLoad groups the cells by load, in order; sweeps by size.
func ByLoad(s *analysis.Summary) [][]*analysis.Cell {
	var out [][]*analysis.Cell
	for i := range s.Cells {
		c := &s.Cells[i]
		at := slices.IndexFunc(out, func(g []*analysis.Cell) bool {
			return g[0].Cell.Load == c.Cell.Load && g[0].Cell.Metric == c.Cell.Metric
		})
		if at < 0 {
			out = append(out, []*analysis.Cell{c})
			continue
		}
		out[at] = append(out[at], c)
	}
	for _, group := range out {
		if IsSweep(group) {
			slices.SortStableFunc(group, func(a, b *analysis.Cell) int { return cmp.Compare(a.Cell.Size, b.Cell.Size) })
		}
	}
	return out
}

func plainVerdict(r *analysis.Row) string {
	switch {
	case NotHeld(r):
		return rateNotHeld
	case r.Value == 0:
		return "failed"
	case r.Judged == nil:
		return "not compared"
	case r.Judged.Verdict == stats.NotJudged:
		return "not judged"
	case r.Judged.Verdict == stats.Faster || r.Judged.Verdict == stats.Slower:
		return differs(r)
	}
	return string(r.Judged.Verdict)
}
