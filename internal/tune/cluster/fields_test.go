package cluster

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/testenv"
)

func decoded(t *testing.T, text string) (object map[string]any) {
	t.Helper()
	testenv.Must(t, json.Unmarshal([]byte(text), &object))
	return object
}

// workload is an object with a list whose elements have names, and one that is taken as a whole.
const workload = `{"apiVersion":"apps/v1","kind":"DaemonSet","metadata":{"name":"a","namespace":"n","resourceVersion":"7",
"managedFields":[
 {"manager":"helm","time":"2026-01-02T03:04:05Z","fieldsV1":{"f:spec":{"f:containers":{"k:{\"name\":\"x\"}":{"f:args":{}}},"f:mode":{},"f:limits":{}}}},
 {"manager":"argocd","time":"2026-02-02T03:04:05Z","fieldsV1":{"f:spec":{"f:mode":{}}}}]},
"spec":{"mode":"old","a/b":1,"limits":{"cpu":1},"containers":[{"name":"w"},{"name":"x","image":"i","args":["--a"]}]}}`

// The fields in which two objects differ are found one by one, are what is applied and nothing
// else, and a patch brings the old values back.
func TestFields(t *testing.T) {
	before := decoded(t, workload)
	after := decoded(t, strings.NewReplacer(`"--a"`, `"--b"`, `"mode":"old",`, "", `"a/b":1`, `"a/b":2,"new":{"c":true}`).Replace(workload))
	fields := changedFields(before, after, nil)
	var told []string
	for _, f := range fields {
		told = append(told, fmt.Sprintf("%s %v %v", f.Path, f.Old, f.New))
	}
	if got := strings.Join(told, "; "); got != "spec.a/b 1 2; spec.containers[x].args [--a] [--b]; spec.mode old <nil>; spec.new <nil> map[c:true]" {
		t.Errorf("found %s", got)
	}
	config, _ := json.Marshal(applyConfig(before, []FieldChange{fields[0], fields[1], fields[3]}))
	if string(config) != `{"apiVersion":"apps/v1","kind":"DaemonSet","metadata":{"name":"a","namespace":"n","resourceVersion":"7"},"spec":{"a/b":2,"containers":[{"args":["--b"],"name":"x"}],"new":{"c":true}}}` {
		t.Errorf("applied: %s", config)
	}
	if !reflect.DeepEqual(before, decoded(t, workload)) {
		t.Error("the object that was read has changed")
	}
	var back []fieldValue
	for _, f := range fields {
		back = append(back, fieldValue{f.Path, f.Old})
	}
	ops, err := patchFor(after, back)
	testenv.Must(t, err)
	patch, _ := json.Marshal(ops)
	if string(patch) != `[{"op":"test","path":"/metadata/resourceVersion","value":"7"},{"op":"add","path":"/spec/a~1b","value":1},{"op":"add","path":"/spec/containers/1/args","value":["--a"]},`+
		`{"op":"add","path":"/spec/mode","value":"old"},{"op":"remove","path":"/spec/new"}]` {
		t.Errorf("patch: %s", patch)
	}
	if _, err := patchFor(decoded(t, `{"spec":{"containers":[]}}`), back); err == nil {
		t.Error("an element that is gone is patched")
	}
}

// Whoever has a field is found: by itself, in a list, or as a part of what is taken as a whole.
func TestManagers(t *testing.T) {
	object := decoded(t, workload)
	for path, owner := range map[string]string{"spec mode": "argocd", "spec containers [x] args": "helm", "spec containers [w] args": "", "spec limits cpu": "helm", "spec a/b": "", "status": ""} {
		if got := ownerOf(object, strings.Fields(path)); got != owner {
			t.Errorf("%s: %q, want %q", path, got, owner)
		}
	}
	if by := claimant(object, FieldPath{"spec", "mode"}, "argocd"); by == nil || by.name != "helm" || by.time.Year() != 2026 {
		t.Errorf("beside argocd: %+v", by)
	}
}
