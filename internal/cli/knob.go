package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/venturi-net/venturi/internal/display"
	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/knob/table"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/internal/tune"
	"github.com/venturi-net/venturi/internal/verr"
)

func newKnob(env *Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "knob",
		Short: "List, read and set what can be tuned, with an exact undo",
		Long: `A knob is one setting that can be tuned: of the host as a whole, of a network namespace,
of a network device, of Open vSwitch or OVN, or in a file of Kubernetes objects. Name
the target with --dev and --netns, as for ip, or with --manifest or --db. Nothing else
is changed, and "venturi undo" restores every byte.`,
		Example: `  venturi knob ls
  venturi knob ls net.backlog
  venturi knob get --all --dev eth0
  venturi knob set net.listen 4096 -n shop`,
	}
	cmd.AddCommand(onMachines(env, knobList(env.Stdout, env.Stderr), runEach), onMachines(env, knobGet(env.Stdout, env.Stderr), runEach), knobSet(env, new(target)))
	return cmd
}

// readKnob reads a knob on what fits to it of the named. A value that cannot be
// read says why.
func readKnob(e knob.Entry, section string, t knob.Target) display.KnobReading {
	r := display.KnobReading{Facts: e.Facts, Section: section}
	if e.Knob == nil || !inScope(e, t) {
		return r
	}
	to, err := restrictTarget(e, t)
	if err == nil {
		var now knob.Reading
		if now, err = e.Get(thisMachine(), to); err == nil {
			r.Target, r.Now = &to, &now
			return r
		}
	}
	r.Denied = errors.Is(err, fs.ErrPermission)
	known := new(verr.Error)
	if err = permissionError("cannot read "+e.Name, err); errors.As(err, &known) {
		r.Lacks = known.Reason
	} else {
		r.Lacks = err.Error()
	}
	return r
}

func knobGet(out, say io.Writer) *cobra.Command {
	var (
		t           target
		all, asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "get NAME...|--all",
		Short: "Read knobs",
		Long: `Read the values of knobs on a target: a device, a network namespace, a file or a
database; by default, the host itself. If the effective value differs from the one that
was set, both are printed. --all omits knobs that the target does not have.`,
		Example: `  venturi knob get net.backlog
  venturi knob get tcp.cc -n shop
  venturi knob get --all --dev eth0 --json`,
		RunE: func(_ *cobra.Command, args []string) error {
			if !all && len(args) == 0 {
				return verr.New(verr.Usage, "cannot choose which knobs to read", "no knob was named", "name knobs that `venturi knob ls` lists, or give --all")
			}
			if all && len(args) > 0 {
				return verr.New(verr.Usage, "cannot choose which knobs to read", "names and --all exclude each other", "give either names or --all")
			}
			to, err := t.read()
			if err != nil {
				return err
			}
			var list []display.KnobReading
			if all {
				read := readAll(to)
				display.TellDenied(say, read)
				list = slices.DeleteFunc(read, func(r display.KnobReading) bool { return r.Now == nil })
			} else {
				list, err = readNamed(args, to)
			}
			switch {
			case err != nil && len(list) == 0:
				return err
			case asJSON:
				return errors.Join(display.PrintKnobsJSON(out, list), err)
			}
			return errors.Join(display.PrintReadings(out, list, !all), err)
		},
	}
	t.flags(cmd.Flags())
	cmd.Flags().BoolVar(&all, "all", false, "all knobs of the target")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print them as JSON")
	return cmd
}

// readAll reads the whole table.
func readAll(t knob.Target) (list []display.KnobReading) {
	for _, s := range table.Sections() {
		for _, e := range s.Entries {
			list = append(list, readKnob(e, s.Name, t))
		}
	}
	return list
}

// readNamed reads knobs that a user asks for. Error: those that cannot be read are
// not in the list.
func readNamed(names []string, t knob.Target) (list []display.KnobReading, err error) {
	var (
		targets []knob.Target
		failed  []error
	)
	for _, name := range names {
		e, err := findKnob(name)
		if err != nil {
			return nil, err
		}
		to, err := restrictTarget(e, t)
		if err != nil {
			return nil, err
		}
		targets = append(targets, to)
		now, err := e.Get(thisMachine(), to)
		if err != nil {
			failed = append(failed, ofKnob(name, permissionError("cannot read "+name, err)))
			continue
		}
		list = append(list, display.KnobReading{Facts: e.Facts, Section: sectionOf(name), Target: &to, Now: &now})
	}
	if err := refuseUnusedTargets(t, targets); err != nil {
		return nil, err
	}
	return list, errors.Join(failed...)
}

