package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/venturi-net/venturi/internal/display"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/internal/tune"
	"github.com/venturi-net/venturi/internal/verr"
)

// tuning is what a command line of tune asks for.
type tuning struct {
	commitFlags
	profile     string
	config      string
	plan, apply bool
	all         bool
	targets     targetFlags
	prove       proving
	token       string        // by which a cluster's journal knows the transaction
	toggle      time.Duration // the lease with which another venturi turns the steps on and off
}

func newTune(env *Env) *cobra.Command {
	var t tuning
	cmd := &cobra.Command{
		Use:   "tune --profile PROFILE [--plan|--prove|--apply]",
		Short: "Plan, prove and apply a list of tunings",
		Long: `Go through a list of tunings, and show what each would change here, or why it does not
apply. Only the targets that you name are changed: --host is the host as a whole and its
own network namespace, --dev a device, --netns a namespace such as a pod's, --manifest a
file, --db a database of Open vSwitch or OVN.

--plan is the default: it changes nothing, and prints as a diff exactly what would be
written. Without a target, it is the plan of --host. --apply makes these changes in one
transaction, all or none. "venturi undo" restores every byte; with --trial, that happens by
itself unless you run "venturi confirm" in time.

--prove finds the smallest set of changes that helps, by measuring. It raises a lab with
a path, or uses two existing namespaces (--path attach:...), and toggles the changes on
that path and on the targets that you name, in random order. The host as a whole is
changed only with --host. First it compares the path with itself, to find figures too
noisy to judge. It keeps a change if fresh measurements get worse without it, and keeps the
set if no other figure gets worse. Everything is undone at
the end. With --machines it measures between two real machines, and changes both.

In a plan, steps have marks: not shown (no evidence here that it helps), obsolete, wrong
way round (the published list sets the opposite of what it says), never automatic (left
to you). Only the table of --prove shows which steps help; it is not stored.

Profiles:
` + profileHelp(),
		Example: `  venturi tune --profile latency --host --dev eth0
  venturi tune --profile cilium --manifest cilium-config.yaml
  venturi tune --profile balanced --prove --path vxlan
  venturi tune --profile throughput -n shop --apply --trial 120s
  venturi tune --profile latency --host --prove --machines machines.yaml`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return t.run(cmd, env) },
	}
	f := cmd.Flags()
	f.StringVar(&t.profile, "profile", "", "list of tunings, one of those above")
	f.BoolVar(&t.plan, "plan", false, "change nothing; print what would be written (the default)")
	f.BoolVar(&t.apply, "apply", false, "make the changes")
	f.BoolVar(&t.all, "all", false, "list each step that does not apply, with the reason, not only their number")
	f.Var(onceFlag{&t.config}, "config", configHelp)
	t.targets.flags(f)
	t.commitFlags.flags(f)
	t.prove.flags(f)
	f.DurationVar(&t.toggle, "toggle", 0, "toggle the steps as standard input says, with this lease")
	f.StringVar(&t.token, "token", "", "what the journal shall know the transaction by")
	for _, name := range []string{"toggle", "token"} {
		_ = f.MarkHidden(name) // another venturi says it
	}
	cmd.MarkFlagsMutuallyExclusive("plan", "apply", "prove")
	cmd.MarkFlagsMutuallyExclusive("prove", "trial")
	cmd.MarkFlagsMutuallyExclusive("all", "apply")
	return onMachines(env, cmd, t.onMachines)
}

// onMachines is tune on other machines.
func (t *tuning) onMachines(ctx context.Context, r *fleetRun) error {
	switch {
	case t.config != "":
		return verr.New(verr.Usage, "cannot use --config with --machines", "the file describes this machine only", "give its devices and manifests with --dev and --manifest instead")
	case t.prove.on:
		return t.prove.onMachines(ctx, r, t.profile)
	case t.apply:
		return r.commit(ctx, r.trimFlags("--apply", "--trial"), t.trial)
	}
	return runEach(ctx, r)
}

func profileHelp() string {
	var b strings.Builder
	for _, p := range tune.Profiles() {
		sanitize.Fprintf(&b, "  %-11s %s\n", p.Name, p.Title)
	}
	return strings.TrimRight(b.String(), "\n")
}

