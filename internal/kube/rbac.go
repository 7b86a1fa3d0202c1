package kube

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/internal/verr"
)

// right is what one may do with one kind of the API.
type right struct {
	resourceType
	verbs []string
	why   string
	names []string // of the objects; empty: all
}

// agentRights are those in the namespace of agents.
var agentRights = []right{
	{jobs, []string{"create", "list"}, "the Job that owns all else, and removes it", nil},
	{jobs, []string{"delete"}, "likewise", []string{claimName}},
	{pods, []string{"create", "list"}, "the ends of traffic, or the agents on nodes", nil},
	{podsExec, []string{"create", "get"}, "the streams to agents; get is WebSocket's, create that of SPDY", nil},
}

// serviceRights are what a comparison needs beside.
var serviceRights = []right{{services, []string{"create"}, "for the paths service and nodeport", nil}}

// nodeRights are what an examination of nodes needs beside, in the whole cluster.
var nodeRights = []right{{nodes, []string{"list"}, "the nodes, and their addresses", nil}}

// configRights are rights to read the settings of network plugins. Where one is missing, the
// report says what was not read.
func configRights() (all []right) {
	for _, o := range configObjects() {
		r := right{resourceType{o.Group, o.Resource}, []string{"list"}, "the settings of the network plugin", nil}
		if o.Name != "" {
			r.verbs, r.names = []string{"get"}, []string{o.Name}
		}
		same := slices.IndexFunc(all, func(b right) bool {
			return b.resourceType == r.resourceType && (len(b.names) > 0) == (len(r.names) > 0)
		})
		switch {
		case same < 0:
			all = append(all, r)
		case len(r.names) > 0 && !slices.Contains(all[same].names, o.Name):
			all[same].names = append(all[same].names, o.Name)
		}
	}
	return all
}

// podRights are those in the namespaces of pods that are named by --from and --to.
var podRights = []right{{pods, []string{"get"}, "to learn on which node they are, and which address they have", nil}}

// namespaceRights are those in the whole cluster where a run has a namespace of its own.
var namespaceRights = []right{
	{namespaces, []string{"create", "list"}, "a namespace for each run, and the search for those that were left", nil},
	{namespaces, []string{"delete"}, "likewise", []string{claimName}},
}

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
	all = append(all, scopedRights{o.Namespace, slices.Concat(agentRights, serviceRights)})
	for _, pod := range []string{o.From, o.To} {
		if in, _ := splitPod(pod); in != "" && !slices.ContainsFunc(all, func(s scopedRights) bool {
			return s.namespace == in && s.rights[0].verbs[0] == "get"
		}) {
			all = append(all, scopedRights{in, podRights})
		}
	}
	return all
}

// nodeNeeds lists the rights without which nodes cannot be examined.
func (o Options) nodeNeeds() (all []scopedRights) {
	if o.Namespace == "" {
		all = append(all, scopedRights{"", namespaceRights})
	}
	return append(all, scopedRights{o.Namespace, agentRights}, scopedRights{"", nodeRights})
}

// checkRights asks the API server for every right of a run, before anything is made. A server
// that does not tell is not asked again: what is missing then shows in the call.
func (c *Client) checkRights(ctx context.Context, all []scopedRights) error {
	var lacking []string
	for _, scope := range all {
		for _, r := range scope.rights {
			for _, verb := range r.verbs {
				missing, err := c.lacks(ctx, scope.namespace, r, verb)
				if err != nil {
					return err
				}
				for _, what := range missing {
					lacking = append(lacking, verb+" "+what+inNamespace(scope.namespace))
				}
			}
		}
	}
	if len(lacking) == 0 {
		return nil
	}
	return verr.New(verr.Permission, "cannot use the cluster", "you lack the rights to "+strings.Join(lacking, ", "),
		"ask an administrator to apply what `kubectl venturi rbac` prints for this command, or name a namespace where you have these rights with -n")
}

func inNamespace(namespace string) string {
	if namespace == "" {
		return " in the whole cluster"
	}
	return " in namespace " + namespace
}

// lacks names the objects to which a right is missing, or their kind.
func (c *Client) lacks(ctx context.Context, namespace string, r right, verb string) (missing []string, err error) {
	if len(r.names) == 0 {
		allowed, err := c.allows(ctx, namespace, r.resourceType, verb, "")
		if !allowed {
			missing = []string{r.name}
		}
		return missing, err
	}
	for _, name := range r.names {
		allowed, err := c.allows(ctx, namespace, r.resourceType, verb, name)
		if err != nil {
			return nil, err
		}
		if !allowed {
			missing = append(missing, r.name+"/"+name)
		}
	}
	return missing, nil
}

// allows asks whether one may, with one object or with all of its kind.
func (c *Client) allows(ctx context.Context, namespace string, of resourceType, verb, object string) (bool, error) {
	name, sub, _ := strings.Cut(of.name, "/")
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: verb, Group: of.group, Resource: name, Subresource: sub, Name: object}}}
	err := c.create(ctx, selfReviews, "", review, review)
	if verr.Code(err) == verr.Permission { // nobody is told what he may
		return true, nil
	}
	return review.Status.Allowed, err
}

// RBAC prints the Role that a comparison needs, ready for kubectl apply.
func (o Options) RBAC(user string) string {
	var b bytes.Buffer
	o.writeHead(&b, "SYS_ADMIN and SYS_PTRACE", "With -n NAMESPACE, a Role there is enough.")
	if o.Namespace == "" {
		writeRole(&b, roleName, "", slices.Concat(namespaceRights, agentRights, serviceRights, o.foreignRights()), userSubject(user))
		return b.String()
	}
	writeRoles(&b, roleName, o.needs(), userSubject(user))
	return b.String()
}

