package cli

import (
	"cmp"
	"context"
	"errors"
	"io"
	"reflect"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/venturi-net/venturi/internal/compare"
	"github.com/venturi-net/venturi/internal/display"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/journal"
	"github.com/venturi-net/venturi/internal/path"
	"github.com/venturi-net/venturi/internal/progress"
	"github.com/venturi-net/venturi/internal/prooflab"
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
	f.StringVar(&p.path, "path", "vxlan", "with --prove, the path to measure: one of a lab, or attach:from=NS,to=NS")
	f.StringVar(&p.wire, "wire", "", "with --prove, the offloads of the lab's network cards; see \"venturi compare --help\"")
	p.searchFlags(f)
}

// nodeFlags are those of a proof between two nodes of a cluster.
func (p *proving) nodeFlags(f *pflag.FlagSet) {
	f.StringVar(&p.path, "path", "host", "with --prove, the path to measure: host, between the nodes, or pod, between two pods on them")
	p.searchFlags(f)
}

// searchFlags are those of every proof.
func (p *proving) searchFlags(f *pflag.FlagSet) {
	f.BoolVar(&p.on, "prove", false, "find the smallest set of changes that helps, by measuring; undo everything at the end")
	f.DurationVar(&p.budget, "budget", 6*time.Minute, "with --prove, how long to measure, such as 10m")
	f.Var(effect{(*share)(&p.effect)}, "effect", "with --prove, refuse to run if an effect of this size could not be seen (default 10%)")
	f.Uint64Var(&p.seed, "seed", 0, "with --prove, seed of the random order (default: a new one each time)")
}

// proofOnly are the flags that mean nothing without --prove.
var proofOnly = []string{"path", "wire", "budget", "effect", "seed"}

// checkAlone refuses flags that mean nothing without --prove.
func (p *proving) checkAlone(flags *pflag.FlagSet) error {
	for _, name := range proofOnly {
		if flags.Changed(name) && !p.on {
			return verr.New(verr.Usage, "cannot tune with --"+name, "it only affects measurements, and nothing is measured without --prove", "add --prove, or leave out --"+name)
		}
	}
	return nil
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
		err = cmp.Or(err, p.print(env.Stdout, profile, proved, skipped, asJSON, all))
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
			return verr.New(verr.Usage, "cannot run a proof on path "+p.path, "it ends in the host's own network, which is not a target of this run",
				"add --host; every change is undone at the end")
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
	proof := tune.ProfileProof{
		Profile: profile, Targets: targets, Machine: thisMachine(), Gauge: s.Gauge,
		Options: p.searchOptions(s, show),
		Lease:   p.lease(env, more),
		Folder:  folder, Open: func() (*journal.Journal, error) { return openToChange(env, journalWait) },
	}
	return proof.Do(ctx)
}

// searchOptions are those of a search in a path that is up; show tells how far it is.
func (p *proving) searchOptions(s *prooflab.ProofLab, show *progress.Progress) search.Options {
	o := search.Options{Seed: s.Seed, Budget: p.budget, Now: time.Now, PairTime: s.PairTime, MDE: p.effect}
	stage := search.Stage("")
	o.Watch = func(at search.Progress) {
		if at.Stage != stage {
			stage = at.Stage
			show.Say("%s: %d pairs measured, about %s left", stageWords[stage], at.Pairs, at.Remaining.Round(time.Second))
		}
	}
	return o
}

// stageWords tell what a stage of a search does.
var stageWords = map[search.Stage]string{
	search.StageGate:     "measuring the path against itself",
	search.StageScreen:   "trying each change",
	search.StageForward:  "adding changes, the best first",
	search.StageBackward: "taking each away again",
	search.StageConfirm:  "confirming with fresh measurements",
}

func (p *proving) print(out io.Writer, profile tune.Profile, proved *tune.ProofResult, skipped []tune.Skipped, asJSON, all bool) error {
	var commands []string
	for _, c := range proved.Keep {
		commands = append(commands, c.Commands(p.attached())...)
	}
	return printProved(out, profile, p.path, proved, commands, skipped, asJSON, all)
}

func printProved(out io.Writer, profile tune.Profile, path string, proved *tune.ProofResult, commands []string, skipped []tune.Skipped, asJSON, all bool) error {
	r := display.ProvedReport{Version: display.JSONVersion, Profile: profile.Name, Path: path, ProofResult: proved,
		Commands: append([]string{}, commands...), Skipped: append([]tune.Skipped{}, skipped...)}
	if asJSON {
		return display.PrintJSON(out, r)
	}
	return r.Print(out, all)
}
