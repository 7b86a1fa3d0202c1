// Package cni knows the network plugins of Kubernetes clusters: by which objects of the API
// one shows itself, and which of its settings decide how packets go. It reads nothing itself.
package cni

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Plugin is a line of the table.
type Plugin struct {
	Name string
	// Objects are those that it is known by, and that hold its settings. One is enough.
	Objects []Object
	// Devices are those that it makes on a node; with a * at the end, all whose names begin so.
	Devices []string
	// Settings reads what the objects say that are there.
	Settings func(APIObjects) []PluginSetting
}

// Table lists the plugins. A new one is one file and one line here.
var Table = []Plugin{flannel, calico, cilium, kubeOVN, antrea, ovnKubernetes, kubeRouter, weave}

// Object names an object of the API, or all of one kind where it has no name.
type Object struct {
	Group     string `json:"group"`
	Version   string `json:"version"`
	Resource  string `json:"resource"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// String is what kubectl calls it.
func (o Object) String() string {
	text := strings.TrimSuffix(o.Resource+"."+o.Group, ".")
	for _, part := range []string{o.Namespace, o.Name} {
		if part != "" {
			text += "/" + part
		}
	}
	return text
}

func configMap(namespace, name string) Object {
	return Object{"", "v1", "configmaps", namespace, name}
}

// APIObjects are objects that are there, as the API gives them.
type APIObjects map[Object]map[string]any

// PluginSetting is one setting of a plugin.
type PluginSetting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	From  string `json:"from"` // the object that it is in
}

// Shows tells whether a plugin has an object that is there.
func (p Plugin) Shows(found APIObjects) bool {
	return slices.ContainsFunc(p.Objects, func(o Object) bool {
		items, isList := found[o]["items"].([]any)
		return found[o] != nil && (!isList || len(items) > 0)
	})
}

// Makes tells whether a device of a node is one of the plugin's.
func (p Plugin) Makes(device string) bool {
	return slices.ContainsFunc(p.Devices, func(name string) bool {
		prefix, any := strings.CutSuffix(name, "*")
		return device == name || any && strings.HasPrefix(device, prefix)
	})
}

// field follows keys into an object; nil: they lead nowhere.
func field(object any, keys ...string) any {
	for _, key := range keys {
		m, _ := object.(map[string]any)
		object = m[key]
	}
	return object
}

// items are the objects of a list.
func (f APIObjects) items(o Object) []any {
	items, _ := f[o]["items"].([]any)
	return items
}

// text gives an entry of a ConfigMap.
func (f APIObjects) text(o Object, key string) string {
	text, _ := field(f[o], "data", key).(string)
	return text
}

// settings gives those fields of an object that have a value, by their last keys.
func settings(from Object, object any, paths ...string) (all []PluginSetting) {
	for _, path := range paths {
		keys := strings.Split(path, ".")
		if value := field(object, keys...); value != nil && value != "" {
			all = append(all, PluginSetting{keys[len(keys)-1], fmt.Sprint(value), from.String()})
		}
	}
	return all
}

// structured reads JSON or YAML in an entry of a ConfigMap; nil: it is neither.
func structured(text string) any {
	var object any
	if json.Unmarshal([]byte(text), &object) != nil && yaml.Unmarshal([]byte(text), &object) != nil {
		return nil
	}
	return object
}

// arguments gives some of the arguments, --NAME=VALUE, that a Deployment or DaemonSet starts
// its containers with.
func arguments(from Object, workload any, names ...string) (all []PluginSetting) {
	containers, _ := field(workload, "spec", "template", "spec", "containers").([]any)
	for _, container := range containers {
		var words []any
		for _, key := range []string{"command", "args"} {
			more, _ := field(container, key).([]any)
			words = append(words, more...)
		}
		for _, word := range words {
			name, value, given := strings.Cut(strings.TrimLeft(fmt.Sprint(word), "-"), "=")
			if slices.Contains(names, name) {
				if !given {
					value = "true"
				}
				all = append(all, PluginSetting{name, value, from.String()})
			}
		}
	}
	return all
}

// environment gives some of the variables that a DaemonSet sets for its containers.
func environment(from Object, workload any, names ...string) (all []PluginSetting) {
	containers, _ := field(workload, "spec", "template", "spec", "containers").([]any)
	for _, container := range containers {
		variables, _ := field(container, "env").([]any)
		for _, variable := range variables {
			name, _ := field(variable, "name").(string)
			if value, plain := field(variable, "value").(string); plain && slices.Contains(names, name) {
				all = append(all, PluginSetting{name, value, from.String()})
			}
		}
	}
	return all
}