func (t *tuning) run(cmd *cobra.Command, env *Env) error {
	const what = "cannot tune"
	profile, err := findProfile(t.profile)
	if err != nil {
		return err
	}
	if err := t.prove.checkAlone(cmd.Flags()); err != nil {
		return err
	}
	if t.config != "" {
		if err := t.targets.heed(t.config, env.Stderr); err != nil {
			return err
		}
	}
	if !t.targets.named() && !t.prove.on && !t.apply && t.toggle == 0 {
		t.targets.host = true // to read, as knob get does; to change it, a user has to name it
		sanitize.Fprintf(env.Stderr, "venturi: no target is given: this is the plan of --host\n")
	}
	targets, err := t.targets.targets()
	if t.prove.on && !t.targets.named() {
		err = nil // the path is what may be touched
	}
	if err != nil {
		return permissionError(what, err)
	}
	if t.toggle > 0 {
		return t.serveToggles(cmd.Context(), env, profile, targets)
	}
	if t.prove.on {
		return t.prove.run(cmd.Context(), env, profile, targets, t.asJSON, t.all)
	}
	if err := checkTrialApplied(what, t.trial, t.apply); err != nil {
		return err
	}
	assignments, skipped, err := profile.Assignments(thisMachine(), targets)
	if err != nil {
		return permissionError(what, err)
	}
	assignments, open := tune.Settled(assignments)
	if t.apply {
		if err := t.check(cmd.Flags(), assignments); err != nil {
			return err
		}
	}
	planned, err := tune.DryRun(thisMachine(), assignments)
	if err != nil {
		return permissionError(what, err)
	}
	skipped = append(skipped, open...)
	if !t.apply {
		err := display.PrintTuning(env.Stdout, profile, planned, skipped, t.asJSON, t.all)
		return errors.Join(err, unreadableKnobs(profile, targets, skipped))
	}
	if len(skipped) > 0 {
		sanitize.Fprintf(env.Stderr, "venturi: some steps are left out; see why with --plan\n")
	}
	return t.commit(cmd.Context(), env, planned)
}

// targetFlags are the flags that name what may be tuned.
type targetFlags struct {
	host                     bool
	dev, netns, manifest, db []string
}

func (n *targetFlags) flags(f *pflag.FlagSet) {
	f.BoolVar(&n.host, "host", false, "tune the host as a whole, and its own network namespace")
	f.Var(repeatableFlag{&n.dev}, "dev", "network device, in the namespace of --netns if given, or as DEVICE@NETNS\n(repeatable, like all targets below)")
	f.VarP(repeatableFlag{&n.netns}, "netns", "n", "network namespace, such as a pod's: its name in "+host.NamespaceFolder+", its file, or the id of a\nprocess in it; \"self\": the host's own, without what concerns the host as a whole")
	f.Var(repeatableFlag{&n.manifest}, "manifest", "file with Kubernetes objects")
	f.Var(repeatableFlag{&n.db}, "db", "socket of the database of Open vSwitch or OVN; \"default\": the path of their package")
}

// targets reads what is named. Error: nothing is, or something that is not there.
func (n *targetFlags) targets() (t tune.Targets, err error) {
	t.Host = n.host
	if n.host {
		t.Machines = []string{""}
	}
	for _, name := range n.netns {
		file, err := netnsFile(name)
		if err != nil {
			return t, err
		}
		if file == "" {
			t.Machines = append(t.Machines, file)
			continue
		}
		if err := checkTarget(knob.Target{Netns: file}); err != nil {
			return t, err
		}
		t.Pods = append(t.Pods, file)
	}
	for _, name := range n.dev {
		on, err := n.device(name)
		if err == nil {
			err = t.AddDevice(on)
		}
		if err != nil {
			return t, err
		}
	}
	for _, name := range n.manifest {
		file, err := filepath.Abs(name)
		if err != nil {
			return t, err
		}
		if err := checkTarget(knob.Target{File: file}); err != nil {
			return t, err
		}
		t.Manifests = append(t.Manifests, file)
	}
	for _, socket := range n.db {
		if socket == "default" {
			socket = ""
		}
		if err := checkTarget(knob.Target{Switch: socket}); err != nil {
			return t, err
		}
		t.Switches, t.Centrals = append(t.Switches, socket), append(t.Centrals, socket)
	}
	if !n.named() {
		return t, verr.New(verr.Usage, "cannot tune", "no target is given", "name what may be changed: --host, --dev, --netns, --manifest or --db; a list of changes has no default target")
	}
	return t, nil
}

// named tells whether anything is.
func (n *targetFlags) named() bool {
	return n.host || len(n.netns)+len(n.dev)+len(n.manifest)+len(n.db) > 0
}

// device reads DEVICE or DEVICE@NETNS.
func (n *targetFlags) device(text string) (knob.Target, error) {
	device, netns, found := strings.Cut(text, "@")
	switch {
	case device == "", found && netns == "":
		return knob.Target{}, verr.New(verr.Usage, fmt.Sprintf("cannot tune dev %q", text), errEmpty.Error(), "write DEVICE, or DEVICE@NETNS")
	case found:
	case len(n.netns) == 1:
		netns = n.netns[0]
	case len(n.netns) > 1:
		return knob.Target{}, verr.New(verr.Usage, "cannot tune dev "+text, "several namespaces have a device of this name", "say which one: --dev "+sanitize.Shell(text+"@NETNS")+", or @self for the machine's own")
	}
	file, err := netnsFile(netns)
	return knob.Target{Device: device, Netns: file}, err
}
