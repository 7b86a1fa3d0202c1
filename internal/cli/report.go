package cli

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/internal/compare"
	"github.com/venturi-net/venturi/internal/display"
	"github.com/venturi-net/venturi/internal/gate"
	"github.com/venturi-net/venturi/internal/report"
	"github.com/venturi-net/venturi/internal/report/change"
	"github.com/venturi-net/venturi/internal/report/figure"
	"github.com/venturi-net/venturi/internal/report/layout"
	"github.com/venturi-net/venturi/internal/report/view"
	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/result"
)

func newReport(env *Env) *cobra.Command {
	var (
		opt     view.Options
		open    bool
		tables  string
		partial bool
		fail    []string
	)
	cmd := &cobra.Command{
		Use:   "report [RUN [LATER...]]",
		Short: "Print the report of a run, from its record",
		Long: `Print the report of a run again, in any format. Every report is made from the record,
which keeps every slice.

RUN is the folder of a run, or the record in it (` + result.FileName + `). The default is the
newest finished run below ` + compare.RunsFolder + `/. No root is needed.

With several runs, each later run is compared with the first: each path's later ratio to
the host network is divided by the earlier one, so the speed of the machine on either day
does not matter. Use it before and after a change of the kernel, the CNI plugin or the
tuning.

--fail-if 'PATH LOAD VERDICT' makes the exit code ` + strconv.Itoa(verr.Findings) + ` when the report has that
verdict. * is every path or load; VERDICT is ` + strings.Join(gate.Verdicts, ", ") + `.

--format html is a page with figures: a single file without scripts that needs no
network. --open writes it next to the record and shows it in the browser. --format svg
draws one of its figures, for a document.

With --study, only the tables of that study are printed. The run may be one of the study,
or any other with the same paths and loads.`,
		Example: `  venturi report                              the newest run
  venturi report ` + compare.RunsFolder + `/20260102-150405 --format md
  venturi report --open                       a page with figures, in the browser
  venturi report --format svg --figure latency/tcp_lat/1 > latency.svg
  venturi report --format benchstat > new.txt  for golang.org/x/perf/cmd/benchstat
  venturi report before after --format md     for a pull request
  venturi report before after --fail-if '* * slower'
  venturi report --style qperf                as qperf prints its results
  venturi report --study calico-bgp-vs-ovs    the study's tables`,
		RunE: func(_ *cobra.Command, args []string) error {
			conditions, err := gate.Parse(fail)
			if err != nil {
				return err
			}
			if len(args) > 1 {
				if tables != "" || open {
					return verr.New(verr.Usage, "cannot compare runs", "--study and --open are for one run", "leave them out, or name one run")
				}
				return reportChanges(env, args, partial, opt, conditions)
			}
			if tables != "" {
				if len(conditions) > 0 {
					return verr.New(verr.Usage, "cannot check --fail-if on a study", "the tables of a study compare several paths", "leave --study out: the run's own report has verdicts")
				}
				return reportStudy(env, tables, args, partial, opt)
			}
			if open {
				if opt.Format != report.Formats()[0] && opt.Format != "html" {
					return verr.New(verr.Usage, "cannot open a report as "+opt.Format, "--open shows HTML only", "leave out --open or --format")
				}
				opt.Format = "html"
			}
			if err := checkReport(opt); err != nil {
				return err
			}
			path, err := compare.FindRun(env.Stderr, args, partial)
			if err != nil {
				return err
			}
			rec, err := compare.OpenRecord(env.Stderr, path, partial)
			if err != nil {
				return err
			}
			if open {
				err = openPage(env, path, rec, opt)
			} else {
				err = printReport(env, path, rec, opt)
			}
			if err != nil || len(conditions) == 0 {
				return err
			}
			s, err := analysis.Analyze(rec, analysis.Options{Live: true})
			if err != nil {
				return printed("cannot check --fail-if", err)
			}
			return gate.Check(conditions, gate.SummaryVerdicts(s))
		},
	}
	f := cmd.Flags()
	f.StringVar(&opt.Format, "format", report.Formats()[0], "one of "+strings.Join(report.Formats(), ", "))
	f.StringVar(&opt.Style, "style", "", "print as another tool does: "+strings.Join(report.Styles(), ", "))
	verboseFlag(f, &opt)
	fastPathStatsFlag(f, &opt.FastPathStats)
	f.StringVar(&opt.Figure, "figure", "", "figure for --format svg: "+strings.Join(figure.Kinds(), ", ")+";\nfor one load, append it, such as latency/tcp_lat/1")
	f.BoolVar(&open, "open", false, "show the page of --format html in the browser")
	f.StringVar(&tables, "study", "", "print the tables of a study: its name, or a study file")
	f.StringArrayVar(&fail, "fail-if", nil, "exit with code "+strconv.Itoa(verr.Findings)+" when the report has this verdict, such as 'vxlan tcp_lat slower'")
	f.BoolVar(&partial, "partial", false, "report what there is of a record that was cut off; without RUN, of the newest one")
	return cmd
}

