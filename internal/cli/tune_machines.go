package cli

import (
	"cmp"
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
	return remoteProof{proving: p, env: r.env, profile: profile, request: q, asJSON: r.asJSON, suggest: r.suggest,
		begin: func(*fleet.Fleet, []string) ([]string, func(), error) {
			return r.trimFlags("--prove", "--path", "--wire", "--budget", "--effect", "--seed"), func() {}, nil
		}}.run(ctx)
}

// remoteProof is a proof between two machines, or nodes, by agents on them.
type remoteProof struct {
	*proving
	env     *Env
	profile tune.Profile
	request compare.Request
	asJSON  bool
	suggest func(command string, machines ...string) string
	// begin gives the arguments of the command that tunes a machine, and what to do when all that
	// it has changed is undone.
	begin func(machines *fleet.Fleet, names []string) (args []string, end func(), err error)
}

// run proves the profile. Errors are for people.
func (p remoteProof) run(ctx context.Context) error {
	q := p.request
	pair, err := prooflab.PairTime(q)
	if err != nil {
		return err
	}
	if least := time.Duration(search.Least(1)) * pair; p.budget < least {
		return verr.New(verr.Usage, "cannot run a proof with --budget "+p.budget.String(), "a single change takes "+least.Round(time.Second).String(), tune.LeastBudget(least))
	}
	show := progress.New(p.env.Stderr)
	defer show.Done()
	s, err := prooflab.Open(ctx, q, compare.Host{Version: Version(), Watch: show})
	if err != nil {
		return err
	}
	names := s.MachineNames()
	machines := fleet.Attach(names, s.Agents())
	args, end, err := p.begin(machines, names)
	if err != nil {
		return errors.Join(err, s.Close())
	}
	toggles := machines.Toggles(withFlags(args, "--toggle", tune.ProofLease(p.budget, nil).Lease.String()))
	proof := tune.Proof{Gauge: s.Gauge, Metrics: tune.Metrics(p.profile.Name), Toggles: toggles, Options: p.searchOptions(s, show)}
	proved, err := proof.Do(ctx)
	end()
	err = errors.Join(err, s.Close())
	show.Done()
	if proved != nil && len(proved.Noise)+len(proved.Rows) > 0 {
		var commands []string
		for _, c := range proved.Keep {
			commands = append(commands, sharedCommands(names, toggles.Commands(c.Name), p.suggest)...)
		}
		err = cmp.Or(err, printProved(p.env.Stdout, p.profile, q.Paths[0], proved, commands, nil, p.asJSON, false))
	}
	return err
}

// sharedCommands are commands for machines by their names: one for all where they are the same.
func sharedCommands(names []string, by map[string][]string, suggest func(command string, machines ...string) string) (all []string) {
	machines := map[string][]string{}
	var commands []string
	for _, name := range names {
		for _, c := range by[name] {
			if machines[c] == nil {
				commands = append(commands, c)
			}
			machines[c] = append(machines[c], name)
		}
	}
	for _, c := range commands {
		all = append(all, suggest(c, machines[c]...))
	}
	return all
}
