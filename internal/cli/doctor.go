package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/venturi-net/venturi/internal/display"
	"github.com/venturi-net/venturi/internal/doctor"
	"github.com/venturi-net/venturi/internal/progress"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/internal/verr"
)

// diagnosis is what the command line of doctor asks for.
type diagnosis struct {
	dev, netns, peer []string
	interval         time.Duration
	asJSON, markdown bool
}

const (
	defaultInterval = 2 * time.Second
	maxInterval     = 10 * time.Minute
)

func newDoctor(env *Env) *cobra.Command {
	var d diagnosis
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Examine the host and its devices for network problems; change nothing",
		Long: `Examine the host and its devices, in all visible network namespaces, for network
problems: lost offloads, on virtual devices too; mismatched MTUs along a path; one CPU
that does all the work; queues that overflow; long chains of netfilter rules; and more
("doctor --md" lists all). Nothing is changed.

Each finding has a stable code, the evidence, the size of the effect with its source,
and the command that fixes it. There are three severities:

  error    packets are lost, or will be
  warning  the network is slower, or costs more, than it need be
  note     good to know; it may be intended

Counters are read twice, --interval apart: keep the traffic that is slow running meanwhile.
With --netns and --dev, only findings there and of the host as a whole are printed; the
other namespaces are still read, because paths lead through them. Only root can read
other namespaces and the packet filter; what could not be read is reported as a note
("not-seen").

The exit code is 0 if there are only notes, and 8 if there are warnings or errors.`,
		Example: `  venturi doctor
  venturi doctor --interval 30s            while the traffic is slow
  venturi doctor --netns shop --dev eth0   one device of one pod
  venturi doctor --peer 10.0.0.7           and the path to that machine
  venturi doctor --json | jq -r '.findings[] | select(.severity != "note") | .fix // empty'`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if d.markdown {
				var page strings.Builder
				if err := doctor.Page(&page); err != nil {
					return err
				}
				_, err := sanitize.Fprint(env.Stdout, sanitize.Safe(display.WrapPage(page.String())))
				return err
			}
			return d.run(cmd.Context(), env)
		},
	}
	f := cmd.Flags()
	f.Var(repeatableFlag{&d.dev}, "dev", "network device (repeatable, like --netns and --peer; default: all)")
	f.VarP(repeatableFlag{&d.netns}, "netns", "n", "network namespace: its name, its file, or the id of a process in it; \"self\": the current\none (default: all that are visible)")
	f.Var(repeatableFlag{&d.peer}, "peer", "IP address of another machine or pod: check the path to it too, with a few UDP datagrams")
	f.DurationVar(&d.interval, "interval", defaultInterval, "time between two readings of counters; 0: read them once")
	f.BoolVar(&d.asJSON, "json", false, "print the findings as JSON")
	f.BoolVar(&d.markdown, "md", false, "print all rules as Markdown, and read nothing")
	cmd.MarkFlagsMutuallyExclusive("json", "md")
	return onMachines(env, cmd, d.onMachines)
}

// onMachines examines several machines, and prints their findings in one list.
func (d *diagnosis) onMachines(ctx context.Context, r *fleetRun) error {
	r.reach.AnyUser = true
	if err := r.open(ctx); err != nil {
		return err
	}
	if d.interval > defaultInterval {
		r.say("reading counters twice, %s apart", d.interval)
	}
	replies := r.Run(ctx, withFlags(r.args, "--json"))
	display.PrintStderr(r.env.Stderr, replies)
	var reports []doctor.MachineReport
	for _, a := range replies {
		found := &doctor.Report{}
		if a.Err != nil {
			continue
		}
		if err := json.Unmarshal(a.Stdout, found); err != nil {
			return fmt.Errorf("read what doctor found on %s: %w", a.Machine.Name, err)
		}
		reports = append(reports, doctor.MachineReport{Machine: a.Machine.Name, Report: found})
	}
	if len(reports) == 0 {
		return joined(replies)
	}
	all := doctor.Merge(reports, func(command string, machines []string) string { return r.suggest(command, machines...) })
	print := doctor.Print
	if r.asJSON {
		print = func(w io.Writer, report *doctor.Report) error { return display.PrintJSON(w, report) }
	}
	return errors.Join(print(r.env.Stdout, all), joined(replies))
}

func (d *diagnosis) run(ctx context.Context, env *Env) error {
	o, err := d.options()
	if err != nil {
		return err
	}
	show := progress.New(env.Stderr)
	defer show.Done()
	if d.interval > defaultInterval {
		o.Say = show.Say
	}
	report, err := doctor.Examine(ctx, o)
	if err != nil {
		return err
	}
	show.Done()
	if d.asJSON {
		err = display.PrintJSON(env.Stdout, report)
	} else {
		err = doctor.Print(env.Stdout, report)
	}
	if worst := report.Worst(); err == nil && (worst == doctor.Error || worst == doctor.Warning) {
		return exitCode(verr.Findings)
	}
	return err
}

func checkInterval(d time.Duration) error {
	if d < 0 || d > maxInterval {
		return verr.New(verr.Usage, "cannot read counters twice, "+d.String()+" apart", fmt.Sprintf("--interval is at least 0 and at most %s", maxInterval), "give a time such as 30s, or 0 to read them once")
	}
	return nil
}

// options checks what was named.
func (d *diagnosis) options() (doctor.Options, error) {
	o := doctor.Options{Devices: d.dev, Interval: d.interval}
	if err := checkInterval(d.interval); err != nil {
		return o, err
	}
	for _, name := range d.netns {
		file, err := netnsFile(name)
		if err != nil {
			return o, err
		}
		if file == "" {
			file = "/proc/self/ns/net"
		}
		o.Netns = append(o.Netns, file)
	}
	for _, text := range d.peer {
		addr, err := netip.ParseAddr(text)
		if err != nil {
			return o, verr.New(verr.Usage, "cannot check the path to "+text, "it is not an IP address", "give --peer an address such as 10.0.0.7")
		}
		o.Peers = append(o.Peers, addr)
	}
	return o, nil
}
