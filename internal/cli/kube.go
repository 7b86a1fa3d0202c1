package cli

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/venturi-net/venturi/internal/kube"
	"github.com/venturi-net/venturi/internal/mesh"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/internal/tune/cluster"
	"github.com/venturi-net/venturi/internal/verr"
)

// kubectlName is what the program is called where kubectl finds it as its plugin.
const kubectlName = "kubectl-venturi"

// plugin is the same program as a plugin of kubectl: what concerns a cluster is at the top.
func plugin() CommandLine {
	return CommandLine{
		Name:  kubectlName,
		Short: "Measure the pod network of a Kubernetes cluster against its host network",
		Long: `Measure how much slower or faster the pod network of a cluster is than the network of its
nodes: in the same minutes, with a confidence interval. Find slow nodes, tune the nodes and the
network plugin, and undo all of it.

It creates pods, controls them through the API server only, and removes them. Their image has
this version of venturi: "make image" builds it, and --image or VENTURI_IMAGE names it.`,
		Example: `  kubectl venturi compare --image IMAGE                    unprivileged pods
  kubectl venturi compare --image IMAGE --node-agents      with the host network
  kubectl venturi doctor --image IMAGE                     examine every node
  kubectl venturi mesh --image IMAGE                       find slow nodes and pairs of nodes
  kubectl venturi tune --profile cilium --cluster          show what a list of tunings would change
  kubectl venturi rbac --node-agents                       print the rights that it needs
  kubectl venturi cleanup                                  remove what runs left; ends runs in progress, too`,
		Commands: append(append(kubeCommands(), newReport, newVersion, newExitCodes), startedCommands()...),
	}
}

// kubeCommands are those that both programs have, in a list that each may append to.
func kubeCommands() []func(*Env) *cobra.Command {
	return []func(*Env) *cobra.Command{
		newKubeCompare, newKubeDoctor, newKubeMesh, newKubeTune, newKubeConfirm, newKubeUndo, newRBAC, newCleanup,
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
		Short: "Measure, examine and tune the network of a Kubernetes cluster",
		Long: `Measure, examine and tune the network of a Kubernetes cluster. The program is also a plugin of
kubectl: called kubectl-venturi, it has these commands as "kubectl venturi compare", "doctor",
"mesh", "tune", "confirm", "undo", "rbac" and "cleanup".`,
		Example: `  venturi kube compare --image IMAGE
  venturi kube doctor --image IMAGE
  venturi kube mesh --image IMAGE
  venturi kube tune --profile cilium --cluster
  venturi kube rbac --node-agents
  venturi kube cleanup`,
	}
	for _, construct := range append(kubeCommands(), newKubeLease) {
		cmd.AddCommand(construct(env))
	}
	return cmd
}

// newKubeCompare is compare with a cluster in place of a lab.
func newKubeCompare(env *Env) *cobra.Command {
	cmd := (&compareFlags{inCluster: true}).command(env)
	cmd.Short = "Measure the pod network of a cluster, interleaved"
	cmd.Long = `Measure the paths of a Kubernetes cluster between two of its nodes, in turn: in random
order, 25 to 100 ms each, over connections that stay open. The result is the ratio of
each to the first one in the same rounds, with a 95 % interval and a verdict.

Paths, all of them unless some are named:
` + kube.PathHelp() + `
By default each endpoint is an unprivileged pod that PodSecurity "restricted" admits, and paths
are compared with the path pod. With --node-agents, one agent on each of the two nodes enters
the network namespace of every endpoint, and paths are compared with the host network. The
rights that it needs are printed first.

By default it measures for about 70 s, and the result is there in less than 90 s. More loads
or sizes take longer; --budget, or --series and --rounds, say for how long it measures.

Control streams go through the API server (pods/exec). Only the data ports of the run are
open: 19000 to 29999, TCP and UDP, and for path nodeport those that the cluster assigns.
Every object has the label
` + kube.Label + ` and belongs to one Job. If this command
dies, the pods end within half a minute, and the Job removes the rest.`
	cmd.Example = `  kubectl venturi compare --image IMAGE
  kubectl venturi compare --image IMAGE --node-agents --nodes a,b
  kubectl venturi compare host pod --image IMAGE --node-agents --load tcp_lat --budget 60s
  kubectl venturi compare --image IMAGE --node-agents --from shop/cart-0 --to shop/db-0`
	return cmd
}

