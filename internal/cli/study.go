package cli

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/venturi-net/venturi/internal/compare"
	"github.com/venturi-net/venturi/internal/display"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/report/layout"
	"github.com/venturi-net/venturi/internal/report/view"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/internal/study"
	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/result"
)

// studyExample is a study file with every part that there is.
const studyExample = `name: my-overlay
title: My overlay against plain routes
machines: {hosts: 2, services: 1000}      # optional
wires: [{name: hw, options: {tso: on}}]   # optional; one comparison per wire
paths:                                    # the host network is always measured
  - path: routed
  - {name: mine, path: vxlan, options: {vni: 42}}
loads:
  - {load: tcp_lat}
  - {load: tcp_bw, sizes: "8:256K:*2", flows: [1, 8]}
budget: 3m
margin: 3%
tables:
  - title: By message size
    rows: [load, path, flows]             # of: path, wire, load, size, flows
    columns: size
    baseline: routed                      # beside the host network
    figures:
      - {name: bw, load: tcp_bw, sizes: "8:256K:*2", flows: [1, 8], unit: MB/s}
`

// indented sets an example off from the text around it.
func indented(text string) string {
	return "  " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n  ")
}

func newStudy(env *Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "study",
		Short: "Repeat a published experiment, and print its table",
		Long: `A study is a file that defines which paths and loads to compare, for how long, and which
tables to print. Venturi includes studies of published experiments; "venturi study ls"
lists them. You can write your own:

` + indented(studyExample),
		Example: `  venturi study ls
  venturi study show calico-bgp-vs-ovs
  venturi study run calico-bgp-vs-ovs
  venturi study run ./my-overlay.yaml --budget 5m`,
	}
	cmd.AddCommand(studyList(env), studyShow(env), studyRun(env))
	return cmd
}

// oneStudy is for commands about one study.
func oneStudy(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return errors.New("no study is given")
	}
	return atMost(1)(cmd, args)
}

func studyList(env *Env) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "ls",
		Short:   "List the included studies",
		Long:    "List the included studies: what each measures, and for how long.",
		Example: "  venturi study ls\n  venturi study ls --json",
		Args:    noArgs,
		RunE: func(*cobra.Command, []string) error {
			all, plans := []*study.Study{}, []study.Summary{}
			for _, name := range study.Names() {
				s, err := study.Open(name)
				if err != nil {
					return err
				}
				plan, err := s.Summary()
				if err != nil {
					return err
				}
				all, plans = append(all, s), append(plans, plan)
			}
			if asJSON {
				return display.PrintJSON(env.Stdout, plans)
			}
			return study.List(env.Stdout, all)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the list as JSON")
	return cmd
}

func studyShow(env *Env) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show NAME|FILE",
		Short: "Show what a study does, how long it takes, and whether it can run here",
		Long: `Show what a study compares, how long that takes, and what this machine lacks for it.
Nothing is built or measured. Run it as root to check more of what the kernel supports.`,
		Example: `  venturi study show calico-bgp-vs-ovs
  venturi study show ./my-overlay.yaml`,
		Args: oneStudy,
		RunE: func(_ *cobra.Command, args []string) error {
			s, err := study.Open(args[0])
			if err != nil {
				return err
			}
			if !asJSON {
				return s.Explain(env.Stdout)
			}
			plan, err := s.Summary()
			if err != nil {
				return err
			}
			return display.PrintJSON(env.Stdout, plan)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the result as JSON")
	return cmd
}

func studyRun(env *Env) *cobra.Command {
	var (
		q    compare.Request // what the flags say of each comparison
		opt  = view.Options{Format: layout.Formats()[0]}
		json bool
		u    kernelFlag
		far  machinesFlag
	)
	cmd := &cobra.Command{
		Use:   "run NAME|FILE",
		Short: "Run a study, and print its tables",
		Long: `Run a study: one comparison for each of its wires, as "venturi compare" does it. Then
print its tables. The record holds more: "venturi report" shows all of it, and "venturi
report --study" prints the tables again.

With several wires, each has its own record, in a folder named after the wire. Tables
that compare wires are printed after the last one. Between real machines (--machines),
one comparison of all paths runs over the wire that exists.

It needs root, except with --machines and --kernel. It changes only its own network
namespaces, and removes those that a killed run left behind.`,
		Example: `  venturi study run calico-bgp-vs-ovs
  venturi study run ./my-overlay.yaml --budget 5m --out mine
  venturi study run calico-bgp-vs-ovs --kernel 6.1
  venturi study run qinq --machines a=ssh://root@192.0.2.1,b=ssh://root@192.0.2.2 --dev eth1`,
		Args: oneStudy,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := study.Open(args[0])
			if err != nil {
				return err
			}
			if q.Remote, err = far.remote(); err != nil {
				return err
			}
			switch {
			case far.machines != "":
				s = s.OnMachines()
			case host.Emulated():
				s = s.OnEmulatedCPU()
			}
			if cmd.Flags().Changed("budget") {
				s.Budget = q.Budget
			}
			if json {
				opt.Format = "json"
			}
			if q.Out == "" {
				q.Out = compare.FreshFolder(time.Now())
			}
			q.Command = ownCommand(env)
			return runStudy(cmd, env, s, q, opt, u)
		},
	}
	f := cmd.Flags()
	f.DurationVar(&q.Budget, "budget", 0, "time to measure, over all wires (default: the study's own)")
	u.flags(f)
	far.flags(f)
	runFlags(f, &q)
	fastPathStatsFlag(f, &opt.FastPathStats)
	f.BoolVar(&json, "json", false, "print the tables as JSON")
	return cmd
}

