package kube

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// patched carries out a JSON patch.
func patched(object map[string]any, patch []byte) (map[string]any, error) {
	var ops []PatchOp
	if err := json.Unmarshal(patch, &ops); err != nil {
		return nil, err
	}
	var whole any = object
	for _, op := range ops {
		keys := strings.Split(strings.TrimPrefix(op.Path, "/"), "/")
		for i, key := range keys {
			keys[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(key)
		}
		var err error
		if whole, err = patchedAt(whole, keys, op); err != nil {
			return nil, fmt.Errorf("%s %s: %w", op.Op, op.Path, err)
		}
	}
	return whole.(map[string]any), nil
}

func patchedAt(at any, keys []string, op PatchOp) (any, error) {
	if list, ok := at.([]any); ok {
		var i int
		if _, err := fmt.Sscan(keys[0], &i); err != nil || i >= len(list) || len(keys) == 1 {
			return nil, fmt.Errorf("there is no element %s", keys[0])
		}
		var err error
		list[i], err = patchedAt(list[i], keys[1:], op)
		return list, err
	}
	m, ok := at.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("there is nothing at %s", keys[0])
	}
	now, there := m[keys[0]]
	var err error
	switch {
	case len(keys) > 1:
		m[keys[0]], err = patchedAt(now, keys[1:], op)
	case op.Op == "test" && !reflect.DeepEqual(now, op.Value):
		err = fmt.Errorf("it is %v", now)
	case op.Op == "remove" && !there:
		err = fmt.Errorf("it is absent")
	case op.Op == "remove":
		delete(m, keys[0])
	case op.Op == "add":
		m[keys[0]] = op.Value
	}
	return m, err
}