// newKubeDoctor is doctor on the nodes of a cluster.
func newKubeDoctor(env *Env) *cobra.Command {
	var e kubeExamination
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Examine every node of a cluster for network problems; change nothing",
		Long: `Examine every node of a cluster for network problems: the findings of "venturi doctor" on
each node, merged, and mismatches between nodes. It also prints the network plugin and its
settings (Flannel, Calico, Cilium, Kube-OVN, Antrea, OVN-Kubernetes, kube-router, Weave Net),
the MTU between nodes, and kube-proxy's mode. Nothing is changed.

One agent pod runs on each node, with hostNetwork, hostPID, and all capabilities dropped but
SYS_ADMIN, SYS_PTRACE and NET_ADMIN (to read the packet filter). "kubectl venturi rbac
doctor" prints the rights that it needs. A setting that it may not read is reported as a
note. The pods tolerate every taint unless --toleration names some; they are removed at the
end.

Do not run it during a measurement: it refuses while one runs (exit code 5), or waits with
--wait. Counters are read twice, --interval apart: meanwhile, keep the slow traffic running.

The exit code is 0 if there are only notes, and 8 if there are warnings or errors.`,
		Example: `  kubectl venturi doctor --image IMAGE
  kubectl venturi doctor --image IMAGE --nodes a,b,c --interval 30s
  kubectl venturi doctor --image IMAGE --json | jq '.cluster.cni'`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return e.run(cmd.Context(), env) },
	}
	f := cmd.Flags()
	e.nodeFlags(f, "examine only these nodes, A,B,... (default: all that are ready)")
	f.DurationVar(&e.interval, "interval", defaultInterval, "time between two readings of counters; 0: read them once")
	f.BoolVar(&e.wait, "wait", false, "wait for another run in the cluster to end")
	f.BoolVar(&e.asJSON, "json", false, "print the findings and the cluster's settings as JSON")
	return cmd
}

// newKubeTune is tune on a cluster.
func newKubeTune(env *Env) *cobra.Command {
	var t kubeTuning
	cmd := &cobra.Command{
		Use:   "tune --profile PROFILE [--plan|--prove|--apply]",
		Short: "Plan, prove and apply a list of tunings to a cluster and its nodes",
		Long: `Show what a list of tunings (a profile) would change in a cluster and on its nodes, and why
the rest of it does not apply; with --prove, find out which changes help; with --apply, make
them. Only what you name is changed:

  --cluster     settings of the network plugin in the API (Cilium, Calico, Kube-OVN), once
  --host        each node as a whole, and its own network namespace
  --dev DEVICE  a network device of each node

Nodes are those of --nodes, or all that are not cordoned; one that is not ready is an error.

--plan is the default. It changes nothing, and prints what would be written to the API as a
diff. --apply makes the changes on all nodes and in the API, or nowhere, and "kubectl venturi
undo" restores every value.

With --trial, every value is restored when the time is over, unless "kubectl venturi confirm"
comes first: on each node by a process there, in the API by a pod. That pod needs a service
account: "kubectl venturi rbac tune --trial" prints it, for an administrator to apply, once.

--prove finds the smallest set of changes to nodes that helps, by measuring between two nodes:
those of --nodes A,B, or two that the scheduler chooses. Every few seconds it turns changes on
and off on both, in random order. The other nodes stay as they are, and everything is undone
at the end. --path host measures the nodes' own network, --path pod that of two pods on them.
Settings of the network plugin cannot be proven: they take effect when its pods restart.

Pods are never restarted. The commands that restart them are printed, and a change that would
restart pods by itself is not made: the command for it is printed.

In the API, fields are set by server-side apply, with a field manager for each transaction.
The old values are in ConfigMap ` + kube.LedgerName + ` in ` + kube.LedgerNamespace + ` before anything is written. Each node has
its own journal.

Nodes are read and changed by one privileged pod on each, which is removed at the end. These
pods, and that of a trial, need --image. "kubectl venturi rbac tune" prints the rights that
all of this needs.

Profiles:
` + profileHelp(),
		Example: `  kubectl venturi tune --profile cilium --cluster
  kubectl venturi tune --profile balanced --cluster --host --dev eth0 --image IMAGE --apply
  kubectl venturi tune --profile cilium --config config --image IMAGE --apply
  kubectl venturi tune --profile cilium --cluster --image IMAGE --apply --trial 10m
  kubectl venturi tune --profile latency --host --nodes a,b --image IMAGE
  kubectl venturi tune --profile balanced --host --dev eth0 --nodes a,b --image IMAGE --prove`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := errors.Join(t.prove.checkAlone(cmd.Flags()), checkTrial(cmd.Flags(), t.trial)); err != nil {
				return err
			}
			return t.run(cmd.Context(), env)
		},
	}
	f := cmd.Flags()
	f.StringVar(&t.profile, "profile", "", "list of tunings: one of the profiles above (required)")
	f.BoolVar(&t.cluster, "cluster", false, "tune the settings of the network plugin in the API")
	f.BoolVar(&t.host, "host", false, "tune each node as a whole, and its own network namespace")
	f.Var(repeatableFlag{&t.devices}, "dev", "tune this network device of each node, such as eth0 (repeatable)")
	f.Var(onceFlag{&t.config}, "config", "file with DEVICE, TUNING_CILIUM, CILIUM_NAMESPACE and CILIUM_CONFIG_MAP_NAME, as the\npublished script for Cilium reads it: it means --host, --dev with its DEVICE, and --cluster\nif TUNING_CILIUM is true")
	f.BoolVar(&t.plan, "plan", false, "change nothing; print what would be written (the default)")
	f.BoolVar(&t.apply, "apply", false, "make the changes, on all nodes and in the API, or nowhere")
	f.BoolVar(&t.all, "all", false, "list each step that does not apply to a node, with the reason, not only their number")
	t.prove.nodeFlags(f)
	f.DurationVar(&t.trial, "trial", 0, "with --apply, undo the changes after this time, such as 10m (at least 1s), unless \"kubectl venturi\nconfirm\" comes first")
	t.nodeFlags(f, "tune only these nodes, A,B,... (default: all that are not cordoned; with --prove, two that the\nscheduler chooses)")
	f.BoolVar(&t.wait, "wait", false, "wait for another run in the cluster to end")
	f.BoolVar(&t.asJSON, "json", false, "print the result as JSON")
	cmd.MarkFlagsMutuallyExclusive("plan", "apply", "prove")
	cmd.MarkFlagsMutuallyExclusive("prove", "trial")
	cmd.MarkFlagsMutuallyExclusive("all", "apply")
	return cmd
}

