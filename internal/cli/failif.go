package cli

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

// failVerdicts are the verdicts of a condition.
var failVerdicts = []string{string(stats.Slower), string(stats.Faster), string(stats.Equivalent), "undecided"}

// failIf is a condition under which a report ends with an exit code of its own, as
// "vxlan tcp_lat slower".
type failIf struct{ path, load, verdict string }

// parseFailIf reads the conditions of the command line.
func parseFailIf(texts []string) ([]failIf, error) {
	var out []failIf
	for _, t := range texts {
		words := strings.Fields(t)
		if len(words) != 3 || !slices.Contains(failVerdicts, words[2]) {
			return nil, verr.New(verr.Usage, fmt.Sprintf("cannot check --fail-if %q", t), "a condition is a path, a load and a verdict",
				`write it as "vxlan tcp_lat slower"; `+anyName+" is every path or load, and the verdicts are "+strings.Join(failVerdicts, ", "))
		}
		out = append(out, failIf{words[0], words[1], words[2]})
	}
	return out, nil
}

// judgedPath is one verdict of a report.
type judgedPath struct {
	path, load, cell string
	verdict          stats.Verdict
}

func (j judgedPath) String() string { return j.path + " " + j.cell + " " + j.word() }

func (j judgedPath) word() string {
	if j.verdict == stats.CannotTell || j.verdict == stats.NotJudged {
		return "undecided"
	}
	return string(j.verdict)
}

// summaryVerdicts are those of paths to the baseline.
func summaryVerdicts(s *analysis.Summary) (out []judgedPath) {
	for _, c := range s.Cells {
		for _, r := range c.Rows {
			if r.Judged != nil {
				out = append(out, judgedPath{r.Arm.Name, c.Cell.Load, c.Cell.Name, r.Judged.Verdict})
			}
		}
	}
	return out
}

// changeVerdicts are those of paths to themselves, before.
func changeVerdicts(changes []*analysis.Change) (out []judgedPath) {
	for _, change := range changes {
		for _, c := range change.Cells {
			for _, r := range c.Rows {
				out = append(out, judgedPath{r.Path, c.Cell.Load, c.Cell.Name, r.Judged.Verdict})
			}
		}
	}
	return out
}

// failing holds the verdicts against the conditions. The error says which of them is
// met, or names a path or load that nobody has measured: a condition with a
// typing error must not pass for ever.
func failing(conditions []failIf, all []judgedPath) error {
	var met []string
	for _, c := range conditions {
		known := false
		for _, j := range all {
			if c.path != anyName && c.path != j.path || c.load != anyName && c.load != j.load && c.load != j.cell {
				continue
			}
			known = true
			if c.verdict == j.word() && !slices.Contains(met, j.String()) {
				met = append(met, j.String())
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
	return nil
}
