package cli

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/verr"
)

// inNetns adds --netns to a command that works in the namespace of its process: the whole process
// starts anew there, with the same arguments.
func inNetns(env *Env, cmd *cobra.Command) *cobra.Command {
	var netns string
	cmd.Flags().VarP(onceFlag{&netns}, "netns", "n", netnsHelp)
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		file, err := netnsFile(netns)
		if err != nil {
			return err
		}
		if file != "" && os.Geteuid() == 0 { // others get no further than to be told what takes root
			program, err := program()
			if err != nil {
				return err
			}
			if err := context.Cause(cmd.Context()); err != nil {
				return err // the program that starts anew would not know of the signal
			}
			if err := netcfg.EnterNetns(file, append(program, env.Args...)); err != nil {
				return verr.Wrap(verr.Failed, "cannot enter network namespace "+netns, err, "list network namespaces with: ip netns ls")
			}
		}
		return run(cmd, args)
	}
	return cmd
}
