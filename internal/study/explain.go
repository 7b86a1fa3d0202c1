package study

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/venturi-net/venturi/internal/compare"
	"github.com/venturi-net/venturi/internal/feature"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/load"
	"github.com/venturi-net/venturi/internal/path"
	"github.com/venturi-net/venturi/internal/report/layout"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/internal/tool"
	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/result"
)

// List prints a line for each study.
func List(w io.Writer, all []*Study) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	sanitize.Fprintf(out, "NAME\tTITLE\tPATHS\tBUDGET\n")
	for _, s := range all {
		sanitize.Fprintf(out, "%s\t%s\t%s\t%s\n", s.Name, s.Title, strings.Join(s.pathNames(), " "), s.budget())
	}
	return out.Flush()
}

func (s *Study) pathNames() []string {
	var names []string
	for _, p := range s.Paths {
		names = append(names, p.Name)
	}
	return names
}

func (s *Study) budget() string {
	if s.Budget == 0 {
		return "none"
	}
	return short(s.Budget)
}

func (s *Study) emulatedBudget() string {
	if s.EmulatedBudget == 0 {
		return ""
	}
	return "; " + short(s.EmulatedBudget) + " on an emulated CPU"
}

// short prints a time without the zeros at its end: 5m, not 5m0s.
func short(d time.Duration) string {
	text := d.Round(time.Second).String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// Explain prints what the study does, how long that takes, and what this
// machine lacks for it.
func (s *Study) Explain(w io.Writer) error {
	plan, err := s.Requests()[0].Plan()
	if err != nil {
		return err
	}
	arms, err := s.arms()
	if err != nil {
		return err
	}
	e := explanation{s, tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
	if err := e.setup(); err != nil {
		return err
	}
	e.paths(arms)
	e.loads()
	e.tables()
	if err := e.schedule(plan); err != nil {
		return err
	}
	e.thisMachine(arms)
	return e.out.Flush()
}

// explanation has a method for each section.
type explanation struct {
	*Study
	out *tabwriter.Writer
}

func (e explanation) line(format string, args ...any) { sanitize.Fprintf(e.out, format+"\n", args...) }

// setup tells what is asked, and between which machines.
func (e explanation) setup() error {
	e.line("%s: %s", e.Name, e.Title)
	for _, told := range [][2]string{{"question", e.Question}, {"source", e.Source}} {
		if told[1] != "" {
			e.line("  %s\t%s", told[0], wrap(told[1]))
		}
	}
	e.line("  machines\t%d, with the packet filter rules of %d Services%s", max(e.Hosts, lab.DefaultHosts), e.Services, onOwnCores(e.Cores))
	for _, wire := range e.Wires {
		full, err := lab.ParseWire(wire.Options)
		if err != nil {
			return err
		}
		e.line("  wire\t%s", strings.TrimSpace(wire.Name+" "+full.String()))
	}
	return nil
}

func (e explanation) paths(arms []path.Arm) {
	e.line("\nPaths")
	for _, a := range arms {
		e.line("  %s\t%s\t%s%s", a.Name, strings.TrimSuffix(a.Driver.Name+":"+a.GivenOptions(), ":"), a.Driver.Summary, onlyOn(e.WiresOf[a.Name]))
	}
}

func (e explanation) loads() {
	e.line("\nLoads")
	for _, l := range e.Loads {
		e.line("  %s\tsizes %s\tflows %s%s%s", l.Load, cmp.Or(l.Sizes, "the load's own"), cmp.Or(strings.Trim(fmt.Sprint(l.Flows), "[]"), "1"), variant(l.CellSpec), onlyReal(l))
	}
}

func (e explanation) tables() {
	e.line("\nTables")
	for _, t := range e.Tables {
		e.line("  %s\t%s\t%s\tagainst %s", t.Title, sides("row", t.Rows), sides("column", t.Columns), cmp.Or(t.Baseline, e.Paths[0].Name))
	}
}

// schedule tells what the plan of each wire is, and how long all of it takes.
func (e explanation) schedule(plan *result.Plan) error {
	took, err := e.measures()
	if err != nil {
		return err
	}
	e.line("\nPlan")
	e.line("  arms\t%d: the paths, and a copy of %s for the noise floor", len(plan.Arms), e.Paths[0].Name)
	e.line("  cells\t%d: every load at each size with each number of flows", len(plan.Cells))
	e.line("  slices\t%d series x %d rounds of every arm in every cell%s", plan.Series, plan.Rounds, eachWire(len(e.Wires)))
	if e.ToolTime > 0 {
		e.line("  tools\teach runs for %s at a time", short(e.ToolTime))
	}
	e.line("  time\tabout %s of measuring (budget %s%s), and some seconds to raise and take down the lab", short(took), e.budget(), e.emulatedBudget())
	return nil
}

// thisMachine tells what this machine lacks, and what to do.
func (e explanation) thisMachine(arms []path.Arm) {
	e.line("\nThis machine")
	var remedies []string
	for _, a := range arms {
		here, remedy := raisable(a)
		e.line("  %s\t%s", a.Name, wrap(here))
		if remedy != "" && !slices.Contains(remedies, remedy) {
			remedies = append(remedies, remedy)
		}
	}
	for _, name := range e.tools() {
		t, err := tool.Find(name)
		if err == nil {
			err = t.Installed()
		}
		here, remedy := reported(err, "is installed")
		e.line("  %s\t%s", name, wrap(here))
		if remedy != "" {
			remedies = append(remedies, remedy)
		}
	}
	for i, r := range joinRemedies(remedies) {
		e.line("  %s\t%s", []string{"what to do", ""}[min(i, 1)], wrap(r))
	}
	r, err := e.Requests()[0].Resolve()
	if err == nil {
		err = r.Check()
	}
	if err != nil && verr.Code(err) != verr.Missing {
		e.line("  to run\t%s", wrap(readiness(err)))
	}
}

// arms are those of all wires.
func (s *Study) arms() ([]path.Arm, error) {
	var specs, names []string
	for _, p := range s.Paths {
		specs, names = append(specs, p.Spec), append(names, p.Name)
	}
	return path.Arms(specs, names)
}

// onOwnCores says on which cores the machines are, where they are confined to some.
func onOwnCores(cores string) string {
	if cores == "" {
		return ""
	}
	return ", on the cores " + cores
}

// onlyOn says on which wires a path is that is not on all.
func onlyOn(wires []string) string {
	if len(wires) == 0 {
		return ""
	}
	return " (only on wire " + strings.Join(wires, ", ") + ")"
}

// variant says what else a load has: a rate, a stream beside it, a program that runs it.
func variant(l compare.CellSpec) string {
	text := ""
	if l.Threads > 0 {
		text += fmt.Sprintf("  on %d threads", l.Threads)
	}
	if l.Response > 0 {
		text += fmt.Sprintf("  answers of %d bytes", l.Response)
	}
	if l.Rate > 0 {
		text += "  at " + load.FormatRate(l.Rate) + " a second"
	}
	if b := l.Background; b != nil {
		text += "  beside " + b.Load
		if b.Rate > 0 {
			text += "@" + load.FormatRate(b.Rate)
		}
		if b.Share > 0 {
			text += "@" + load.FormatShare(b.Share)
		}
		text += ", on the " + b.Cores + " cores"
	}
	if l.Tool != "" {
		text += "  run by " + l.Tool
	}
	return text
}

// onlyReal says where a load is left out.
func onlyReal(l Load) string {
	if l.RealCPU {
		return "  not on an emulated CPU"
	}
	return ""
}

func eachWire(n int) string {
	if n == 1 {
		return ""
	}
	return fmt.Sprintf(", on each of %d wires", n)
}

// sides tells what changes along the rows or columns of a table: without
// anything that does, each figure has one.
func sides(side string, by []layout.Axis) string {
	if len(by) == 0 {
		return "one " + side + " a figure"
	}
	var names []string
	for _, a := range by {
		names = append(names, string(a))
	}
	return side + "s by " + strings.Join(names, ", ")
}

// raisable says whether a path can be raised here, as far as that can be told,
// and what to do if not.
func raisable(a path.Arm) (here, remedy string) {
	err := a.Check()
	if err == nil && a.Supported() == feature.Unknown {
		return "could not be told: ask as root", ""
	}
	return reported(err, "can be raised here")
}

// reported says what an error says of a path or tool, and what to do; good: there is none.
func reported(err error, good string) (here, remedy string) {
	switch known := new(verr.Error); {
	case err == nil:
		return good, ""
	case errors.As(err, &known):
		return "no: " + known.Reason, known.Hint
	}
	return err.Error(), ""
}

// tools are the real programs that run loads.
func (s *Study) tools() (names []string) {
	for _, l := range s.Loads {
		if l.Tool != "" && !slices.Contains(names, l.Tool) {
			names = append(names, l.Tool)
		}
	}
	return names
}

// joinRemedies factors out what several remedies have in common.
func joinRemedies(remedies []string) []string {
	var out []string
	for _, r := range remedies {
		out = append(out, strings.TrimSuffix(r, feature.OtherKernel))
	}
	if !slices.Equal(out, remedies) {
		out = append(out, strings.TrimPrefix(feature.OtherKernel, "; "))
	}
	return out
}

// readiness says what is missing to do something here.
func readiness(err error) string {
	if known := new(verr.Error); errors.As(err, &known) {
		return fmt.Sprintf("%s: %s (%s)", known.Summary, known.Reason, known.Hint)
	}
	return err.Error()
}

// lineWidth is how wide long texts are printed.
const lineWidth = 100

// wrap breaks a text between words, and indents the lines after the first as
// far as a tabwriter does.
func wrap(text string) sanitize.Safe {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		word = sanitize.Text(word)
		if line != "" && len(line)+1+len(word) > lineWidth {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimSpace(line + " " + word)
	}
	return sanitize.Safe(strings.Join(append(lines, line), "\n  \t"))
}
