package kube

import (
	"bytes"
	"context"
	"slices"

	"github.com/venturi-net/venturi/internal/kube/cni"
)

// TunedObject is an object whose settings are tuned, or, if it is not writable, planned only.
type TunedObject struct {
	cni.Object
	Writable bool
}

// ledgerRights are those to the cluster's own journal.
var ledgerRights = []right{
	{configMaps, []string{"create"}, "the cluster's journal of changes, ConfigMap " + LedgerName, nil},
	{configMaps, []string{"get", "update", "delete"}, "likewise", []string{LedgerName}},
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

// TuneRBAC prints what tuning needs: of a cluster's objects, and of its nodes.
func (o Options) TuneRBAC(user string, objects []TunedObject) string {
	var b bytes.Buffer
	o.Level = Node
	o.writeTuneHead(&b)
	scopes := append(o.nodeNeeds(), tuneNeeds(objects)...)
	writeRoles(&b, tuneRoleName, joinScopes(scopes), user)
	return b.String()
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
