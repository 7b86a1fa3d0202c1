package knob

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/venturi-net/venturi/internal/verr"
)

// mappingSettings are settings that are keys of an object.
type mappingSettings struct {
	f        *manifest
	pos      nodePath                  // of the object
	keys     func(key string) []string // the way to a setting in it
	strings  bool                      // all values are strings, "true" too
	fragment bool                      // of [fileSettings.partial]
}

func (s mappingSettings) get(key string) (string, bool) {
	n := s.f.node(s.pos)
	for _, k := range s.keys(key) {
		if n = lookupKey(n, k); n == nil {
			return "", false
		}
	}
	if n.Kind != yaml.ScalarNode || n.ShortTag() == "!!null" {
		return "", false
	}
	return n.Value, true
}

func (s mappingSettings) set(key, text string) error {
	v := scalar{text: text}
	v.bare = !s.strings && (&yaml.Node{Kind: yaml.ScalarNode, Value: text}).ShortTag() != "!!str"
	return s.f.set(s.pos, s.keys(key), v)
}

func (s mappingSettings) drop(key string) error { return s.f.drop(s.pos, s.keys(key)) }
func (s mappingSettings) partial() bool         { return s.fragment }

// belowKeys gives the way to keys that are below others in the same object.
func belowKeys(prefix ...string) func(string) []string {
	return func(key string) []string { return append(slices.Clone(prefix), strings.Split(key, ".")...) }
}

// inData is the way to keys that may have dots in them.
func inData(prefix ...string) func(string) []string {
	return func(key string) []string { return append(slices.Clone(prefix), key) }
}

// the gives the one object of a kind, and of a name if name is not empty.
func (f *manifest) the(kind, name string) (object, error) {
	var found []object
	for _, o := range f.objects() {
		if o.kind == kind && (name == "" || o.name == name) {
			found = append(found, o)
		}
	}
	what := strings.TrimSpace(kind + " " + name)
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return object{}, verr.New(verr.Missing, "cannot find "+what, "the file has no such object"+f.has(), "name the file that it is in")
	}
	var lines []string
	for _, o := range found {
		lines = append(lines, fmt.Sprint(o.node.Line))
	}
	return object{}, verr.New(verr.Usage, "cannot tell which "+what+" is meant",
		fmt.Sprintf("the file has %d of them, at lines %s", len(found), strings.Join(lines, ", ")), "put them into files of their own")
}

// has lists a few of the objects that a file has.
func (f *manifest) has() string {
	var names []string
	for _, o := range f.objects() {
		if o.kind != "" {
			names = append(names, strings.TrimSpace(o.kind+" "+o.name))
		}
	}
	switch {
	case len(names) == 0:
		return ""
	case len(names) > 3:
		return fmt.Sprintf("; it has %s and %d more", strings.Join(names[:3], ", "), len(names)-3)
	}
	return "; it has " + strings.Join(names, ", ")
}

// argumentSettings are settings that are arguments of a program in a container.
type argumentSettings struct {
	f        *manifest
	pos      nodePath // of the list
	separate bool     // "--name" may have its value in the next item
}

// argumentsOf finds the arguments of a container of a workload.
func (f *manifest) argumentsOf(kind, name, container string) (argumentSettings, error) {
	o, err := f.the(kind, name)
	if err != nil {
		return argumentSettings{}, err
	}
	at, err := f.container(o, container)
	if err != nil {
		return argumentSettings{}, err
	}
	n := f.node(at)
	for _, key := range []string{"args", "command"} {
		if i := indexOf(n, key); i >= 0 && n.Content[i+1].Kind == yaml.SequenceNode {
			return argumentSettings{f: f, pos: at.child(i + 1)}, nil
		}
	}
	return argumentSettings{}, verr.New(verr.Missing, "cannot find the arguments of "+container, "its container has none in this file", "add args to it")
}

// container finds one of a workload: by its name, or it is the only one.
func (f *manifest) container(o object, name string) (nodePath, error) {
	at, n := o.pos, o.node
	for _, key := range []string{"spec", "template", "spec", "containers"} {
		i := indexOf(n, key)
		if i < 0 || n.Content[i+1].Kind == yaml.AliasNode {
			return nil, verr.New(verr.Missing, "cannot find container "+name, fmt.Sprintf("%s %s has no %s of its own", o.kind, o.name, key), "name the file that has all of it")
		}
		at, n = at.child(i+1), n.Content[i+1]
	}
	var found []nodePath
	for i, c := range n.Content {
		if scalarAt(c, "name") == name {
			return at.child(i), nil
		}
		found = append(found, at.child(i))
	}
	if len(found) == 1 {
		return found[0], nil
	}
	return nil, verr.New(verr.Missing, "cannot find container "+name, fmt.Sprintf("%s %s has %d, none of that name", o.kind, o.name, len(found)), "name the file of the program's own release")
}

func (s argumentSettings) get(key string) (string, bool) {
	i, value, _ := argument(s.f.node(s.pos).Content, key, s.separate)
	return value, i >= 0
}

func (s argumentSettings) set(key, text string) error {
	list := s.f.node(s.pos).Content
	i, _, two := argument(list, key, s.separate)
	switch {
	case arguments(list, key) > 1:
		return fmt.Errorf("--%s is given twice", key)
	case i < 0:
		return s.f.addItem(s.pos, "--"+key+"="+text)
	case two:
		return s.f.setItem(s.pos, i+1, text)
	}
	return s.f.setItem(s.pos, i, "--"+key+"="+text)
}

func (s argumentSettings) drop(key string) error {
	list := s.f.node(s.pos).Content
	i, _, two := argument(list, key, s.separate)
	switch {
	case i < 0:
		return nil
	case arguments(list, key) > 1:
		return fmt.Errorf("--%s is given twice", key)
	case two:
		if err := s.f.dropItem(s.pos, i+1); err != nil {
			return err
		}
	}
	return s.f.dropItem(s.pos, i)
}

func (s argumentSettings) partial() bool { return false }
