// Package gate holds the verdicts of a report against conditions, so that a
// script or a CI job ends by them.
package gate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/internal/stats"
	"github.com/venturi-net/venturi/internal/verr"
)

// anyName stands for every path or load in a condition.
const anyName = "*"

// Verdicts are the verdicts of a condition.
var Verdicts = []string{string(stats.Slower), string(stats.Faster), string(stats.Equivalent), "undecided"}

// Condition is a condition under which a report ends with an exit code of its own, as
// "vxlan tcp_lat slower".
type Condition struct{ path, load, verdict string }

// Parse reads the conditions of the command line.
func Parse(texts []string) ([]Condition, error) {
	var out []Condition
	for _, t := range texts {
		words := strings.Fields(t)
		if len(words) != 3 || !slices.Contains(Verdicts, words[2]) {
			return nil, verr.New(verr.Usage, fmt.Sprintf("cannot check --fail-if %q", t), "a condition is a path, a load and a verdict",
				`write it as "vxlan tcp_lat slower"; `+anyName+" is every path or load, and the verdicts are "+strings.Join(Verdicts, ", "))
		}
		out = append(out, Condition{words[0], words[1], words[2]})
	}
	return out, nil
}

// Verdict is one verdict of a report.
type Verdict struct {
	path, load, cell string
	verdict          stats.Verdict
	missing          bool // there is no figure to be judged
}

func (j Verdict) String() string { return j.path + " " + j.cell + " " + j.word() }

func (j Verdict) word() string {
	if j.verdict == stats.CannotTell || j.verdict == stats.NotJudged {
		return "undecided"
	}
	return string(j.verdict)
}

// SummaryVerdicts are those of paths to the baseline. A load that was planned and never measured has
// some too, without figures: no condition may pass because of what a run left out.
func SummaryVerdicts(s *analysis.Summary) (out []Verdict) {
	for _, c := range s.Planned() {
		for i, r := range c.Rows {
			switch {
			case r.Judged != nil:
				out = append(out, Verdict{path: r.Arm.Name, load: c.Cell.Load, cell: c.Cell.Name, verdict: r.Judged.Verdict})
			case i > 0: // the first is the baseline
				out = append(out, Verdict{path: r.Arm.Name, load: c.Cell.Load, cell: c.Cell.Name, missing: true})
			}
		}
	}
	return out
}

// ChangeVerdicts are those of paths to themselves, before.
func ChangeVerdicts(changes []*analysis.Change) (out []Verdict) {
	for _, change := range changes {
		for _, c := range change.Cells {
			for _, r := range c.Rows {
				out = append(out, Verdict{path: r.Path, load: c.Cell.Load, cell: c.Cell.Name, verdict: r.Judged.Verdict})
			}
		}
		for _, u := range change.Uncompared {
			out = append(out, Verdict{path: u.Path, load: u.Cell.Load, cell: u.Cell.Name, missing: true})
		}
	}
	return out
}

// Check holds the verdicts against the conditions. The error says which of them is
// met, or cannot be checked because there is no figure, or names a path or load that
// nobody has measured: a condition with a typing error must not pass for ever.
func Check(conditions []Condition, all []Verdict) error {
	var met, unmeasured []string
	for _, c := range conditions {
		known := false
		for _, j := range all {
			if c.path != anyName && c.path != j.path || c.load != anyName && c.load != j.load && c.load != j.cell {
				continue
			}
			known = true
			switch {
			case c.verdict == j.word():
				met = appendNew(met, j.String())
			case j.missing:
				unmeasured = appendNew(unmeasured, j.path+" "+j.cell)
			}
		}
		if !known {
			return verr.New(verr.Usage, fmt.Sprintf("cannot check --fail-if \"%s %s %s\"", c.path, c.load, c.verdict),
				"the report has no verdict on such a path and load", "name them as the report does, or "+anyName)
		}
	}
	if len(met) > 0 {
		return verr.New(verr.Findings, "a condition of --fail-if is met", strings.Join(met, "; "), "see the report above")
	}
	if len(unmeasured) > 0 {
		return verr.New(verr.Findings, "a condition of --fail-if cannot be checked", "there is no figure of "+strings.Join(unmeasured, "; "), "see the report above")
	}
	return nil
}

func appendNew(all []string, text string) []string {
	if slices.Contains(all, text) {
		return all
	}
	return append(all, text)
}
