package doctor

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/venturi-net/venturi/internal/sanitize"
)

// maxPlaces is how many places of one kind of finding are shown; the others
// are counted.
const maxPlaces = 5

// Print writes a report for a person: by severity, and each code once with all
// the places where it was found.
func Print(w io.Writer, r *Report) error {
	var b strings.Builder
	for _, severity := range Severities {
		groups := group(r.Findings, severity)
		if len(groups) == 0 {
			continue
		}
		sanitize.Fprintf(&b, "%s\n", strings.ToUpper(string(severity)))
		for _, g := range groups {
			printGroup(&b, r, g)
		}
	}
	if len(r.Findings) == 0 {
		b.WriteString("Nothing is off.\n\n")
	}
	printDifferences(&b, r)
	sanitize.Fprintf(&b, "%s. Looked at %s of %s by %s", summary(r), many(r.Coverage.Devices, "device"), many(r.Coverage.Namespaces, "network namespace"), many(r.Coverage.Rules, "rule"))
	if r.Coverage.Seconds > 0 {
		sanitize.Fprintf(&b, ", at counters twice within %.1f s", r.Coverage.Seconds)
	}
	b.WriteString("; changed nothing.\n")
	_, err := sanitize.Fprint(w, sanitize.Safe(b.String()))
	return err
}

// group puts findings of one severity together by their codes.
func group(all []Finding, severity Severity) (groups [][]Finding) {
	at := map[string]int{}
	for _, f := range all {
		if f.Severity != severity {
			continue
		}
		i, known := at[f.Code]
		if !known {
			i = len(groups)
			at[f.Code] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], f)
	}
	return groups
}

func printGroup(b *strings.Builder, r *Report, g []Finding) {
	first := g[0]
	sanitize.Fprintf(b, "  %s  %s\n", first.Code, first.Title)
	if n := r.affected(g); n > 0 {
		sanitize.Fprintf(b, "    on %d of %s\n", n, many(len(r.Machines), cmp.Or(r.Noun, "machine")))
	}
	for i, f := range g {
		if i == maxPlaces {
			sanitize.Fprintf(b, "    and at %s more (see all with --json)\n", many(len(g)-i, "place"))
			break
		}
		at := f.Place
		if len(f.Machines) > 0 {
			at += " on " + r.list(f.Machines)
		}
		sanitize.Fprintf(b, "    at      %s\n", at)
		for _, e := range f.Evidence {
			sanitize.Fprintf(b, "    read    %s: %s\n", e.Read, e.Value)
		}
		if f.Fix != "" {
			sanitize.Fprintf(b, "    fix     %s\n", f.Fix)
		}
	}
	sanitize.Fprintf(b, "    effect  %s (%s; grade %s)\n", first.Effect.Size, first.Effect.Source, first.Effect.Grade)
	if first.Fix == "" && first.Knob != "" {
		sanitize.Fprintf(b, "    knob    %s\n", first.Knob)
	}
	if first.Do != "" {
		sanitize.Fprintf(b, "    note    %s\n", first.Do)
	}
	b.WriteString("\n")
}

// place is where a finding is, in a sentence.
func (f Finding) place() string {
	switch {
	case f.location.netns == nil:
		return "the host as a whole"
	case f.location.device == nil:
		return f.location.netns.name()
	}
	return f.Device + " in " + f.location.netns.name()
}

func summary(r *Report) string {
	count := map[Severity]int{}
	for _, f := range r.Findings {
		count[f.Severity]++
	}
	var parts []string
	for _, s := range Severities {
		parts = append(parts, many(count[s], string(s)))
	}
	return strings.Join(parts, ", ")
}

// many counts things: "1 device", "2 devices".
func many(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	if strings.HasSuffix(what, "s") {
		what += "e"
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Page writes docs/doctor.md.
func Page(w io.Writer) error {
	var b strings.Builder
	b.WriteString("# What `venturi doctor` looks for\n\n" +
		"Look up a finding by its code: what was read, what it costs, and which knob fixes it. " +
		"`venturi doctor --md` writes this page.\n\n" +
		"`venturi doctor` reads the host and its devices, in all network namespaces that it can see, and names what is wrong. It changes nothing. " +
		"Each finding has a stable code, a severity, what was read, how large the effect was elsewhere (with the source), and the knob that fixes it.\n\n" +
		"- **error**: packets are lost, or will be\n- **warning**: the network is slower, or costs more, than necessary\n- **note**: good to know; it may be intended\n\n" +
		"A rule can give a finding a lower severity than the one here. The exit code is 0 if there are only notes, and 8 if there are warnings or errors.\n\n" +
		"Grades say how good the evidence is: A repeated runs with their spread, B a number by a weak method, C a recommendation without a " +
		"number, D sources contradict each other. `venturi tune --prove` measures what a change is worth on your host.\n\n" +
		"| code | severity | what is wrong |\n|---|---|---|\n")
	for _, r := range Table {
		sanitize.Fprintf(&b, "| [`%s`](#%[1]s) | %s | %s |\n", r.Code, r.Severity, r.Title)
	}
	for _, r := range Table {
		sanitize.Fprintf(&b, "\n## %s\n\n%s (%s).\n\n- Reads: %s.\n- Effect: %s (%s; grade %s).\n", r.Code, r.Title, r.Severity, r.Looks, r.Effect.Size, r.Effect.Source, r.Effect.Grade)
		if r.Knob != "" {
			sanitize.Fprintf(&b, "- Knob: `%s`.\n", strings.TrimSpace(r.Knob+" "+r.Value))
		}
		if r.Do != "" {
			sanitize.Fprintf(&b, "- Note: %s.\n", r.Do)
		}
	}
	_, err := sanitize.Fprint(w, sanitize.Safe(b.String()))
	return err
}
