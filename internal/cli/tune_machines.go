package cli

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/venturi-net/venturi/internal/compare"
	"github.com/venturi-net/venturi/internal/fleet"
	"github.com/venturi-net/venturi/internal/journal"
	"github.com/venturi-net/venturi/internal/progress"
	"github.com/venturi-net/venturi/internal/prooflab"
	"github.com/venturi-net/venturi/internal/search"
	"github.com/venturi-net/venturi/internal/tune"
	"github.com/venturi-net/venturi/internal/verr"
)

// serveToggles turns the steps of a profile on and off for a proof that runs elsewhere.
func (t *tuning) serveToggles(ctx context.Context, env *Env, profile tune.Profile, targets tune.Targets) error {
	folder, err := journalFolder(env)
	if err != nil {
		return err
	}
	return tune.ProfileProof{
		Profile: profile, Targets: targets, Machine: thisMachine(), Folder: folder,
		Lease: tune.TrialOptions{Lease: t.toggle, Hold: holder(env)},
		Open:  func() (*journal.Journal, error) { return openToChange(env, journalWait) },
	}.Serve(ctx, env.Stdin, env.Stdout)
}

// onMachines proves a profile between two real machines.
func (p *proving) onMachines(ctx context.Context, r *fleetRun, name string) error {
	profile, err := findProfile(name)
	if err != nil {
		return err
	}
	spec := p.path
	if !r.flagSet.Changed("path") {
		spec = "host"
	}
	if len(r.machines) != 2 {
		return verr.New(verr.Usage, "cannot prove profile "+name, "it is measured between two machines", "name two with --machines, the client's first")
	}
	if !slices.ContainsFunc([]string{"host", "dev", "netns", "db"}, r.flagSet.Changed) {
		return verr.New(verr.Usage, "cannot prove profile "+name, "no target is given", "name what may be tuned on the machines: --host, --dev or --netns; every change is undone at the end")
	}
	q := prooflab.Request(spec, p.wire)
	q.Seed, q.Command = p.seed, ownCommand(r.env)
	q.Remote = compare.Remote{Machines: r.machines, Options: r.reach}
	pair, err := prooflab.PairTime(q)
	if err != nil {
		return err
	}
	if least := time.Duration(search.Least(1)) * pair; p.budget < least {
		return verr.New(verr.Usage, "cannot run a proof with --budget "+p.budget.String(), "a single change takes "+least.Round(time.Second).String(), tune.LeastBudget(least))
	}
	show := progress.New(r.env.Stderr)
	defer show.Done()
	s, err := prooflab.Open(ctx, q, compare.Host{Version: Version(), Watch: show})
	if err != nil {
		return err
	}
	lease := tune.ProofLease(p.budget, nil).Lease
	args := withFlags(r.trimFlags("--prove", "--path", "--wire", "--budget", "--effect", "--seed"), "--toggle", lease.String())
	toggles := fleet.Attach(r.machines, s.Agents()).Toggles(args)
	proof := tune.Proof{Gauge: s.Gauge, Metrics: tune.Metrics(profile.Name), Toggles: toggles, Options: p.searchOptions(s, show)}
	proved, err := proof.Do(ctx)
	err = errors.Join(err, s.Close())
	show.Done()
	if proved != nil && len(proved.Noise)+len(proved.Rows) > 0 {
		var commands []string
		for _, c := range proved.Keep {
			commands = append(commands, r.commandsOf(toggles.Commands(c.Name))...)
		}
		if perr := printProved(r.env.Stdout, profile, spec, proved, commands, nil, r.asJSON, false); err == nil {
			err = perr
		}
	}
	return err
}

// commandsOf are commands for machines by their names: one for all where they are the same.
func (r *fleetRun) commandsOf(by map[string][]string) (all []string) {
	machines := map[string][]string{}
	var commands []string
	for _, m := range r.machines {
		for _, c := range by[m.Name] {
			if machines[c] == nil {
				commands = append(commands, c)
			}
			machines[c] = append(machines[c], m.Name)
		}
	}
	for _, c := range commands {
		all = append(all, r.suggest(c, machines[c]...))
	}
	return all
}
