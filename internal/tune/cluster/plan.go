package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/kube"
	"github.com/venturi-net/venturi/internal/kube/cni"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/tune"
)

// Plan is what a profile comes to in the API of a cluster.
type Plan struct {
	Planned []tune.Planned
	Skipped []tune.Skipped
	Changes []ObjectChange // that are written
	ByHand  []ObjectChange // that are left to a person
	Unread  []kube.UnreadObject
}

// ObjectChange is what changes in one object.
type ObjectChange struct {
	Object   cni.Object    `json:"object"`
	Fields   []FieldChange `json:"fields"`
	Diff     string        `json:"diff"`
	Restarts []string      `json:"restarts,omitempty"` // commands that bring it into effect
	// Why a person has to make the change, and the command for it; empty: we write it.
	Why     string `json:"why,omitempty"`
	Command string `json:"command,omitempty"`
	live    liveObject
}

// newPlan finds what the steps of a profile come to in objects.
func newPlan(profile tune.Profile, objects []liveObject) (*Plan, error) {
	texts := map[string]setting.Value{}
	var files []string
	for _, o := range objects {
		text, err := manifestOf(o.value)
		if err != nil {
			return nil, err
		}
		texts[o.file()] = setting.Value{Data: text, Present: true}
		files = append(files, o.file())
	}
	profile.Steps = slices.DeleteFunc(slices.Clone(profile.Steps), func(s tune.Step) bool { return s.On != tune.Manifests })
	m := machineOf(texts)
	assignments, skipped, err := profile.Assignments(m, tune.Targets{Manifests: files})
	if err != nil {
		return nil, err
	}
	assignments, open := tune.Settled(assignments)
	p := &Plan{Skipped: append(skipped, open...)}
	if p.Planned, err = tune.DryRun(m, assignments); err != nil {
		return nil, err
	}
	changes := tune.Total(p.Planned)
	for _, c := range changes {
		texts[c.Setting.Key] = c.New
	}
	for _, w := range assignments {
		if err := tune.CheckEffect(machineOf(texts), w); err != nil {
			return nil, err
		}
	}
	for _, c := range changes {
		i := slices.IndexFunc(objects, func(o liveObject) bool { return o.file() == c.Setting.Key })
		if err := p.add(objects[i], c); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// machineOf has texts as its files.
func machineOf(texts map[string]setting.Value) knob.Machine {
	return knob.Machine{Settings: setting.NewSettings(setting.Backend{
		Name:  "file",
		Read:  func(s setting.Setting) (setting.Value, error) { return texts[s.Key], nil },
		Write: func(setting.Setting, setting.Value) error { return errors.New("an object is not written as a file") },
	})}
}

// manifestOf is an object as a person would write it: without its state and the server's books.
func manifestOf(object map[string]any) ([]byte, error) {
	shown := map[string]any{}
	for key, v := range object {
		if key != "status" {
			shown[key] = integers(v)
		}
	}
	if metadata, ok := shown["metadata"].(map[string]any); ok {
		delete(metadata, "managedFields")
	}
	text, err := yaml.Marshal(shown)
	if err != nil {
		return nil, fmt.Errorf("write the object as a manifest: %w", err)
	}
	return text, nil
}

// integers gives a copy in which whole numbers are integers: JSON does not tell them apart.
func integers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		m := map[string]any{}
		for key, e := range v {
			m[key] = integers(e)
		}
		return m
	case []any:
		list := make([]any, len(v))
		for i, e := range v {
			list[i] = integers(e)
		}
		return list
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			return int64(v)
		}
	}
	return v
}

// add takes the change of one object into the plan.
func (p *Plan) add(o liveObject, c tune.Change) error {
	before, err := decodeManifest(c.Old.Data)
	if err != nil {
		return err
	}
	after, err := decodeManifest(c.New.Data)
	if err != nil {
		return err
	}
	change := ObjectChange{Object: o.Object, Fields: changedFields(before, after, nil), Restarts: o.restarts(), live: o,
		Diff: strings.ReplaceAll(c.Diff(), c.Setting.String(), strings.TrimPrefix(o.file(), "/"))}
	for i, f := range change.Fields {
		change.Fields[i].Owner = ownerOf(o.value, f.Path)
	}
	if change.Why = o.rollsOut(); change.Why == "" {
		p.Changes = append(p.Changes, change)
		return nil
	}
	if change.Command, err = change.patchCommand(); err != nil {
		return err
	}
	change.Restarts = nil
	p.ByHand = append(p.ByHand, change)
	return nil
}

// decodeManifest reads what manifestOf writes, with values of the types that JSON has.
func decodeManifest(text []byte) (object map[string]any, err error) {
	var any map[string]any
	if err := yaml.Unmarshal(text, &any); err != nil {
		return nil, fmt.Errorf("read the object back: %w", err)
	}
	asJSON, err := json.Marshal(any)
	if err != nil {
		return nil, fmt.Errorf("read the object back: %w", err)
	}
	return object, json.Unmarshal(asJSON, &object)
}

// patchCommand is the command by which a person makes a change.
func (c ObjectChange) patchCommand() (string, error) {
	var values []fieldValue
	for _, f := range c.Fields {
		values = append(values, fieldValue{f.Path, f.New})
	}
	ops, err := patchFor(c.live.value, values)
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(ops[1:]) // the first says of which version: a person may take longer
	if err != nil {
		return "", err
	}
	return sanitize.Command("kubectl", "-n", c.Object.Namespace, "patch", strings.TrimSuffix(c.Object.Resource, "s"), c.Object.Name, "--type", "json", "-p", string(text)), nil
}