// reportChanges prints how the paths of later runs changed from the first.
func reportChanges(env *Env, runs []string, partial bool, opt view.Options, conditions []gate.Condition) error {
	if opt.Style != "" || opt.Figure != "" {
		return verr.New(verr.Usage, "cannot compare runs in a style or as a figure", "a comparison of runs is a table", "leave out --style and --figure")
	}
	if err := checkFormat("cannot compare runs", opt.Format, change.Formats()); err != nil {
		return err
	}
	var recs []change.NamedRecord
	for _, run := range runs {
		rec, err := compare.OpenRecord(env.Stderr, run, partial)
		if err != nil {
			return err
		}
		recs = append(recs, change.NamedRecord{Name: run, Record: rec})
	}
	opt.Width, opt.Bars = display.TerminalWidth(env.Stdout), display.DrawsUnicode(env.Stdout, env.Getenv)
	changes, err := change.Write(env.Stdout, recs, opt)
	if err != nil {
		return printed("cannot compare "+strings.Join(runs, " and "), err)
	}
	return gate.Check(conditions, gate.ChangeVerdicts(changes))
}

// verboseFlag is the flag by which a table shows all that it can.
func verboseFlag(f *pflag.FlagSet, opt *view.Options) {
	f.BoolVarP(&opt.Verbose, "verbose", "v", false, "show CPU time by class and core, and what the meters counted")
}

// fastPathStatsFlag is the flag by which what fast paths carried is printed. Its first name is that of
// --accel, which is about virtual machines.
func fastPathStatsFlag(f *pflag.FlagSet, to *bool) {
	const help = "show what fast paths carried, what took the slow path, and why"
	f.BoolVar(to, "fastpath-stats", false, help)
	f.BoolVar(to, "accel-stats", false, help)
	_ = f.MarkHidden("accel-stats")
}

// checkReport refuses an unknown format or style before any file is opened.
func checkReport(opt view.Options) error {
	if err := checkFormat("cannot report", opt.Format, report.Formats()); err != nil {
		return err
	}
	if opt.Figure != "" && opt.Format != "svg" {
		return verr.New(verr.Usage, "cannot draw the figure "+opt.Figure, "only --format svg draws one figure", "add --format svg")
	}
	if opt.Style == "" {
		return nil
	}
	if !slices.Contains(report.Styles(), opt.Style) {
		return verr.New(verr.Usage, "cannot report in the style of "+opt.Style,
			"there is no such style", "choose from: "+strings.Join(report.Styles(), ", "))
	}
	if opt.Format != report.Formats()[0] {
		return verr.New(verr.Usage, "cannot report in the style of "+opt.Style+" as "+opt.Format,
			"a style is itself a format", "leave out --style, or --format and --json")
	}
	return nil
}

// checkFormat refuses what is not one of the formats in which something can be
// printed; what says that it cannot be.
func checkFormat(what, format string, known []string) error {
	if slices.Contains(known, format) {
		return nil
	}
	return verr.New(verr.Usage, what+" in the format "+format, "there is no such format", "choose from: "+strings.Join(known, ", "))
}

func printReport(env *Env, path string, rec *result.Record, opt view.Options) error {
	opt.Width, opt.Bars = display.TerminalWidth(env.Stdout), display.DrawsUnicode(env.Stdout, env.Getenv)
	return printed("cannot report "+path, report.Write(env.Stdout, rec, opt))
}

// printed makes an error for a user of why a record could not be printed.
func printed(what string, err error) error {
	switch {
	case errors.Is(err, analysis.ErrNoPlan):
		return verr.Wrap(verr.BadRecord, what, err, "measure again: the run ended before its first measurement")
	case errors.Is(err, analysis.ErrMixedEmulation):
		return verr.Wrap(verr.BadRecord, what, err, "measure both on a real machine, or both under one kernel in a virtual machine")
	case errors.Is(err, analysis.ErrOtherBaseline):
		return verr.Wrap(verr.Usage, what, err, "measure both against the same path (--baseline)")
	case errors.Is(err, analysis.ErrNothingInCommon):
		return verr.Wrap(verr.Usage, what, err, "name two runs of the same paths and loads")
	case errors.Is(err, figure.ErrNoFigure):
		return verr.Wrap(verr.Usage, what, err, "choose one of the run's figures with --figure")
	case errors.Is(err, layout.ErrOtherRecord):
		return verr.Wrap(verr.Usage, what, err, "name the folder of a run of this study")
	case errors.Is(err, layout.ErrMixed):
		return verr.Wrap(verr.BadRecord, what, err, "measure all wires of the study on one machine, or all under one kernel in a virtual machine")
	}
	return verr.Wrap(verr.Failed, what, err, "check that the output can be written: the disk may be full")
}