// newKubeUndo undoes that.
func newKubeUndo(env *Env) *cobra.Command {
	var u kubeUndo
	cmd := &cobra.Command{
		Use:   "undo [TXN...|--all]",
		Short: "Undo what tune has changed in a cluster and on its nodes",
		Long: `Restore the values from before a transaction of "kubectl venturi tune", in the API and on
every node that it changed. Without a number it undoes the only open transaction; if there
are several, it lists them.

A field that somebody else has changed or claimed since is reported, with who and when, and
left alone. All others are undone, and the exit code is 7. --force overwrites it; --leave
keeps it and closes the change. --leave also gives up nodes that cannot be reached.

Pods that have read a setting keep it until they restart. It needs --image if the transaction
changed nodes.`,
		Example: `  kubectl venturi undo
  kubectl venturi undo 3 --image IMAGE
  kubectl venturi undo --all --image IMAGE
  kubectl venturi undo 3 --force`,
		RunE: func(cmd *cobra.Command, args []string) error { return u.run(cmd.Context(), env, args) },
	}
	f := cmd.Flags()
	u.flags(f)
	f.BoolVar(&u.q.All, "all", false, "undo all open transactions")
	f.BoolVar(&u.q.Force, "force", false, "overwrite what somebody else has changed since")
	f.BoolVar(&u.q.Leave, "leave", false, "keep what somebody else has changed since, give up nodes that cannot be reached, and\nclose the change")
	f.BoolVar(&u.asJSON, "json", false, "print the outcome for each value as JSON")
	cmd.MarkFlagsMutuallyExclusive("force", "leave")
	return cmd
}

// newKubeConfirm keeps what is on trial there.
func newKubeConfirm(env *Env) *cobra.Command {
	var u kubeUndo
	cmd := &cobra.Command{
		Use:   "confirm [TXN]",
		Short: "Keep changes that are on trial in a cluster",
		Long: `Keep changes made with "kubectl venturi tune --trial", on every node and in the API: they are
not undone when the time of the trial ends. "kubectl venturi undo" can still undo them.
Without a number it confirms the only transaction on trial. If it cannot be confirmed
everywhere, all of it is undone when its time ends. It needs --image if the transaction
changed nodes.`,
		Example: `  kubectl venturi confirm --image IMAGE
  kubectl venturi confirm 3 --image IMAGE`,
		Args: atMost(1),
		RunE: func(cmd *cobra.Command, args []string) error { return u.confirm(cmd.Context(), env, args) },
	}
	f := cmd.Flags()
	u.flags(f)
	f.BoolVar(&u.asJSON, "json", false, "print the number of the transaction as JSON")
	return cmd
}

