package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/venturi-net/venturi/internal/kube"
	"github.com/venturi-net/venturi/internal/verr"
)

// restoreLimit bounds the undoing of what an interrupted or failed command has changed.
const restoreLimit = time.Minute

// record notes what a plan changes, before any of it is changed: the fields alone. Whoever may read
// the journal need not be who may read the objects.
func (t *ClusterTxn) record(changes []ObjectChange) {
	for _, c := range changes {
		t.Objects = append(t.Objects, RecordedObject{Object: c.Object, Fields: c.Fields})
	}
}

// write makes the changes of all objects. Error: some or all of them are not made. The end of ctx
// interrupts no call: what becomes of one that is under way would not be known.
func (t *ClusterTxn) write(ctx context.Context, client *kube.Client, changes []ObjectChange) error {
	for _, c := range changes {
		if ctx.Err() != nil {
			break
		}
		if err := t.writeObject(context.WithoutCancel(ctx), client, c); err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// writeObject changes one object, if it still is as it was when the change was planned. Values are
// applied; what is to be absent cannot be, where another manager has it, and is patched away.
func (t *ClusterTxn) writeObject(ctx context.Context, client *kube.Client, c ObjectChange) (err error) {
	var sets []FieldChange
	var drops []fieldValue
	for _, f := range c.Fields {
		if f.New == nil {
			drops = append(drops, fieldValue{f.Path, nil})
		} else {
			sets = append(sets, f)
		}
	}
	now := c.live.value
	if len(sets) > 0 {
		if now, err = client.ApplyObject(ctx, c.Object, t.manager(), applyConfig(now, sets)); err != nil {
			t.doubt = !kube.IsRefusal(err)
			return err
		}
	}
	if len(drops) > 0 {
		ops, err := patchFor(now, drops)
		if err != nil {
			return err
		}
		if now, err = client.PatchObject(ctx, c.Object, t.manager(), ops); err != nil {
			t.doubt = !kube.IsRefusal(err)
			return err
		}
	}
	for _, f := range c.Fields {
		if got := fieldOf(now, f.Path); !reflect.DeepEqual(got, f.New) {
			return verr.New(verr.Failed, fmt.Sprintf("cannot set %s of %s", f.Path, c.Object), fmt.Sprintf("it was set to %s, but the API server stored %s", asText(f.New), asText(got)),
				"something in the cluster changes what is written (an admission webhook, or the object's schema): set it there")
		}
	}
	return nil
}

// asText is a value as a person reads it.
func asText(v any) string {
	if v == nil {
		return "absent"
	}
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(text)
}

// RestoreOptions say what undo does where somebody else has changed a field since.
type RestoreOptions struct {
	Force bool // overwrite it with the old value
	Leave bool // let it stand, and forget the change
}

// FieldOutcome is what became of one field, or of a whole object, in an undo.
type FieldOutcome struct {
	Object string `json:"object"`
	Field  string `json:"field,omitempty"`
	State  string `json:"state"` // restored, unchanged, conflict, left, gone
	Reason string `json:"reason,omitempty"`
}

// States of fields in an undo.
const (
	stateRestored  = "restored"
	stateUnchanged = "unchanged" // it was never written, or has its old value again
	stateConflict  = "conflict"
	stateLeft      = "left"
	stateGone      = "gone"
)

// restore undoes the changes of all objects, the last first. What somebody else has changed since
// stays, and in the transaction. Error: some could not be undone.
func (t *ClusterTxn) restore(ctx context.Context, client *kube.Client, how RestoreOptions) (outcomes []FieldOutcome, err error) {
	var left []RecordedObject
	var failed []error
	for _, o := range slices.Backward(t.Objects) {
		told, conflicts, err := t.restoreObject(ctx, client, o, how)
		outcomes = append(outcomes, told...)
		if err != nil {
			failed, conflicts = append(failed, err), o.Fields
		}
		o.Fields = conflicts
		if len(conflicts) > 0 {
			left = append(left, o)
		}
	}
	slices.Reverse(left)
	t.Objects = left
	return outcomes, errors.Join(failed...)
}

// restoreTries is how often an object is tried that somebody else writes meanwhile.
const restoreTries = 4

// restoreObject undoes the changes of one object, as far as they stand. left are the fields that
// somebody else has changed.
func (t *ClusterTxn) restoreObject(ctx context.Context, client *kube.Client, o RecordedObject, how RestoreOptions) (outcomes []FieldOutcome, left []FieldChange, err error) {
	for range restoreTries {
		var object map[string]any
		if object, err = client.GetObject(ctx, o.Object); kube.IsNotFound(err) {
			return []FieldOutcome{{o.Object.String(), "", stateGone, "the object is not there any more"}}, nil, nil
		}
		if err != nil {
			return nil, nil, err
		}
		var back []FieldChange
		outcomes, back, left = t.planRestore(object, o, how)
		if object, err = t.putBack(ctx, client, o, object, back); err == nil && len(left) == 0 {
			err = t.release(ctx, client, o, object)
		}
		if err == nil || verr.Code(err) == verr.Permission || ctx.Err() != nil {
			return outcomes, left, err
		}
	}
	return nil, nil, err
}

// planRestore says of each field what undo does with it: put it back, leave it, or nothing.
func (t *ClusterTxn) planRestore(object map[string]any, o RecordedObject, how RestoreOptions) (outcomes []FieldOutcome, back, left []FieldChange) {
	for _, f := range o.Fields {
		now, by := fieldOf(object, f.Path), claimant(object, f.Path, t.manager())
		told := FieldOutcome{Object: o.Object.String(), Field: f.Path.String()}
		ours := reflect.DeepEqual(now, f.New) && by == nil
		switch {
		case reflect.DeepEqual(now, f.Old):
			told.State = stateUnchanged
		case ours || how.Force:
			told.State = stateRestored
			told.Reason = asText(f.Old)
			back = append(back, f)
		case how.Leave:
			told.State, told.Reason = stateLeft, conflictReason(f, now, by)
		default:
			told.State, told.Reason = stateConflict, conflictReason(f, now, by)
			left = append(left, f)
		}
		outcomes = append(outcomes, told)
	}
	return outcomes, back, left
}

// conflictReason tells who has changed a field since.
func conflictReason(f FieldChange, now any, by *fieldManager) string {
	who := "somebody"
	if by != nil {
		who = by.name + " (" + by.time.UTC().Format(time.DateTime) + " UTC)"
	}
	if reflect.DeepEqual(now, f.New) {
		return fmt.Sprintf("%s has claimed it, too: it was %s, and is %s", who, asText(f.Old), asText(now))
	}
	return fmt.Sprintf("%s has changed it: it was %s, we wrote %s, it is %s", who, asText(f.Old), asText(f.New), asText(now))
}

// putBack writes the old values of fields, for the managers that had them before.
func (t *ClusterTxn) putBack(ctx context.Context, client *kube.Client, o RecordedObject, object map[string]any, fields []FieldChange) (map[string]any, error) {
	byOwner := map[string][]fieldValue{}
	for _, f := range fields {
		owner := f.Owner
		if owner == "" {
			owner = t.manager()
		}
		byOwner[owner] = append(byOwner[owner], fieldValue{f.Path, f.Old})
	}
	for _, owner := range slices.Sorted(maps.Keys(byOwner)) {
		ops, err := patchFor(object, byOwner[owner])
		if err != nil {
			return nil, err
		}
		if object, err = client.PatchObject(ctx, o.Object, owner, ops); err != nil {
			return nil, err
		}
	}
	for _, f := range fields {
		if got := fieldOf(object, f.Path); !reflect.DeepEqual(got, f.Old) {
			return nil, verr.New(verr.Failed, fmt.Sprintf("cannot restore %s of %s", f.Path, o.Object), fmt.Sprintf("it was set to %s, but the API server stored %s", asText(f.Old), asText(got)),
				"find out what in the cluster changes it, and run undo again")
		}
	}
	return object, nil
}

// release has our field manager manage nothing any more: by applying an element of a list it has
// its name, too, which nobody else may take away then.
func (t *ClusterTxn) release(ctx context.Context, client *kube.Client, o RecordedObject, object map[string]any) error {
	entries, _ := fieldOf(object, FieldPath{"metadata", "managedFields"}).([]any)
	if !slices.ContainsFunc(entries, func(e any) bool { return fieldOf(e, FieldPath{"manager"}) == t.manager() }) {
		return nil
	}
	_, err := client.ApplyObject(ctx, o.Object, t.manager(), applyConfig(object, nil))
	return err
}
