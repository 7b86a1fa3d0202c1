package kube

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/venturi-net/venturi/internal/kube/cni"
	"github.com/venturi-net/venturi/internal/sanitize"
)

// TunedObject is an object whose settings are tuned, or, if it is not writable, planned only.
type TunedObject struct {
	cni.Object
	Writable bool
}

// ledgerRights are those to the cluster's own journal.
var ledgerRights = []right{
	{configMaps, []string{"create"}, "the cluster's journal of changes, ConfigMap " + LedgerName, nil},
	{configMaps, []string{"get", "update", "delete"}, "its entries", []string{LedgerName}},
}

// tuneRights are the rights to objects, by namespaces; "" is the whole cluster.
func tuneRights(objects []TunedObject) (all []scopedRights) {
	for _, o := range objects {
		scope := slices.IndexFunc(all, func(s scopedRights) bool { return s.namespace == o.Namespace })
		if scope < 0 {
			scope = len(all)
			all = append(all, scopedRights{o.Namespace, nil})
		}
		all[scope].rights = mergeRight(all[scope].rights, o)
	}
	return all
}

// mergeRight adds the rights to one object: with those to others of its kind, where they are the same.
func mergeRight(rights []right, o TunedObject) []right {
	r := right{resourceType{o.Group, o.Resource}, []string{"get"}, "the settings of the network plugin", nil}
	if o.Name == "" {
		r.verbs = append(r.verbs, "list")
	} else {
		r.names = []string{o.Name}
	}
	if o.Writable {
		r.verbs = append(r.verbs, "patch")
	}
	for i, b := range rights {
		if b.resourceType == r.resourceType && slices.Equal(b.verbs, r.verbs) && len(b.names) > 0 && len(r.names) > 0 {
			rights[i].names = append(rights[i].names, o.Name)
			return rights
		}
	}
	return append(rights, r)
}

// tuneNeeds lists the rights to tune objects: those that are named here, and the journal.
func tuneNeeds(objects []TunedObject) []scopedRights {
	all := tuneRights(objects)
	for i, s := range all {
		if s.namespace == LedgerNamespace {
			all[i].rights = slices.Concat(s.rights, ledgerRights)
			return all
		}
	}
	return append(all, scopedRights{LedgerNamespace, ledgerRights})
}

// CheckTuning asks the API server for every right that it takes to change objects, before anything
// is changed.
func (c *Client) CheckTuning(ctx context.Context, objects []TunedObject) error {
	return c.checkRights(ctx, tuneNeeds(objects))
}

// trialNeeds lists the rights of the service account whose pod undoes a trial in a namespace: to the
// objects that were written, to their entry in the journal, and, withNodes, to reach nodes by pods in
// that namespace.
func trialNeeds(namespace string, objects []TunedObject, withNodes bool) []scopedRights {
	written := slices.DeleteFunc(slices.Clone(objects), func(o TunedObject) bool { return !o.Writable })
	all := tuneRights(written)
	for _, scope := range all {
		for i, r := range scope.rights {
			scope.rights[i].verbs = slices.DeleteFunc(r.verbs, func(verb string) bool { return verb == "list" })
		}
	}
	all = append(all, scopedRights{LedgerNamespace, ledgerRights[1:]})
	if withNodes {
		all = append(all, scopedRights{namespace, agentRights}, scopedRights{"", nodeRights})
	}
	return joinScopes(all)
}

// CheckTrial asks the API server for every right that it takes to undo a trial.
func (c *Client) CheckTrial(ctx context.Context, o Options, objects []TunedObject, withNodes bool) error {
	return c.checkRights(ctx, trialNeeds(o.Namespace, objects, withNodes))
}

// TuneRBAC prints what tuning needs: of a cluster's objects, and of its nodes. For a trial, it also
// prints the service account that undoes it, with rights of its own.
func (o Options) TuneRBAC(user string, objects []TunedObject, trial bool) string {
	var b bytes.Buffer
	o.Level = Node
	o.writeTuneHead(&b)
	scopes := o.nodeNeeds()
	if trial {
		scopes = append(scopes, scopedRights{o.Namespace, []right{{jobs, []string{"delete"}, "the Job of a trial that does not begin", []string{TrialName}}}})
	}
	writeRoles(&b, tuneRoleName, joinScopes(append(scopes, tuneNeeds(objects)...)), userSubject(user))
	if trial {
		o.writeTrialAccount(&b, objects)
	}
	return b.String()
}

// writeTrialAccount writes the service account of trials, with the namespace for it, unless the user
// named one.
func (o Options) writeTrialAccount(b *bytes.Buffer, objects []TunedObject) {
	in := cmp.Or(o.Namespace, TrialName)
	sanitize.Fprintf(b, "---\n# The service account whose pod undoes a trial. It creates pods in namespace %s only; but as that has to\n"+
		"# allow privileged ones, whoever may use the account, or create pods there, is as good as root on the nodes.\n", in)
	if o.Namespace == "" {
		sanitize.Fprintf(b, "apiVersion: v1\nkind: Namespace\nmetadata: {name: %s, labels: {%s: %s}}\n---\n", in, securityLabel, o.Level.PodSecurity())
	}
	sanitize.Fprintf(b, "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: %s, namespace: %s}\n---\n", TrialName, in)
	writeRoles(b, TrialName, trialNeeds(in, objects, true), fmt.Sprintf("{kind: ServiceAccount, name: %s, namespace: %s}", TrialName, in))
}

// joinScopes puts the rights in one namespace together, in the order of the first ones.
func joinScopes(scopes []scopedRights) (all []scopedRights) {
	for _, s := range scopes {
		i := slices.IndexFunc(all, func(b scopedRights) bool { return b.namespace == s.namespace })
		if i < 0 {
			all = append(all, scopedRights{s.namespace, nil})
			i = len(all) - 1
		}
		all[i].rights = append(all[i].rights, s.rights...)
	}
	return all
}