// runStudy makes one comparison after the other. What cannot be carried out is
// refused before the first; a path that fails in one does not end the others.
func runStudy(cmd *cobra.Command, env *Env, s *study.Study, flags compare.Request, opt view.Options, u kernelFlag) error {
	folders := s.Folders(flags.Out)
	var requests []*compare.Resolved
	for i, q := range s.Requests() {
		q.Out, q.Seed, q.Wait, q.Command, q.Remote = folders[i], flags.Seed, flags.Wait, flags.Command, flags.Remote
		r, err := q.Resolve()
		if err != nil {
			return err
		}
		requests = append(requests, r)
	}
	if elsewhere, err := u.runsInGuest(env); err != nil {
		return err
	} else if elsewhere {
		return measureUnder(cmd.Context(), env, u, requests, flags.Out, cmd.Flags().Changed("out"))
	}
	for _, r := range requests {
		if err := r.Check(); err != nil {
			return err
		}
	}
	var failed []error
	var recs []layout.Wired
	for i, r := range requests {
		err := runCompare(cmd.Context(), env, r, func(file string, rec *result.Record) error {
			recs = append(recs, layout.Wired{Wire: s.Wires[i].Name, Record: rec})
			return printTables(env, s.Layout(s.Wires[i]), file, []layout.Wired{{Record: rec}}, opt)
		})
		if err != nil {
			failed = append(failed, err)
		}
		if err != nil && verr.Code(err) != verr.Partial {
			break
		}
		sanitize.Fprintf(env.Stderr, "venturi: see the full report with: venturi report %s\n", sanitize.Path(folders[i]))
	}
	if err := printTables(env, s.CrossWireLayout(), flags.Out, recs, opt); err != nil {
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

// reportStudy prints the tables of a study from the records of a run.
func reportStudy(env *Env, name string, args []string, partial bool, opt view.Options) error {
	if opt.Style != "" {
		return verr.New(verr.Usage, "cannot print the tables of a study in the style of "+opt.Style,
			"that style has no tables of studies", "leave --style or --study out")
	}
	if err := checkFormat("cannot print the tables of a study", opt.Format, layout.Formats()); err != nil {
		return err
	}
	s, err := study.Open(name)
	if err != nil {
		return err
	}
	run, err := compare.FindRun(env.Stderr, args, partial)
	if err != nil {
		return err
	}
	if above := filepath.Dir(run); len(args) == 0 && len(s.Wires) > 1 && above != compare.RunsFolder {
		run = above // the newest record is that of the last wire
	}
	folders := s.Folders(run)
	if recordIn(run) || strings.HasSuffix(run, result.FileName) {
		folders = []string{run} // it is one record, of whatever wire
	}
	var recs []layout.Wired
	wires := s.Wires // one a folder where there are several
	for i, folder := range folders {
		if len(folders) > 1 && !recordIn(folder) && slices.ContainsFunc(folders, recordIn) {
			sanitize.Fprintf(env.Stderr, "venturi: wire %s is left out: there is no record in %s\n", wires[i].Name, folder)
			continue
		}
		rec, err := compare.OpenRecord(env.Stderr, folder, partial)
		if err != nil {
			return err
		}
		if !rec.Plan.OneHost() {
			s = s.OnMachines()
		}
		if rec.Emulated() {
			s = s.OnEmulatedCPU()
		}
		wire, known := s.WireOf(rec.Plan)
		switch {
		case known:
		case rec.Plan.OneHost() && len(folders) > 1:
			wire = wires[i] // a run names its folders after them
		default:
			wire = s.OtherWire(rec.Plan)
		}
		recs = append(recs, layout.Wired{Wire: wire.Name, Record: rec})
		if err := printTables(env, s.Layout(wire), folder, []layout.Wired{{Record: rec}}, opt); err != nil {
			return err
		}
	}
	return printTables(env, s.CrossWireLayout(), run, recs, opt)
}

// recordIn tells whether there is a record in a folder.
func recordIn(folder string) bool {
	_, err := os.Stat(filepath.Join(folder, result.FileName))
	return err == nil
}

// printTables prints what a layout shows of records, if it shows anything.
func printTables(env *Env, l layout.Layout, file string, recs []layout.Wired, opt view.Options) error {
	if len(l.Tables) == 0 || len(recs) == 0 {
		return nil
	}
	opt.Width = display.TerminalWidth(env.Stdout)
	return printed("cannot print the tables of "+l.Name+" from "+file, layout.Write(env.Stdout, recs, l, opt))
}