// NodesRBAC prints what an examination of nodes needs.
func (o Options) NodesRBAC(user string) string {
	var b bytes.Buffer
	o.Level = Node
	o.writeHead(&b, "SYS_ADMIN, SYS_PTRACE and NET_ADMIN", "With -n NAMESPACE, the rights in the whole cluster are read-only.")
	writeRoles(&b, nodesRoleName, joinScopes(append(o.nodeNeeds(), scopedRights{"", configRights()})), userSubject(user))
	return b.String()
}

// writeTuneHead says in comments what tuning needs beside API rights.
func (o Options) writeTuneHead(b *bytes.Buffer) {
	b.WriteString("# What `kubectl venturi tune` and `undo` need. Without --cluster, the rights in " + LedgerNamespace + " to the ConfigMap\n" +
		"# " + LedgerName + " are enough there; without --host and --dev, no pods are created and no nodes listed.\n" +
		"# Agents on nodes are privileged, with hostNetwork and hostPID: they change the node as root there may.\n")
	if o.Namespace != "" {
		sanitize.Fprintf(b, "# Namespace %s must allow PodSecurity %q: its label %s.\n", o.Namespace, o.Level.PodSecurity(), securityLabel)
	}
	o.writeReach(b)
}

// MeshRBAC prints what measuring between all nodes needs.
func (o Options) MeshRBAC(user string) string {
	var b bytes.Buffer
	o.writeHead(&b, "SYS_ADMIN and SYS_PTRACE", "With -n NAMESPACE, the only right in the whole cluster is to list nodes.")
	writeRoles(&b, meshRoleName, joinScopes(o.nodeNeeds()), userSubject(user))
	return b.String()
}

// writeHead says in comments what a Role does not: what pods have to be allowed.
func (o Options) writeHead(b *bytes.Buffer, capabilities, otherwise string) {
	sanitize.Fprintf(b, "# What `kubectl venturi` needs at the level %q", o.Level)
	if o.Namespace == "" {
		sanitize.Fprintf(b, ", with a new namespace for each run. %s\n", otherwise)
	} else {
		sanitize.Fprintf(b, " in namespace %s.\n# The namespace must allow PodSecurity %q: its label %s.\n", o.Namespace, o.Level.PodSecurity(), securityLabel)
	}
	if o.Level == Node {
		sanitize.Fprintf(b, "# Agents on nodes: hostNetwork, hostPID, all capabilities dropped but %s,\n"+
			"# a read-only root, no token of a service account, not privileged.\n", capabilities)
	}
	o.writeReach(b)
}

// writeReach says in comments how far the rights go: who creates pods has what a pod can have, and who runs
// commands in one may do what that may.
func (o Options) writeReach(b *bytes.Buffer) {
	switch {
	case o.Level == Node:
		b.WriteString("# Whoever has these rights is as good as root on every node: the namespace has to allow privileged pods.\n")
		if o.Namespace == "" {
			b.WriteString("# -n NAMESPACE does not change that.\n")
		}
	case o.Namespace == "":
		b.WriteString("# Whoever has these rights is as good as root on every node: they create pods, and run commands in pods, in\n" +
			"# all namespaces. With -n NAMESPACE they do so there alone, which is less only where that namespace enforces\n" +
			"# PodSecurity \"baseline\" or \"restricted\".\n")
	default:
		b.WriteString("# Whoever has these rights runs commands in all pods of the namespace, and creates pods there: root on every\n" +
			"# node unless the namespace enforces PodSecurity \"baseline\" or \"restricted\". Pods also use the Secrets and\n" +
			"# service accounts of the namespace.\n")
	}
}

// foreignRights are those to pods that are there, if some are named.
func (o Options) foreignRights() []right {
	if o.From == "" {
		return nil
	}
	return podRights
}

// Names of the roles: who applies both keeps both.
const (
	roleName      = "venturi"
	nodesRoleName = "venturi-doctor"
	tuneRoleName  = "venturi-tune"
	meshRoleName  = "venturi-mesh"
)

// userSubject is a user as the subject of a role.
func userSubject(user string) string {
	return fmt.Sprintf("{apiGroup: rbac.authorization.k8s.io, kind: User, name: %q}", user)
}

func writeRoles(b *bytes.Buffer, name string, scopes []scopedRights, subjects string) {
	for i, scope := range scopes {
		if i > 0 {
			b.WriteString("---\n")
		}
		writeRole(b, name, scope.namespace, scope.rights, subjects)
	}
}

// writeRole writes a role as YAML, and whom it is for: one for the whole cluster if namespace
// is empty.
func writeRole(b *bytes.Buffer, name, namespace string, rights []right, subjects string) {
	kind, in := "ClusterRole", ""
	if namespace != "" {
		kind, in = "Role", ", namespace: "+namespace
	}
	sanitize.Fprintf(b, "apiVersion: rbac.authorization.k8s.io/v1\nkind: %s\nmetadata: {name: %s%s}\nrules:\n", kind, name, in)
	for _, r := range rights {
		sanitize.Fprintf(b, "- apiGroups: [%q]\n  resources: [%s]\n", r.group, r.name)
		if len(r.names) > 0 {
			sanitize.Fprintf(b, "  resourceNames: [%s]\n", strings.Join(r.names, ", "))
		}
		sanitize.Fprintf(b, "  verbs: [%s] # %s\n", strings.Join(r.verbs, ", "), r.why)
	}
	sanitize.Fprintf(b, "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: %sBinding\nmetadata: {name: %s%s}\n"+
		"roleRef: {apiGroup: rbac.authorization.k8s.io, kind: %s, name: %s}\n"+
		"subjects: [%s]\n", kind, name, in, kind, name, subjects)
}