// newKubeMesh is mesh between the nodes of a cluster.
func newKubeMesh(env *Env) *cobra.Command {
	var m meshRun
	var k kubeFlags
	var zoneLabel string
	cmd := &cobra.Command{
		Use:   "mesh",
		Short: "Measure between all nodes of a cluster, and name the slow nodes and pairs",
		Long: `Measure between all nodes of a cluster, pair by pair, and name the nodes and pairs that are
slower than the rest: a bad cable, a wrong MTU or offload, a noisy neighbour, an overloaded
switch.
` + meshHelp + `
One unprivileged pod runs on each node that is ready, and the pod network is measured between
them. With --node-agents it is the nodes' own network, by their InternalIP: compare the two to
see which of them is slow. The pods tolerate every taint unless --toleration names some; they are
removed at the end. "kubectl venturi rbac mesh" prints the rights that it needs.

Name what shares an uplink with --zone-label: a rack, a zone. Then no two pairs use the same
uplink at a time, and pairs between zones are judged apart from those within one. That takes
more rounds: ten racks of ten nodes take about 1,200.
` + meshExit,
		Example: `  kubectl venturi mesh --image IMAGE
  kubectl venturi mesh --image IMAGE --node-agents --zone-label topology.kubernetes.io/zone
  kubectl venturi mesh --image IMAGE --node-selector pool=gpu --load tcp_lat --budget 2m
  kubectl venturi mesh --image IMAGE --out mesh.json
  kubectl venturi mesh --read mesh.json --format html > mesh.html`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return m.run(cmd.Context(), env, func(ctx context.Context, o mesh.Options) (*mesh.Survey, error) {
				return mesh.MeasureCluster(ctx, mesh.ClusterRequest{Options: o, Access: k.access, Nodes: kube.NodesRequest{
					Options: k.withImage(env), ZoneLabel: zoneLabel, Command: kubectlName + " mesh", Wait: m.wait, Say: o.Say}})
			})
		},
	}
	f := cmd.Flags()
	m.flags(f)
	f.BoolVar(&k.node, "node-agents", false, "measure the nodes' own network, by one agent on each: it needs hostNetwork, hostPID,\nSYS_ADMIN and SYS_PTRACE")
	k.nodeFlags(f, "measure only between these nodes, A,B,... (default: all that are ready)")
	f.StringVar(&zoneLabel, "zone-label", "", "label of nodes that names what shares an uplink, such as topology.kubernetes.io/zone")
	return cmd
}

func newRBAC(env *Env) *cobra.Command {
	var k kubeFlags
	var trial bool
	user := "NAME"
	cmd := &cobra.Command{
		Use:   "rbac [compare|doctor|mesh|tune]",
		Short: "Print the rights that a command needs, as a Role",
		Long: `Print the rights that a command needs, ready for kubectl apply: those of compare by default,
of doctor, of mesh, or of tune with confirm and undo. Reading Secrets is never needed.

Unprivileged pods and agents on nodes (--node-agents) need the same API rights; they differ in
what the namespace's PodSecurity must allow.

Without -n, each run creates its own namespace, which needs a ClusterRole. So do doctor, to
list nodes and to read the settings of network plugins; mesh, to list nodes; and tune.

A trial (tune --trial) is undone by a pod. "rbac tune --trial" also prints its service account,
with roles in each namespace that it needs, and without -n the namespace for it.`,
		Example: `  kubectl venturi rbac -n lab --user jane | kubectl apply -f -
  kubectl venturi rbac --node-agents --user jane | kubectl apply -f -
  kubectl venturi rbac doctor --user jane | kubectl apply -f -
  kubectl venturi rbac tune --trial --user jane | kubectl apply -f -`,
		ValidArgs: []string{"compare", "doctor", "mesh", "tune"},
		RunE: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) == 0 || slices.Equal(args, []string{"compare"}):
				printLines(env.Stdout, k.options().RBAC(user))
			case slices.Equal(args, []string{"doctor"}):
				printLines(env.Stdout, k.options().NodesRBAC(user))
			case slices.Equal(args, []string{"mesh"}):
				printLines(env.Stdout, k.options().MeshRBAC(user))
			case slices.Equal(args, []string{"tune"}):
				printLines(env.Stdout, k.options().TuneRBAC(user, cluster.Objects(), trial))
			default:
				return verr.New(verr.Usage, "cannot print the rights of "+strings.Join(args, " "), "rights are printed for compare, doctor, mesh and tune", "name one of these")
			}
			return nil
		},
	}
	k.accessFlags(cmd.Flags())
	k.levelFlags(cmd.Flags())
	cmd.Flags().StringVar(&user, "user", user, "user to whom the role is bound; replace the placeholder NAME")
	cmd.Flags().BoolVar(&trial, "trial", false, "with tune, also print the service account whose pod undoes a trial, and its roles")
	return cmd
}

func newCleanup(env *Env) *cobra.Command {
	var k kubeFlags
	cmd := &cobra.Command{
		Use:   "cleanup",
		Short: "Remove what runs have created in the cluster",
		Long: `Remove what runs have created, in the whole cluster or, with -n, in one namespace. It finds
Jobs and namespaces by the name venturi-run and their labels, among them
` + kube.Label + `; pods and Services go with their Job or namespace.
Runs in progress are ended too, including other people's. A trial of tune stays, unless it
was killed before it changed anything: "confirm" or "undo" ends it.`,
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
