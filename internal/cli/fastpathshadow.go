package cli

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/venturi-net/venturi/internal/display"
	"github.com/venturi-net/venturi/internal/fastpath/discover"
	"github.com/venturi-net/venturi/internal/fastpath/node"
	"github.com/venturi-net/venturi/internal/fastpath/shadow"
	"github.com/venturi-net/venturi/internal/journal"
	"github.com/venturi-net/venturi/internal/verr"
)

// shadowCommand is "fastpath shadow".
type shadowCommand struct {
	env         *Env
	limit       time.Duration
	flows       int
	nat, asJSON bool
	ipv6        bool
}

func (s *shadowCommand) command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "shadow",
		Short: "Compare what the fast path would send with what the network sends, and carry nothing",
		Long: `Compare every packet that the fast path would carry with the one that the network sends: all
headers, added and removed ones included, the payload, the device, and the priority for
queueing. Nothing is carried, and pods notice nothing.

It runs until Ctrl-C, SIGTERM, "venturi fastpath disable" or the end of --time, or until it has
compared packets of --flows flows. Then it removes everything that it added. It prints the
first packet of each kind of difference, and how many packets were

  equal          the same as the network's
  different      not the same
  not forwarded  not sent on by the network within a second
  changed        one of the latter two, but rules, pods or peers changed within a second
  missed         not compared, because packets came faster than they could be read

The exit code is 0 if no packet differed and not too many were lost (not forwarded), 8
otherwise, 4 if none was compared or nothing could be carried, and 5 if "enable --replace" took
over before.

Single lost packets do no harm: a network also drops packets of flows that it forwards, when
conntrack calls them invalid or a queue is full. Too many are lost if

  - a flow in one direction, or all flows together, lost at least 3 packets and one in 20
  - at least 3 flows, and one in 20, lost every packet in one direction

A flow that lost every packet in one direction, but fewer than 3, is inconclusive: it does not
count as compared. TCP segments more than 1 MiB from what was forwarded of their flow before do
not count as lost.

In the outer headers, the IP ID and the source port and checksum of UDP may differ, and are
not compared. Of packets over 64,000 bytes, only the first 64,000 are compared.

"venturi fastpath enable" begins with such a comparison. Both are recorded in the journal. With
--json, the reasons why nothing can be carried go to standard error.`,
		Example: `  venturi fastpath shadow --time 30s
  venturi fastpath shadow --flows 100
  venturi fastpath shadow --time 1m --json | jq '.differences[]'`,
		Args: noArgs,
		RunE: s.run,
	}
	f := cmd.Flags()
	f.DurationVar(&s.limit, "time", 0, "end after this time, such as 30s (default: no limit)")
	f.IntVar(&s.flows, "flows", 0, "end when it has compared packets of this many flows (default: no limit)")
	f.BoolVar(&s.nat, "nat", true, "also compare packets of translated connections, such as those to Services")
	f.BoolVar(&s.ipv6, "ipv6", false, "compare packets of IPv6 instead of IPv4")
	f.BoolVar(&s.asJSON, "json", false, "print the result as JSON")
	return cmd
}

const cannotCompare = "cannot compare packets"

func (s *shadowCommand) run(cmd *cobra.Command, _ []string) error {
	switch {
	case cmd.Flags().Changed("time") && s.limit < time.Second:
		return verr.New(verr.Usage, cannotCompare+" for "+s.limit.String(), "it is shorter than a second", "give a time such as 30s")
	case s.flows < 0:
		return verr.New(verr.Usage, cannotCompare, "--flows is less than 0", "give a number of flows such as 100")
	}
	plan, err := readPlan(cannotCompare, "", familyOf(s.ipv6), nil)
	if err != nil {
		return err
	}
	if !plan.CarriesAny() {
		return s.refuse(plan)
	}
	config := plan.Config()
	config.NoNAT = !s.nat
	found, err := node.Shadow(cmd.Context(), config, node.Options{
		Open:   func() (*journal.Journal, error) { return openToChange(s.env, journalWait) },
		Reopen: func() (*journal.Journal, error) { return reopenJournal(s.env) },
		Shadow: node.ShadowOptions{Flows: s.flows, Limit: s.limit},
	})
	replaced := errors.Is(err, node.ErrReplaced)
	if err != nil && !replaced {
		return err
	}
	return s.report(found, replaced)
}

// refuse says why nothing can be carried, and thus compared. Whoever reads JSON finds the result in its usual form.
func (s *shadowCommand) refuse(p *discover.Plan) error {
	if !s.asJSON {
		return refusePlans(s.env.Stdout, cannotCompare, p)
	}
	printed := display.PrintShadowJSON(s.env.Stdout, shadow.Result{})
	return errors.Join(refusePlans(s.env.Stderr, cannotCompare, p), printed)
}

// report prints what was found, and gives the exit code. If another process has taken over, it says so.
func (s *shadowCommand) report(found shadow.Result, replaced bool) (err error) {
	if s.asJSON {
		err = display.PrintShadowJSON(s.env.Stdout, found)
	} else {
		err = display.PrintShadow(s.env.Stdout, found)
	}
	switch {
	case err != nil:
	case found.IsDifferent():
		err = exitCode(verr.Findings)
	case (found.Compared() == 0 || found.Flows == 0) && !replaced: // or all of them are inconclusive
		err = exitCode(verr.Missing)
	}
	if replaced {
		err = errors.Join(err, verr.New(verr.Busy, "packets are no longer compared",
			`another process has taken over, with "fastpath enable --replace"`, "see what that one carries with: venturi fastpath status"))
	}
	return err
}
