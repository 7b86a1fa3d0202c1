package k8s

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/internal/yamledit"
)

// mappingSettings are settings that are keys of an object.
type mappingSettings struct {
	f        manifest
	pos      yamledit.NodePath         // of the object
	keys     func(key string) []string // the way to a setting in it
	strings  bool                      // all values are strings, "true" too
	fragment bool                      // of [settings.partial]
}

func (s mappingSettings) get(key string) (string, bool) {
	n := s.f.Node(s.pos)
	for _, k := range s.keys(key) {
		if n = yamledit.Lookup(n, k); n == nil {
			return "", false
		}
	}
	if n.Kind != yaml.ScalarNode || n.ShortTag() == "!!null" {
		return "", false
	}
	return n.Value, true
}

func (s mappingSettings) set(key, text string) error {
	v := yamledit.Scalar{Text: text}
	v.Bare = !s.strings && (&yaml.Node{Kind: yaml.ScalarNode, Value: text}).ShortTag() != "!!str"
	return s.f.Set(s.pos, s.keys(key), v)
}

func (s mappingSettings) drop(key string) error { return s.f.Drop(s.pos, s.keys(key)) }
func (s mappingSettings) partial() bool         { return s.fragment }

// nestedKey gives the way to keys that are below others in the same object.
func nestedKey(prefix ...string) func(string) []string {
	return func(key string) []string { return append(slices.Clone(prefix), strings.Split(key, ".")...) }
}

// dottedKey is the way to keys that may have dots in them.
func dottedKey(prefix ...string) func(string) []string {
	return func(key string) []string { return append(slices.Clone(prefix), key) }
}

// findOne gives the one object of a kind, and of a name if name is not empty.
func (f manifest) findOne(kind, name string) (object, error) {
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
		return object{}, verr.New(verr.Missing, "cannot find "+what, "the file has no such object"+f.listObjects(), "name the file that it is in")
	}
	var lines []string
	for _, o := range found {
		lines = append(lines, fmt.Sprint(o.node.Line))
	}
	return object{}, verr.New(verr.Usage, "cannot tell which "+what+" is meant",
		fmt.Sprintf("the file has %d of them, at lines %s", len(found), strings.Join(lines, ", ")), "put them into files of their own")
}

// listObjects lists a few of the objects that a file has.
func (f manifest) listObjects() string {
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
	f        manifest
	pos      yamledit.NodePath // of the list
	separate bool              // "--name" may have its value in the next item
}

// argumentsOf finds the arguments of a container of a workload.
func (f manifest) argumentsOf(kind, name, container string) (argumentSettings, error) {
	o, err := f.findOne(kind, name)
	if err != nil {
		return argumentSettings{}, err
	}
	at, err := f.container(o, container)
	if err != nil {
		return argumentSettings{}, err
	}
	n := f.Node(at)
	for _, key := range []string{"args", "command"} {
		if i := yamledit.IndexOf(n, key); i >= 0 && n.Content[i+1].Kind == yaml.SequenceNode {
			return argumentSettings{f: f, pos: at.Child(i + 1)}, nil
		}
	}
	return argumentSettings{}, verr.New(verr.Missing, "cannot find the arguments of "+container, "its container has none in this file", "add args to it")
}

// container finds one of a workload: by its name, or it is the only one.
func (f manifest) container(o object, name string) (yamledit.NodePath, error) {
	at, n := o.pos, o.node
	for _, key := range []string{"spec", "template", "spec", "containers"} {
		i := yamledit.IndexOf(n, key)
		if i < 0 || n.Content[i+1].Kind == yaml.AliasNode {
			return nil, verr.New(verr.Missing, "cannot find container "+name, fmt.Sprintf("%s %s has no %s of its own", o.kind, o.name, key), "name the file that has all of it")
		}
		at, n = at.Child(i+1), n.Content[i+1]
	}
	var found []yamledit.NodePath
	for i, c := range n.Content {
		if yamledit.ScalarAt(c, "name") == name {
			return at.Child(i), nil
		}
		found = append(found, at.Child(i))
	}
	if len(found) == 1 {
		return found[0], nil
	}
	return nil, verr.New(verr.Missing, "cannot find container "+name, fmt.Sprintf("%s %s has %d, none of that name", o.kind, o.name, len(found)), "name the file of the program's own release")
}

func (s argumentSettings) get(key string) (string, bool) {
	i, value, _ := findArgument(s.f.Node(s.pos).Content, key, s.separate)
	return value, i >= 0
}

func (s argumentSettings) set(key, text string) error {
	list := s.f.Node(s.pos).Content
	i, _, two := findArgument(list, key, s.separate)
	switch {
	case countArguments(list, key) > 1:
		return fmt.Errorf("--%s is given twice", key)
	case i < 0:
		return s.f.AddItem(s.pos, "--"+key+"="+text)
	case two:
		return s.f.SetItem(s.pos, i+1, text)
	}
	return s.f.SetItem(s.pos, i, "--"+key+"="+text)
}

func (s argumentSettings) drop(key string) error {
	list := s.f.Node(s.pos).Content
	i, _, two := findArgument(list, key, s.separate)
	switch {
	case i < 0:
		return nil
	case countArguments(list, key) > 1:
		return fmt.Errorf("--%s is given twice", key)
	case two:
		if err := s.f.DropItem(s.pos, i+1); err != nil {
			return err
		}
	}
	return s.f.DropItem(s.pos, i)
}

func (s argumentSettings) partial() bool { return false }

// findArgument finds an argument of a program in a list: "--name=value", "--name",
// or "--name" and the value as the next item where separate allows it.
func findArgument(list []*yaml.Node, name string, separate bool) (i int, value string, two bool) {
	for i, n := range list {
		n = yamledit.Resolve(n)
		text, found := strings.CutPrefix(n.Value, "--"+name)
		switch {
		case !found || n.Kind != yaml.ScalarNode:
		case strings.HasPrefix(text, "="):
			return i, text[1:], false
		case text == "" && separate && i+1 < len(list):
			return i, yamledit.Resolve(list[i+1]).Value, true
		case text == "":
			return i, "true", false
		}
	}
	return -1, "", false
}

// countArguments tells how often one is given: the last would count.
func countArguments(list []*yaml.Node, name string) (count int) {
	for len(list) > 0 {
		i, _, _ := findArgument(list, name, false)
		if i < 0 {
			break
		}
		count++
		list = slices.Clone(list[i+1:])
	}
	return count
}
