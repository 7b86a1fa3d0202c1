package cluster

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/venturi-net/venturi/internal/kube"
)

// FieldPath are the keys that lead to a field of an object. One in brackets is the element of that
// name in a list whose elements have names.
type FieldPath []string

// String is the path as a person reads it: "spec.containers[agent].args".
func (p FieldPath) String() string { return strings.ReplaceAll(strings.Join(p, "."), ".[", "[") }

// FieldChange is a field that a tuning changes. nil is the value of one that is absent.
type FieldChange struct {
	Path FieldPath `json:"path"`
	Old  any       `json:"old"`
	New  any       `json:"new"`
	// Owner is the field manager that had the field; empty: none.
	Owner string `json:"owner,omitempty"`
}

// changedFields lists the fields in which two objects differ.
func changedFields(old, new any, at FieldPath) []FieldChange {
	if reflect.DeepEqual(old, new) {
		return nil
	}
	a, aMap := old.(map[string]any)
	b, bMap := new.(map[string]any)
	var all []FieldChange
	if aMap && bMap {
		keys := maps.Clone(a)
		maps.Copy(keys, b)
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			all = append(all, changedFields(a[key], b[key], append(slices.Clone(at), key))...)
		}
		return all
	}
	x, y := elementNames(old), elementNames(new)
	if x == nil || !slices.Equal(x, y) {
		return []FieldChange{{Path: at, Old: old, New: new}}
	}
	for i, name := range x {
		all = append(all, changedFields(old.([]any)[i], new.([]any)[i], append(slices.Clone(at), "["+name+"]"))...)
	}
	return all
}

// elementNames are the names of a list's elements; nil: it is none, or they have no names.
func elementNames(list any) (names []string) {
	all, _ := list.([]any)
	for _, e := range all {
		m, _ := e.(map[string]any)
		name, _ := m["name"].(string)
		if name == "" {
			return nil
		}
		names = append(names, name)
	}
	return names
}

// elementName is the name in a key in brackets; empty: it is none.
func elementName(key string) string {
	if name, ok := strings.CutPrefix(key, "["); ok {
		return strings.TrimSuffix(name, "]")
	}
	return ""
}

// fieldOf gives the value of a field; nil: it is absent.
func fieldOf(object any, path FieldPath) any {
	for _, key := range path {
		if name := elementName(key); name != "" {
			list, _ := object.([]any)
			i := slices.Index(elementNames(object), name)
			if i < 0 {
				return nil
			}
			object = list[i]
			continue
		}
		m, _ := object.(map[string]any)
		object = m[key]
	}
	return object
}

// withField gives an object with a field set, and what leads to it.
func withField(object any, path FieldPath, value any) any {
	if len(path) == 0 {
		return value
	}
	if name := elementName(path[0]); name != "" {
		list, _ := object.([]any)
		if i := slices.Index(elementNames(object), name); i >= 0 {
			list[i] = withField(list[i], path[1:], value)
			return list
		}
		return append(list, withField(map[string]any{"name": name}, path[1:], value))
	}
	m, _ := object.(map[string]any)
	if m == nil {
		m = map[string]any{}
	}
	m[path[0]] = withField(m[path[0]], path[1:], value)
	return m
}

// applyConfig is what a field manager has to apply for the new values, to the object as it was read
// and no other.
func applyConfig(object map[string]any, fields []FieldChange) map[string]any {
	config := map[string]any{"apiVersion": object["apiVersion"], "kind": object["kind"]}
	metadata := map[string]any{}
	for _, key := range []string{"name", "namespace", "resourceVersion"} {
		if v := fieldOf(object, FieldPath{"metadata", key}); v != nil {
			metadata[key] = v
		}
	}
	config["metadata"] = metadata
	for _, f := range fields {
		withField(config, f.Path, f.New)
	}
	return config
}

// fieldValue is what a field shall hold; nil: it shall be absent.
type fieldValue struct {
	path  FieldPath
	value any
}

// patchFor is what makes fields of an object hold values, if it still is as it was read.
func patchFor(object map[string]any, values []fieldValue) (ops []kube.PatchOp, err error) {
	ops = append(ops, kube.PatchOp{Op: "test", Path: "/metadata/resourceVersion", Value: fieldOf(object, FieldPath{"metadata", "resourceVersion"})})
	for _, v := range values {
		at, err := pointerTo(object, v.path)
		switch {
		case err != nil:
			return nil, err
		case v.value != nil:
			ops = append(ops, kube.PatchOp{Op: "add", Path: at, Value: v.value}) // replaces one that is there
		case fieldOf(object, v.path) != nil:
			ops = append(ops, kube.PatchOp{Op: "remove", Path: at})
		}
	}
	return ops, nil
}

// pointerTo is the JSON pointer to a field.
func pointerTo(object any, path FieldPath) (string, error) {
	var b strings.Builder
	for i, key := range path {
		if name := elementName(key); name != "" {
			at := slices.Index(elementNames(fieldOf(object, path[:i])), name)
			if at < 0 {
				return "", fmt.Errorf("%s: there is no element %s any more", path[:i], name)
			}
			key = strconv.Itoa(at)
		}
		b.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(key))
	}
	return b.String(), nil
}

// fieldManager is who has a field, by the API server's books.
type fieldManager struct {
	name string
	time time.Time // when it last changed something in the object
}

// managersOf gives the managers of a field, the last one first.
func managersOf(object map[string]any, path FieldPath) (all []fieldManager) {
	entries, _ := fieldOf(object, FieldPath{"metadata", "managedFields"}).([]any)
	for _, e := range entries {
		entry, _ := e.(map[string]any)
		if !manages(entry["fieldsV1"], path) {
			continue
		}
		m := fieldManager{}
		m.name, _ = entry["manager"].(string)
		text, _ := entry["time"].(string)
		m.time, _ = time.Parse(time.RFC3339, text)
		all = append(all, m)
	}
	slices.SortStableFunc(all, func(a, b fieldManager) int { return b.time.Compare(a.time) })
	return all
}

// manages tells whether a set of fields has one: itself, or as a part of what is taken as a whole.
func manages(fields any, path FieldPath) bool {
	set, _ := fields.(map[string]any)
	for i, key := range path {
		if len(set) == 0 {
			return i > 0
		}
		step := "f:" + key
		if name := elementName(key); name != "" {
			step = `k:{"name":` + strconv.Quote(name) + `}`
		}
		next, there := set[step].(map[string]any)
		if !there {
			return false
		}
		set = next
	}
	return true
}

// ownPrefix begins the names of our field managers: each transaction has its own, because what a
// manager leaves out of what it applies is taken from the object.
const ownPrefix = "venturi-tune-"

// ownerOf is the manager that had a field before us; empty: none.
func ownerOf(object map[string]any, path FieldPath) string {
	for _, m := range managersOf(object, path) {
		return m.name
	}
	return ""
}

// claimant is somebody else who has a field now that we have written; nil: nobody.
func claimant(object map[string]any, path FieldPath, own string) *fieldManager {
	for _, m := range managersOf(object, path) {
		if m.name != own {
			return &m
		}
	}
	return nil
}
