package cli

import (
	"io"
	"strings"

	"github.com/spf13/pflag"

	"github.com/venturi-net/venturi/internal/compare"
	"github.com/venturi-net/venturi/internal/kube"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/internal/verr"
)

// kubeFlags say which cluster is meant, and what may be made in it.
type kubeFlags struct {
	access kube.Access
	o      kube.Options
	node   bool
	set    *pflag.FlagSet // the flags, to tell which were given
}

// accessFlags are those of every command that speaks to a cluster.
func (k *kubeFlags) accessFlags(f *pflag.FlagSet) {
	k.set = pflag.NewFlagSet("", pflag.ContinueOnError)
	k.set.StringVar(&k.access.Kubeconfig, "kubeconfig", "", "the kubeconfig to use (default: the one that kubectl uses)")
	k.set.StringVar(&k.access.Context, "context", "", "the context of the kubeconfig to use (default: the current one)")
	k.set.StringVarP(&k.o.Namespace, "namespace", "n", "", "the namespace for all objects (default: a new one for each run)")
	f.AddFlagSet(k.set)
}

// levelFlags are those that rights depend on.
func (k *kubeFlags) levelFlags(f *pflag.FlagSet) {
	k.set.BoolVar(&k.node, "node-agents", false, "run one agent on each node, which sees the node's own network: it needs hostNetwork, hostPID,\nSYS_ADMIN and SYS_PTRACE")
	k.set.StringVar(&k.o.From, "from", "", "measure from this existing pod: NAMESPACE/POD (with --node-agents)")
	k.set.StringVar(&k.o.To, "to", "", "measure to this existing pod: NAMESPACE/POD")
	f.AddFlagSet(k.set)
}

// runFlags are those of a run.
func (k *kubeFlags) runFlags(f *pflag.FlagSet) {
	k.accessFlags(f)
	k.levelFlags(f)
	k.set.StringSliceVar(&k.o.Nodes, "nodes", nil, "measure between these two nodes, A,B (default: two that the scheduler chooses)")
	k.podFlags(f)
}

// podFlags are those of what is made in a cluster.
func (k *kubeFlags) podFlags(f *pflag.FlagSet) {
	k.set.StringVar(&k.o.Image, "image", "", "the image with this version of venturi, as \"make image\" builds it (default: $"+imageVariable+")")
	k.set.StringVar(&k.o.PullSecret, "image-pull-secret", "", "the Secret for pulling the image, in the namespace of the run (default: none)")
	k.set.StringToStringVar(&k.o.NodeSelector, "node-selector", nil, "use only nodes with these labels: `KEY=VALUE,...` (default: any)")
	k.set.Lookup("node-selector").DefValue = "" // a map's own is []
	k.set.Func("toleration", "tolerate this `TAINT`: KEY[=VALUE][:EFFECT] (repeatable)", func(text string) error {
		t, err := kube.ParseToleration(text)
		k.o.Tolerations = append(k.o.Tolerations, t)
		return err
	})
	f.AddFlagSet(k.set)
}

// options are what the flags ask for.
func (k *kubeFlags) options() kube.Options {
	if k.node {
		k.o.Level = kube.Node
	}
	return k.o
}

// cluster is what the flags ask for, for a comparison.
func (k *kubeFlags) cluster(env *Env) *compare.Cluster {
	return &compare.Cluster{Access: k.access, Options: k.withImage(env)}
}

// withImage are the options with the image that the environment names, where no flag does.
func (k *kubeFlags) withImage(env *Env) kube.Options {
	o := k.options()
	if o.Image == "" {
		o.Image = env.Getenv(imageVariable)
	}
	return o
}

// imageVariable names an image in the environment, so that it is not to be given each time.
const imageVariable = "VENTURI_IMAGE"

// refuseAlone refuses the flags where no cluster is meant.
func (k *kubeFlags) refuseAlone() (err error) {
	var names []string
	k.set.VisitAll(func(f *pflag.Flag) {
		if f.Changed {
			names = append(names, "--"+f.Name)
		}
	})
	if len(names) == 0 {
		return nil
	}
	return verr.New(verr.Usage, "cannot use "+strings.Join(names, ", ")+" here", "this run measures a lab or machines, not a cluster", "add --kube, or use `kubectl venturi compare`")
}

// sayRights prints what agents on nodes need before anything of it is used.
func sayRights(env *Env, c *compare.Cluster) {
	if c.Options.Level == kube.Node {
		printLines(env.Stderr, c.Options.RBAC("NAME"))
	}
}

// printLines prints a text of several lines.
func printLines(w io.Writer, text string) {
	for line := range strings.Lines(text) {
		sanitize.Fprintf(w, "%s\n", strings.TrimRight(line, "\n"))
	}
}
