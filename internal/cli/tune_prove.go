package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/venturi-net/venturi/internal/compare"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/journal"
	"github.com/venturi-net/venturi/internal/path"
	"github.com/venturi-net/venturi/internal/progress"
	"github.com/venturi-net/venturi/internal/prooflab"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/internal/search"
	"github.com/venturi-net/venturi/internal/tune"
	"github.com/venturi-net/venturi/internal/verr"
)

// proving is what a command line of tune --prove asks for.
type proving struct {
	on     bool
	path   string
	wire   string
	budget time.Duration
	effect float64
	seed   uint64
}

func (p *proving) flags(f *pflag.FlagSet) {
	f.BoolVar(&p.on, "prove", false, "find the smallest set of changes that helps, by measuring; leaves nothing changed")
	f.StringVar(&p.path, "path", "vxlan", "with --prove, the path to measure: one of a lab, or attach:from=NS,to=NS")
	f.StringVar(&p.wire, "wire", "", "with --prove, what the network cards of the lab can do; see \"venturi compare --help\"")
	f.DurationVar(&p.budget, "budget", 6*time.Minute, "with --prove, time to measure in")
	f.Var(effect{(*share)(&p.effect)}, "effect", "with --prove, refuse if nothing as small as this could be shown (default 10%)")
	f.Uint64Var(&p.seed, "seed", 0, "with --prove, of the random order (default: another one each time)")
}

