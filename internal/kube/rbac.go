package kube

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/venturi-net/venturi/internal/verr"
)

// right is what one may do with one kind of the API.
type right struct {
	resourceType
	verbs []string
	why   string
}

// runRights are those in the namespace of a run, for both levels.
var runRights = []right{
	{jobs, []string{"create", "delete", "list"}, "the Job that owns all else, and removes it"},
	{pods, []string{"create", "list"}, "the ends of traffic, or the agents on nodes"},
	{podsExec, []string{"create", "get"}, "the streams to agents; get is WebSocket's, create that of SPDY"},
	{services, []string{"create"}, "for the paths service and nodeport"},
}

// podRights are those in the namespaces of pods that are named by --from and --to.
var podRights = []right{{pods, []string{"get"}, "to learn on which node they are, and which address they have"}}

// namespaceRights are those in the whole cluster where a run has a namespace of its own.
var namespaceRights = []right{{namespaces, []string{"create", "delete", "list"}, "a namespace for each run, and the search for those that were left"}}

// scopedRights are rights in a namespace; in the whole cluster if it is empty.
type scopedRights struct {
	namespace string
	rights    []right
}

// needs lists the rights that a run takes. Without a namespace of the user's it looks for other
// runs in the whole cluster, and its own namespace is not there yet.
func (o Options) needs() (all []scopedRights) {
	if o.Namespace == "" {
		all = append(all, scopedRights{"", namespaceRights})
	}
	all = append(all, scopedRights{o.Namespace, runRights})
	for _, pod := range []string{o.From, o.To} {
		if in, _ := splitPod(pod); in != "" && !slices.ContainsFunc(all, func(s scopedRights) bool {
			return s.namespace == in && s.rights[0].verbs[0] == "get"
		}) {
			all = append(all, scopedRights{in, podRights})
		}
	}
	return all
}

// checkRights asks the API server for every right of a run, before anything is made. A server
// that does not tell is not asked again: what is missing then shows in the call.
func (c *Client) checkRights(ctx context.Context, all []scopedRights) error {
	var lacking []string
	for _, scope := range all {
		for _, r := range scope.rights {
			for _, verb := range r.verbs {
				allowed, err := c.allows(ctx, scope.namespace, r.resourceType, verb)
				if err != nil {
					return err
				}
				if !allowed {
					lacking = append(lacking, verb+" "+r.name+inNamespace(scope.namespace))
				}
			}
		}
	}
	if len(lacking) == 0 {
		return nil
	}
	return verr.New(verr.Permission, "cannot measure in the cluster", "you may not "+strings.Join(lacking, ", "),
		"`kubectl venturi rbac` prints the rights that are needed; ask for those, or name a namespace where you have them with -n")
}

func inNamespace(namespace string) string {
	if namespace == "" {
		return " in the whole cluster"
	}
	return " in namespace " + namespace
}

// allows asks whether one may.
func (c *Client) allows(ctx context.Context, namespace string, of resourceType, verb string) (bool, error) {
	name, sub, _ := strings.Cut(of.name, "/")
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: verb, Group: of.group, Resource: name, Subresource: sub}}}
	err := c.create(ctx, selfReviews, "", review, review, false)
	if verr.Code(err) == verr.Permission { // nobody is told what he may
		return true, nil
	}
	return review.Status.Allowed, err
}

// RBAC prints the Role that a run needs, ready for kubectl apply.
func (o Options) RBAC(user string) string {
	var b bytes.Buffer
	namespace := o.Namespace
	fmt.Fprintf(&b, "# What `kubectl venturi` needs at the level %q", o.Level)
	if namespace == "" {
		fmt.Fprintf(&b, ", with a namespace of its own for each run. With -n NAMESPACE a Role there is enough.\n")
	} else {
		fmt.Fprintf(&b, " in namespace %s.\n# The namespace has to allow PodSecurity %q: its label %s.\n", namespace, o.Level.PodSecurity(), securityLabel)
	}
	if o.Level == Node {
		fmt.Fprintf(&b, "# Agents on nodes: hostNetwork, hostPID, all capabilities dropped but SYS_ADMIN and SYS_PTRACE,\n"+
			"# a read-only root, no token of a service account, not privileged.\n")
	}
	if namespace == "" {
		writeRole(&b, "ClusterRole", "", slices.Concat(namespaceRights, runRights, o.foreignRights()), user)
		return b.String()
	}
	for i, scope := range o.needs() {
		if i > 0 {
			b.WriteString("---\n")
		}
		writeRole(&b, "Role", scope.namespace, scope.rights, user)
	}
	return b.String()
}

// foreignRights are those to pods that are there, if some are named.
func (o Options) foreignRights() []right {
	if o.From == "" {
		return nil
	}
	return podRights
}

// writeRole writes a role as YAML, and whom it is for.
func writeRole(b *bytes.Buffer, kind, namespace string, rights []right, user string) {
	in := ""
	if namespace != "" {
		in = ", namespace: " + namespace
	}
	fmt.Fprintf(b, "apiVersion: rbac.authorization.k8s.io/v1\nkind: %s\nmetadata: {name: venturi%s}\nrules:\n", kind, in)
	for _, r := range rights {
		fmt.Fprintf(b, "- apiGroups: [%q]\n  resources: [%s]\n  verbs: [%s] # %s\n", r.group, r.name, strings.Join(r.verbs, ", "), r.why)
	}
	fmt.Fprintf(b, "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: %sBinding\nmetadata: {name: venturi%s}\n"+
		"roleRef: {apiGroup: rbac.authorization.k8s.io, kind: %s, name: venturi}\n"+
		"subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: %q}]\n", kind, in, kind, user)
}
