package cli

import (
	"fmt"
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
	{verr.OK, "done, whatever the verdicts were"},
	{verr.Failed, "something that should work did not"},
	{verr.Usage, "the request makes no sense; nothing was changed"},
	{verr.Permission, "not root, or not allowed"},
	{verr.Missing, "the kernel or the machine lacks something that was asked for"},
	{verr.Busy, "another run holds the lock, or another command is changing the machine"},
	{verr.BadRecord, "a record is truncated, newer than this program, or not a record"},
	{verr.Partial, "the run ended with some arms failed, and the others are reported; or some of what was\n       to be undone was left, because somebody else has changed it since"},
	{verr.Findings, "doctor found something that is off: errors or warnings, not only notes"},
	{verr.Interrupted, "stopped by Ctrl-C; what was measured until then is reported"},
}

// newExitCodes is a topic: a command that cannot run, only be read.
func newExitCodes(*Env) *cobra.Command {
	var text strings.Builder
	text.WriteString("What venturi's exit code means. A number never changes its meaning.\n\n")
	for _, c := range exitCodes {
		sanitize.Fprintf(&text, "  %3d  %s\n", c.Code, sanitize.Safe(c.Text))
	}
	text.WriteString("\nEvery error is printed on standard error in three parts: what failed, why, and\nwhat to do about it.")
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

func noSuchTopic(args []string) error {
	topic := strings.Join(args, " ")
	return verr.New(verr.Usage, "cannot help with "+topic,
		fmt.Sprintf("there is no command and no topic %q", topic), `see "venturi --help" for both`)
}