// run proves a profile. More may be named to be touched than the path is made of.
func (p *proving) run(ctx context.Context, env *Env, profile tune.Profile, more tune.Targets, asJSON, all bool) error {
	const what = "cannot prove profile"
	if err := p.mayTouch(more.Host); err != nil {
		return err
	}
	q := prooflab.Request(p.path, p.wire)
	q.Seed, q.Command = p.seed, ownCommand(env)
	pair, err := prooflab.PairTime(q)
	if err == nil {
		err = profile.CheckBudget(p.budget, pair, more)
	}
	if err != nil {
		return err
	}
	program, err := program()
	if err != nil {
		return err
	}
	folder, err := journalFolder(env)
	if err != nil {
		return err
	}
	h, err := journal.ReadHistory(folder)
	if err == nil {
		err = tune.CheckNoLease(h, folder)
	}
	if err != nil {
		return permissionError(what, err)
	}
	show := progress.New(env.Stderr)
	defer show.Done()
	s, err := prooflab.Open(ctx, q, compare.Host{Version: Version(), Program: program, LabName: "tune", Watch: show})
	if err != nil {
		return err
	}
	proved, skipped, err := p.search(ctx, env, s, show, profile, more)
	err = errors.Join(err, s.Close())
	show.Done()
	if proved != nil && len(proved.Noise)+len(proved.Rows) > 0 {
		if perr := p.print(env.Stdout, profile, proved, skipped, asJSON, all); err == nil {
			err = perr
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// mayTouch refuses a path that ends in the machine's own network, where that was not
// named: knobs are turned where a path ends.
func (p *proving) mayTouch(onHost bool) error {
	_, given, err := path.ParseSpec(p.path)
	if err != nil || onHost {
		return err
	}
	for _, end := range []string{"from", "to"} {
		if given[end] == host.OwnNetwork {
			return verr.New(verr.Usage, "cannot prove anything on path "+p.path, "it ends in the machine's own network, and that is not named as what may be touched",
				"give --host too; what was tried is undone in the end")
		}
	}
	return nil
}

// lease is that of a proof; none where all that it changes goes with the lab.
func (p *proving) lease(env *Env, more tune.Targets) tune.TrialOptions {
	if !p.attached() && reflect.DeepEqual(more, tune.Targets{}) {
		return tune.TrialOptions{}
	}
	return tune.ProofLease(p.budget, holder(env))
}

// attached tells whether the path is one that somebody else built.
func (p *proving) attached() bool { return strings.HasPrefix(p.path, "attach") }

// search proves in a path that is up.
func (p *proving) search(ctx context.Context, env *Env, s *prooflab.ProofLab, show *progress.Progress, profile tune.Profile, more tune.Targets) (*tune.ProofResult, []tune.Skipped, error) {
	targets, err := s.Targets(more)
	if err != nil {
		return nil, nil, err
	}
	folder, err := journalFolder(env)
	if err != nil {
		return nil, nil, err
	}
	stage := search.Stage("")
	proof := tune.ProfileProof{
		Profile: profile, Targets: targets, Machine: thisMachine(), Gauge: s.Gauge,
		Options: search.Options{Seed: s.Seed, Budget: p.budget, Now: time.Now, PairTime: s.PairTime, MDE: p.effect},
		Lease:   p.lease(env, more),
		Folder:  folder, Open: func() (*journal.Journal, error) { return openToChange(env, journalWait) },
	}
	proof.Options.Watch = func(at search.Progress) {
		if at.Stage != stage {
			stage = at.Stage
			show.Say("%s: %d pairs measured, about %s left", stageWords[stage], at.Pairs, at.Remaining.Round(time.Second))
		}
	}
	return proof.Do(ctx)
}

// stageWords tell what a stage of a search does.
var stageWords = map[search.Stage]string{
	search.StageGate:     "measuring the path against itself",
	search.StageScreen:   "trying each change",
	search.StageForward:  "adding changes, the best first",
	search.StageBackward: "taking each away again",
	search.StageConfirm:  "confirming with fresh measurements",
}

// provedReport is what a proof found, for machines.
type provedReport struct {
	Version int    `json:"version"`
	Profile string `json:"profile"`
	Path    string `json:"path"`
	*tune.ProofResult
	Commands []string       `json:"commands"` // that would make the proven changes
	Skipped  []tune.Skipped `json:"skipped"`
}

func (p *proving) print(out io.Writer, profile tune.Profile, proved *tune.ProofResult, skipped []tune.Skipped, asJSON, all bool) error {
	r := provedReport{Version: jsonVersion, Profile: profile.Name, Path: p.path, ProofResult: proved, Commands: []string{}, Skipped: append([]tune.Skipped{}, skipped...)}
	for _, c := range proved.Keep {
		r.Commands = append(r.Commands, c.Commands(p.attached())...)
	}
	if asJSON {
		return printJSON(out, r)
	}
	return r.print(out, all)
}

func (r provedReport) print(out io.Writer, all bool) error {
	sanitize.Fprintf(out, "profile %s on %s, %d pairs of measurements\n\n", r.Profile, r.Path, r.Pairs)
	var heads []string
	for _, n := range r.Noise {
		heads = append(heads, n.Metric)
		if n.Out != "" {
			sanitize.Fprintf(out, "not judged: %s\n", n.Out)
		}
	}
	w := columns(out)
	sanitize.Fprintf(w, "change\tverdict\t%s\tpairs\n", tabbed(heads))
	for _, row := range r.Rows {
		if row.Verdict == search.VerdictNotTried {
			sanitize.Fprintf(w, "%s\t%s: %s\n", row.Knob, row.Verdict, row.Reason)
			continue
		}
		sanitize.Fprintf(w, "%s\t%s\t%s\t%d\n", row.Knob, verdictOf(row), tabbed(cellsOf(heads, row.Effects)), row.Pairs)
	}
	if len(r.Confirm) > 0 {
		sanitize.Fprintf(w, "the set\t%s\t%s\t%d\n", setVerdict(r), tabbed(cellsOf(heads, r.Confirm)), r.Confirm[0].Pairs)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	var finest []string
	for _, n := range r.Noise {
		if n.Out == "" {
			finest = append(finest, fmt.Sprintf("%s %.1f %%", n.Metric, 100*n.MDE))
		}
	}
	if len(finest) > 0 {
		sanitize.Fprintf(out, "\nsmallest effects that would have been seen: %s\n", strings.Join(finest, ", "))
	}
	if r.Reason != "" {
		sanitize.Fprintf(out, "a set was found and is not proven: %s\n", r.Reason)
	}
	printSkipped(out, slices.DeleteFunc(slices.Clone(r.Skipped), func(s tune.Skipped) bool { return s.Observed != "" }), all) // those have rows
	if len(r.Skipped) > 0 {
		sanitize.Fprintln(out)
	}
	if len(r.Commands) == 0 {
		_, err := sanitize.Fprintf(out, "nothing was proven to help; everything is as it was\n")
		return err
	}
	sanitize.Fprintf(out, "everything is as it was; these make the proven changes:\n")
	for _, c := range r.Commands {
		if _, err := sanitize.Fprintf(out, "  %s\n", c); err != nil {
			return err
		}
	}
	return nil
}

// tabbed puts texts into columns.
func tabbed(cells []string) sanitize.Safe {
	clean := make([]string, len(cells))
	for i, c := range cells {
		clean[i] = sanitize.Text(c)
	}
	return sanitize.Safe(strings.Join(clean, "\t"))
}

func verdictOf(row search.Row) string {
	if row.Metric != "" {
		return fmt.Sprintf("%s (%s)", row.Verdict, row.Metric)
	}
	return string(row.Verdict)
}

func setVerdict(r provedReport) string {
	if len(r.Set) > 0 {
		return "confirmed"
	}
	return "not confirmed"
}

// cellsOf prints effects as changes: "-7.1 % [-9, -5]".
func cellsOf(metrics []string, effects []search.Effect) []string {
	cells := make([]string, len(metrics))
	for i, name := range metrics {
		for _, e := range effects {
			if e.Metric != name {
				continue
			}
			cells[i] = percent(e.Value)
			if !e.Open {
				cells[i] += fmt.Sprintf(" [%s, %s]", percent(e.Lo), percent(e.Hi))
			}
		}
	}
	return cells
}

// percent prints a ratio as a change; large ones as factors.
func percent(ratio float64) string {
	if ratio >= 3 {
		return fmt.Sprintf("x%.3g", ratio)
	}
	v := 100 * (ratio - 1)
	digits := 1
	if math.Abs(v) >= 10 {
		digits = 0
	}
	return fmt.Sprintf("%+.*f %%", digits, v)
}
