package cli

import (
	"maps"
	"time"

	"github.com/spf13/cobra"

	"github.com/venturi-net/venturi/internal/agent"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/reach"
	"github.com/venturi-net/venturi/internal/verr"
)

// newAgent is the process that the lab starts on each machine. It is hidden:
// people have no use for it.
func newAgent(env *Env) *cobra.Command {
	o := agent.Options{Version: Version()}
	var stdio, unlocked, hostFiles, watch bool
	var folder string
	var linger time.Duration
	cmd := &cobra.Command{
		Use:   "agent --machine NAME --socket PATH",
		Short: "Run as the agent of a machine",
		Long: `Serve the endpoints, loads and meters of one machine to a controller, over a unix socket in a
private folder, until standard input ends. Venturi starts agents itself, in a lab, by ssh and
in pods: there is no need to run this command.`,
		Hidden: true,
		Args:   noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if hostFiles {
				if err := netcfg.EnterHostFiles(ownCommand(env), env.Environ()); err != nil {
					return verr.Wrap(verr.Permission, "cannot reach the node's own files", err, "run it in a privileged pod with hostPID")
				}
			}
			if watch {
				return lab.Watch(env.Stdin)
			}
			if linger > 0 {
				return agent.Linger(cmd.Context(), linger)
			}
			if stdio && o.Machine != "" {
				o.Run = runForAgent(env)
				failure := make(chan error, 1)
				parts := &lab.Parts{Program: netcfg.OwnProgram(), Version: Version(), Failure: failure}
				o.Lock, o.Calls, o.Close, o.Failure = parts.Lock, parts.Calls(), parts.Close, failure
				maps.Copy(o.Calls, new(reach.Listeners).Calls())
				if unlocked {
					o.Lock, o.Calls, o.Close, o.Failure = nil, nil, nil, nil
					if err := agent.Occupy(); err != nil {
						return err
					}
				}
				return agent.Stdio(cmd.Context(), env.Stdin, env.Stdout, folder, o)
			}
			if o.Machine == "" || o.Socket == "" {
				return verr.New(verr.Usage, "cannot start an agent", "--machine or --socket is missing",
					"give both; Venturi starts agents itself when it needs them")
			}
			o.Stdin = env.Stdin
			return agent.Main(cmd.Context(), o)
		},
	}
	cmd.Flags().StringVar(&o.Machine, "machine", "", "name of the machine")
	cmd.Flags().StringVar(&o.Socket, "socket", "", "path of the unix socket to listen on; its folder must have mode 0700")
	cmd.Flags().IntSliceVar(&o.Cores, "cores", nil, "cores to which the machine is confined, such as 0,1; CPU time is read from these only (default: all)")
	cmd.Flags().BoolVar(&o.Detach, "detach", false, "keep running when standard input ends")
	cmd.Flags().BoolVar(&stdio, "stdio", false, "serve on standard input and output, until either ends")
	cmd.Flags().BoolVar(&watch, "watch", false, "when standard input ends, remove what is left of the labs that it named, and the measuring lock")
	cmd.Flags().BoolVar(&unlocked, "unlocked", false, "take no lock and make no lab: the caller ensures that no other run measures")
	cmd.Flags().BoolVar(&hostFiles, "host-files", false, "in a container, use the files of the node's first process")
	cmd.Flags().DurationVar(&linger, "linger", 0, "run as the first process of a container, and exit when no other process has run in it for this long, such as 30s")
	cmd.Flags().StringVar(&folder, "remove", "", "folder of this program, removed as soon as it runs")
	return cmd
}
