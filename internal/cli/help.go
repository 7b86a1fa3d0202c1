package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/internal/verr"
)

// exitCodes is the promise of package verr in a person's words.
var exitCodes = []struct {
	Code int
	Text string
}{
	{verr.OK, "done, whatever the verdicts are"},
	{verr.Failed, "something that should work did not; or \"verify\" missed a limit"},
	{verr.Usage, "the command line is wrong; nothing was changed"},
	{verr.Permission, "not root, or not allowed"},
	{verr.Missing, "the kernel or the host lacks something that is needed; or a knob is obsolete; or a fast path\n       can carry nothing here, \"fastpath shadow\" compared nothing, or \"fastpath stats\" finds no fast path"},
	{verr.Busy, "another run holds the lock, or another command is changing the host"},
	{verr.BadRecord, "a record is truncated, newer than this program, or not a record"},
	{verr.Partial, "some paths of the run failed, or a machine was lost, and the rest is reported; or undo\n       left values alone that somebody else has changed since"},
	{verr.Findings, "doctor found errors or warnings, not only notes; or a report has a verdict of --fail-if;\n       or \"fastpath plan\" lists something that stays on the slow path; or \"fastpath shadow\"\n       or \"enable\" found a difference; or \"mesh\" names a slow node or pair"},
	{verr.Interrupted, "interrupted (Ctrl-C); what was measured until then is reported"},
}

// newExitCodes is a topic: a command that cannot run, only be read.
func newExitCodes(*Env) *cobra.Command {
	var text strings.Builder
	text.WriteString("What Venturi's exit codes mean. A number never changes its meaning.\n\n")
	for _, c := range exitCodes {
		sanitize.Fprintf(&text, "  %3d  %s\n", c.Code, sanitize.Safe(c.Text))
	}
	text.WriteString("\nErrors go to standard error, in three parts: what failed, why, and what to do.")
	return &cobra.Command{Use: "exit-codes", Short: "What the exit code means", Long: text.String()}
}

// newHelp replaces cobra's help command, which answers an unknown topic with
// exit code 0.
func newHelp(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND|TOPIC]",
		Short:   "Help about a command or a topic",
		Long:    "Help about a command or a topic. The same as COMMAND --help.",
		Example: "  venturi help compare\n  venturi help exit-codes",
		RunE: func(_ *cobra.Command, args []string) error {
			cmd, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return noSuchTopic(args)
			}
			cmd.InitDefaultHelpFlag()
			return cmd.Help()
		},
	}
}

// unknownBeforeHelp refuses "venturi frobnicate --help", for which cobra prints the help of venturi
// and succeeds.
func unknownBeforeHelp(root *cobra.Command, args []string) error {
	if !slices.Contains(args, "--help") && !slices.Contains(args, "-h") {
		return nil
	}
	root.InitDefaultHelpCmd()
	cmd, rest, err := root.Find(args)
	if err != nil || !cmd.HasSubCommands() || len(rest) == 0 || strings.HasPrefix(rest[0], "-") {
		return err
	}
	return noSuchCommand(cmd, rest)
}

func noSuchTopic(args []string) error {
	topic := strings.Join(args, " ")
	return verr.New(verr.Usage, "cannot show help for "+topic,
		fmt.Sprintf("there is no command and no topic %q", topic), `see "venturi --help" for both`)
}
