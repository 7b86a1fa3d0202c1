// Package cluster tunes a Kubernetes cluster: the settings of its network plugin
// once, in the API, and the settings of nodes on each of them, through agents. The
// cluster's own journal, a ConfigMap, has what was there before; that of a node lies on the node.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/venturi-net/venturi/internal/kube"
	"github.com/venturi-net/venturi/internal/kube/cni"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/internal/verr"
)

// tunable is an object, or all of a kind, that has settings which knobs know.
type tunable struct {
	cni.Object
	workload string // whose pods read it when they start; empty: it is read at once
}

// CiliumConfig is where Cilium has its settings, unless the user says otherwise.
var CiliumConfig = cni.Object{Version: "v1", Resource: "configmaps", Namespace: "kube-system", Name: "cilium-config"}

func tunables(cilium cni.Object) []tunable {
	return []tunable{
		{cilium, "daemonset/cilium"},
		{cni.Object{Group: "apps", Version: "v1", Resource: "daemonsets", Namespace: "kube-system", Name: "kube-ovn-cni"}, ""},
		{cni.Object{Group: "apps", Version: "v1", Resource: "deployments", Namespace: "kube-system", Name: "kube-ovn-controller"}, ""},
		{cni.Object{Group: "crd.projectcalico.org", Version: "v1", Resource: "ippools"}, ""},
		{cni.Object{Group: "crd.projectcalico.org", Version: "v1", Resource: "felixconfigurations", Name: "default"}, ""},
	}
}

// Objects are all that a tuning may read, and those that it may write. A Deployment is not written:
// that would restart its pods.
func Objects() (all []kube.TunedObject) {
	for _, t := range tunables(CiliumConfig) {
		all = append(all, kube.TunedObject{Object: t.Object, Writable: t.Resource != "deployments"})
	}
	return all
}

// liveObject is one object as the cluster has it.
type liveObject struct {
	tunable
	value map[string]any
}

// file is what the object is called where a knob wants a file's name.
func (o liveObject) file() string { return "/" + path.Join(o.Resource, o.Namespace, o.Name) }

// readObjects reads what there is of tunables. What may not be read is told.
func readObjects(ctx context.Context, client *kube.Client, cilium cni.Object) (found []liveObject, unread []kube.UnreadObject, err error) {
	for _, t := range tunables(cilium) {
		value, err := client.GetObject(ctx, t.Object)
		var said *verr.Error
		switch {
		case kube.IsNotFound(err):
		case verr.Code(err) == verr.Permission && errors.As(err, &said):
			unread = append(unread, kube.UnreadObject{Object: t.String(), Reason: said.Reason})
		case err != nil:
			return nil, nil, err
		case t.Name != "":
			found = append(found, liveObject{t, value})
		default:
			items, _ := value["items"].([]any)
			for _, item := range items {
				one, _ := item.(map[string]any)
				o := t
				o.Name, _ = fieldOf(one, FieldPath{"metadata", "name"}).(string)
				if o.Name != "" && one["kind"] != nil {
					found = append(found, liveObject{o, one})
				}
			}
		}
	}
	return found, unread, nil
}

// restarts are the commands by which the pods that read a setting read it anew.
func (o liveObject) restarts() []string {
	in := sanitize.Shell(o.Namespace)
	switch {
	case o.workload != "":
		return []string{
			fmt.Sprintf("kubectl -n %s rollout restart %s", in, o.workload),
			fmt.Sprintf("kubectl -n %s rollout status %s", in, o.workload),
		}
	case o.Resource == "daemonsets":
		labels, _ := fieldOf(o.value, FieldPath{"spec", "selector", "matchLabels"}).(map[string]any)
		var terms []string
		for _, key := range slices.Sorted(maps.Keys(labels)) {
			terms = append(terms, fmt.Sprintf("%s=%v", key, labels[key]))
		}
		return []string{fmt.Sprintf("kubectl -n %s delete pod -l %s --field-selector spec.nodeName=NODE   # node by node", in, sanitize.Shell(strings.Join(terms, ",")))}
	}
	return nil
}

// rollsOut tells why writing to an object restarts pods by itself; empty: it does not.
func (o liveObject) rollsOut() string {
	switch o.Resource {
	case "deployments":
		return "a Deployment restarts its pods when its arguments change"
	case "daemonsets":
		if kind := fieldOf(o.value, FieldPath{"spec", "updateStrategy", "type"}); kind != "OnDelete" {
			return "this DaemonSet restarts its pods when its arguments change (updateStrategy RollingUpdate)"
		}
	}
	return ""
}
