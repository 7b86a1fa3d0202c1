package cli

import (
	"context"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/venturi-net/venturi/internal/kube"
	"github.com/venturi-net/venturi/internal/sanitize"
)

// kubectlName is what the program is called where kubectl finds it as its plugin.
const kubectlName = "kubectl-venturi"

// plugin is the same program as a plugin of kubectl: what concerns a cluster is at the top.
func plugin() CommandLine {
	return CommandLine{
		Name:  kubectlName,
		Short: "Measure the pod network of a Kubernetes cluster against its host network",
		Long: `Venturi measures how much slower or faster the pod network of a cluster is than
the network of its nodes: in the same minutes, with a confidence interval.

It makes pods, speaks to them through the API server alone, and removes them.`,
		Example: `  kubectl venturi compare --image IMAGE                    unprivileged pods
  kubectl venturi compare --image IMAGE --node-agents      with the host network
  kubectl venturi rbac --node-agents                       what that needs
  kubectl venturi cleanup                                  remove what killed runs left`,
		Commands: append([]func(*Env) *cobra.Command{newKubeCompare, newRBAC, newCleanup, newReport, newVersion, newExitCodes}, startedCommands()...),
	}
}

// startedCommands are those that the program starts itself with.
func startedCommands() []func(*Env) *cobra.Command { return []func(*Env) *cobra.Command{newAgent} }

// RunAs runs one command line of the program that is called so.
func RunAs(ctx context.Context, name string, env *Env) int {
	if strings.HasPrefix(filepath.Base(name), kubectlName) {
		return plugin().Run(ctx, env)
	}
	return Run(ctx, env)
}

// newKube holds what concerns clusters.
func newKube(env *Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "kube",
		Short: "Measure the network of a Kubernetes cluster",
		Long: `Measure a Kubernetes cluster. The program is also a plugin of kubectl: called
kubectl-venturi, it has these commands as "kubectl venturi compare", "rbac" and "cleanup".`,
		Example: `  venturi kube compare --image IMAGE
  venturi kube rbac --node-agents
  venturi kube cleanup`,
	}
	for _, construct := range []func(*Env) *cobra.Command{newKubeCompare, newRBAC, newCleanup} {
		cmd.AddCommand(construct(env))
	}
	return cmd
}

// newKubeCompare is compare with a cluster in place of a lab.
func newKubeCompare(env *Env) *cobra.Command {
	inCluster := true
	cmd := newCompareOf(env, &inCluster)
	cmd.Short = "Measure the pod network of a cluster, interleaved"
	cmd.Long = `Measure the paths of a Kubernetes cluster between two of its nodes, in turn: in random
order, 25 to 100 ms each, over connections that stay open. The result is the ratio of
each to the first one in the same rounds, with a 95 % interval and a verdict.

Paths, all of them unless some are named:
` + kube.PathHelp() + `
By default each end is an unprivileged pod, as PodSecurity "restricted" admits, and paths
are compared with pod. With --node-agents, one agent on each of the two nodes enters the
network namespace of every end, and paths are compared with the host network. The rights
that this needs are printed first.

Control streams go through the API server (pods/exec). Only the data ports of the run are
open: 19000 to 29999, TCP and UDP. Everything has the label
` + kube.Label + ` and belongs to one Job. If this command
dies, the pods end within half a minute, and the Job removes the rest.`
	cmd.Example = `  kubectl venturi compare --image IMAGE
  kubectl venturi compare --image IMAGE --node-agents --nodes a,b
  kubectl venturi compare host pod --image IMAGE --node-agents --load tcp_lat --budget 60s
  kubectl venturi compare --image IMAGE --node-agents --from shop/cart-0 --to shop/db-0`
	for _, name := range []string{"baseline", "wire", "hosts", "services", "with", "tool", "machines", "ssh", "no-copy", "dev", "net", "kernel", "accel", "accel-stats"} {
		if cmd.Flags().Lookup(name) != nil {
			_ = cmd.Flags().MarkHidden(name)
		}
	}
	return cmd
}

func newRBAC(env *Env) *cobra.Command {
	var k kubeFlags
	user := "NAME"
	cmd := &cobra.Command{
		Use:   "rbac",
		Short: "Print the rights that a run needs, as a Role",
		Long: `Print the rights that a run needs, ready for kubectl apply. Unprivileged pods and agents
on nodes (--node-agents) take the same rights of the API; they differ in what the
namespace's PodSecurity has to allow. No right to read Secrets is among them.

Without -n each run makes a namespace of its own, which takes a ClusterRole.`,
		Example: `  kubectl venturi rbac -n lab --user jane | kubectl apply -f -
  kubectl venturi rbac --node-agents --user jane | kubectl apply -f -`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			printLines(env.Stdout, k.options().RBAC(user))
			return nil
		},
	}
	k.accessFlags(cmd.Flags())
	k.levelFlags(cmd.Flags())
	cmd.Flags().StringVar(&user, "user", user, "whom the role is for")
	return cmd
}

func newCleanup(env *Env) *cobra.Command {
	var k kubeFlags
	cmd := &cobra.Command{
		Use:   "cleanup",
		Short: "Remove everything that runs have made in the cluster",
		Long: `Remove everything that runs have made, in the whole cluster or with -n in one namespace:
Jobs, pods, Services, and namespaces that Venturi made. Runs in progress are ended too,
other people's included. It finds them by their label,
` + kube.Label + `.`,
		Example: `  kubectl venturi cleanup
  kubectl venturi cleanup -n lab`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := kube.Open(k.access)
			if err != nil {
				return err
			}
			removed, err := c.Cleanup(cmd.Context(), k.o.Namespace)
			for _, what := range removed {
				sanitize.Fprintf(env.Stdout, "removed %s\n", what)
			}
			if err == nil && len(removed) == 0 {
				sanitize.Fprintf(env.Stdout, "there is nothing to remove\n")
			}
			return err
		},
	}
	k.accessFlags(cmd.Flags())
	cmd.Flags().Lookup("namespace").Usage = "only in this namespace (default: the whole cluster)"
	return cmd
}
