package kube

import (
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/venturi-net/venturi/internal/verr"
)

// Options are what a user asks for.
type Options struct {
	Level        Level
	Image        string // that has this program
	PullSecret   string // to fetch it with
	Namespace    string // empty: one of our own
	Nodes        []string
	NodeSelector map[string]string
	Tolerations  []corev1.Toleration
	From, To     string // NAMESPACE/POD of pods that are there; empty: pods of our own
}

// Check refuses what makes no sense, before anything is asked of a cluster.
func (o Options) Check() error {
	if err := o.checkImage(); err != nil {
		return err
	}
	switch {
	case len(o.Nodes) != 0 && (len(o.Nodes) != 2 || o.Nodes[0] == o.Nodes[1]):
		return verr.New(verr.Usage, "cannot measure between the nodes "+strings.Join(o.Nodes, ","), "a comparison needs two nodes", "name two: --nodes a,b")
	case (o.From == "") != (o.To == ""):
		return verr.New(verr.Usage, "cannot measure with only one pod", "--from and --to go together", "give both, each as NAMESPACE/POD")
	case o.From == "":
		return nil
	case o.Level != Node:
		return verr.New(verr.Usage, "cannot measure between existing pods without --node-agents", "only an agent on the node can enter their networks",
			"add --node-agents, which runs one agent on each of the two nodes with the rights that `kubectl venturi rbac` prints")
	case len(o.Nodes) != 0:
		return verr.New(verr.Usage, "cannot combine --nodes with --from and --to", "the pods determine the nodes", "leave out --nodes")
	}
	for flag, pod := range map[string]string{"--from": o.From, "--to": o.To} {
		if namespace, name := splitPod(pod); namespace == "" || name == "" {
			return verr.New(verr.Usage, "cannot measure with "+flag+" "+pod, "a pod is named NAMESPACE/POD", "`kubectl get pods -A` lists them")
		}
	}
	return nil
}

func (o Options) checkImage() error {
	if o.Image == "" {
		return verr.New(verr.Usage, "cannot create pods without an image", "neither --image nor VENTURI_IMAGE names one",
			"build one with `make image`, push or load it, and name it with --image, or for all commands with VENTURI_IMAGE")
	}
	return nil
}

func splitPod(text string) (namespace, name string) {
	namespace, name, _ = strings.Cut(text, "/")
	return namespace, name
}

// tolerationForm is KEY[=VALUE][:EFFECT], as kubectl writes taints.
var tolerationForm = regexp.MustCompile(`^([A-Za-z0-9./_-]+)(=([A-Za-z0-9._-]*))?(:(NoSchedule|PreferNoSchedule|NoExecute))?$`)

// ParseToleration reads KEY[=VALUE][:EFFECT]. Errors are for people.
func ParseToleration(text string) (t corev1.Toleration, err error) {
	m := tolerationForm.FindStringSubmatch(text)
	if m == nil {
		return t, verr.New(verr.Usage, "cannot use --toleration "+text, "it is not KEY[=VALUE][:EFFECT]",
			"write it as `kubectl describe node` shows the taint, such as node-role.kubernetes.io/control-plane:NoSchedule")
	}
	t = corev1.Toleration{Key: m[1], Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffect(m[5])}
	if m[2] != "" {
		t.Operator, t.Value = corev1.TolerationOpEqual, m[3]
	}
	return t, nil
}
