package cli

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/venturi-net/venturi/internal/journal"
)

// CommandLine is a program with a command line: ours, or another one that is built from
// the same commands.
type CommandLine struct {
	Name, Short, Long, Example string
	Commands                   []func(*Env) *cobra.Command
}

// HiddenCommands are venturi's own commands, for a program that starts itself as venturi
// does (as an agent, or as a daemon of a path) and does not list them in its help.
func HiddenCommands() []func(*Env) *cobra.Command {
	hidden := make([]func(*Env) *cobra.Command, len(commands))
	for i, construct := range commands {
		hidden[i] = func(env *Env) *cobra.Command {
			cmd := construct(env)
			cmd.Hidden = true
			return cmd
		}
	}
	return hidden
}

// Build names the source that this program was built from.
func Build() string { return Version() + " " + revision() }

// OpenJournal opens this machine's journal for changes, and waits while somebody else
// has it.
func OpenJournal(env *Env) (*journal.Journal, error) { return openJournal(env, journalWait) }

// NoArgs refuses arguments.
func NoArgs(cmd *cobra.Command, args []string) error { return noArgs(cmd, args) }

// OnceVar adds a flag that may be given once, and not empty.
func OnceVar(f *pflag.FlagSet, to *string, name, usage string) { f.Var(onceFlag{to}, name, usage) }

// EffectVar adds a flag for the size of an effect: 25%, or 0.25.
func EffectVar(f *pflag.FlagSet, to *float64, name, usage string) {
	f.Var(effect{(*share)(to)}, name, usage)
}