// ofKnob says which knob it is that an error is about.
func ofKnob(name string, err error) error {
	v := new(verr.Error)
	if !errors.As(err, &v) {
		return fmt.Errorf("cannot read %s: %w", name, err)
	}
	if strings.Contains(v.Summary, name) {
		return err
	}
	return &verr.Error{Code: v.Code, Summary: "cannot read " + name, Reason: v.Summary + ": " + v.Reason, Hint: v.Hint, Err: err}
}

func sectionOf(name string) string {
	for _, s := range table.Sections() {
		for _, e := range s.Entries {
			if e.Name == name {
				return s.Name
			}
		}
	}
	return ""
}

func knobSet(env *Env, t *target) *cobra.Command {
	var (
		c    commitFlags
		plan bool
	)
	cmd := &cobra.Command{
		Use:   "set NAME VALUE [NAME VALUE...]",
		Short: "Set knobs, all in one transaction",
		Long: `Set knobs on a target, in one transaction, all or none. The old values are on disk
before the first write, and each new value is read back; if one has no effect, all are
undone. A change stays until "venturi undo"; with --trial, it is undone after that time
unless "venturi confirm" comes first.

Knobs that Venturi never sets automatically can be set here, by name.`,
		Example: `  venturi knob set net.backlog 4000
  venturi knob set tcp.cc bbr net.listen 8192 -n shop --plan
  venturi knob set nic.gro off --dev eth0 --trial 120s`,
		RunE: func(cmd *cobra.Command, args []string) error {
			to, err := t.read()
			if err != nil {
				return err
			}
			assignments, err := assignmentsOf(args, to)
			if err != nil {
				return err
			}
			if !plan {
				if err := c.check(cmd.Flags(), assignments); err != nil {
					return err
				}
			}
			planned, err := tune.DryRun(thisMachine(), assignments)
			if err != nil {
				return permissionError("cannot read the knobs", err)
			}
			for _, w := range assignments {
				if w.Knob.ManualOnly != "" {
					sanitize.Fprintf(env.Stderr, "venturi: %s is never set automatically: %s\n", w.Knob.Name, w.Knob.ManualOnly)
				}
			}
			if plan {
				return display.PrintPlan(env.Stdout, planned, c.asJSON)
			}
			return c.commit(cmd.Context(), env, planned)
		},
	}
	f := cmd.Flags()
	t.flags(f)
	c.flags(f)
	f.BoolVar(&plan, "plan", false, "change nothing; print what would be written, as a diff")
	cmd.MarkFlagsMutuallyExclusive("plan", "trial")
	return onMachines(env, cmd, func(ctx context.Context, r *fleetRun) error {
		if plan {
			return runEach(ctx, r)
		}
		return r.commit(ctx, r.trimFlags("--trial"), c.trial)
	})
}

// assignmentsOf reads names and values in turn.
func assignmentsOf(args []string, t knob.Target) (assignments []tune.Assignment, err error) {
	if len(args) == 0 || len(args)%2 != 0 {
		return nil, verr.New(verr.Usage, "cannot set "+strings.Join(append([]string{"knobs"}, args...), " "), "each knob needs a value", "give pairs of NAME VALUE")
	}
	var targets []knob.Target
	for i := 0; i < len(args); i += 2 {
		e, err := findKnob(args[i])
		if err != nil {
			return nil, err
		}
		to, err := restrictTarget(e, t)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(assignments, func(w tune.Assignment) bool { return w.Knob.Name == e.Name }) {
			return nil, verr.New(verr.Usage, "cannot set "+e.Name+" twice", "only one of the two values could take effect", "name each knob once; a value with several parts is written as one, such as rx=512,tx=512")
		}
		targets = append(targets, to)
		assignments = append(assignments, tune.Assignment{Knob: e, Target: to, Value: args[i+1]})
	}
	return assignments, refuseUnusedTargets(t, targets)
}
