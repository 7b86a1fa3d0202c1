package yamledit

import (
	"errors"
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"
)

// textEdit is one change of a text, and what it shall mean.
type textEdit struct {
	from, to int      // these bytes
	text     string   // become these
	pos      NodePath // where the meaning changes
	change   textChange
	value    []*meaning // what is there then
}

// textChange is how a meaning changes at a place.
type textChange int

const (
	replaceNode textChange = iota // the node there becomes another one
	addNodes                      // nodes come in before the place
	removeNodes                   // as many nodes go as there are in value
)

// apply carries out an edit. Error: the text would then mean anything but the
// same with this one change; nothing is changed then.
func (f *File) apply(e textEdit) error {
	text := slices.Concat(f.Text[:e.from], []byte(e.text), f.Text[e.to:])
	after, err := Parse(text)
	if err != nil {
		return fmt.Errorf("the file would not be readable any more: %w", err)
	}
	want, err := f.meaning()
	if err != nil {
		return err
	}
	list := &want.parts
	for _, i := range e.pos[:len(e.pos)-1] {
		list = &(*list)[i].parts
	}
	i := e.pos[len(e.pos)-1]
	switch e.change {
	case replaceNode:
		*list = slices.Replace(*list, i, i+1, e.value...)
	case addNodes:
		*list = slices.Insert(*list, i, e.value...)
	case removeNodes:
		*list = slices.Delete(*list, i, i+len(e.value))
	}
	got, err := after.meaning()
	if err != nil {
		return err
	}
	if !got.equal(want) {
		return errors.New("more than this one value would change: it is written in a way that only a person should edit, or other places refer to it")
	}
	*f = *after
	return nil
}

// meaning is what a node says, whatever it looks like: aliases are resolved.
type meaning struct {
	kind  yaml.Kind
	tag   string
	text  string
	parts []*meaning
}

// maxNodes is how many nodes a file may have when all its aliases are resolved: they
// can be nested so that none would fit into memory.
const maxNodes = 1 << 20

// meaning is that of the whole file.
func (f *File) meaning() (*meaning, error) {
	left := maxNodes
	var of func(n *yaml.Node, depth int) *meaning
	of = func(n *yaml.Node, depth int) *meaning {
		n = Resolve(n)
		m := &meaning{kind: n.Kind}
		if left--; left < 0 || depth > 1000 {
			left = -1
			return m
		}
		if n.Kind == yaml.ScalarNode {
			m.tag, m.text = n.ShortTag(), n.Value
		}
		for _, c := range n.Content {
			m.parts = append(m.parts, of(c, depth+1))
		}
		return m
	}
	all := &meaning{}
	for _, doc := range f.Docs {
		all.parts = append(all.parts, of(doc, 0))
	}
	if left < 0 {
		return nil, errors.New("it is too large, or its aliases are nested without end")
	}
	return all, nil
}

func (m *meaning) equal(o *meaning) bool {
	return m.kind == o.kind && m.tag == o.tag && m.text == o.text && slices.EqualFunc(m.parts, o.parts, (*meaning).equal)
}

// Scalar is a value to be written.
type Scalar struct {
	Text string
	Bare bool // a number or true or false of YAML itself; else a string, whatever it looks like
}

func (s Scalar) meaning() *meaning {
	m := &meaning{kind: yaml.ScalarNode, tag: "!!str", text: s.Text}
	if s.Bare {
		m.tag = (&yaml.Node{Kind: yaml.ScalarNode, Value: s.Text}).ShortTag()
	}
	return m
}

// nestedMeaning is the meaning of a value below keys: {a: {b: value}} for "a", "b".
func nestedMeaning(keys []string, s Scalar) []*meaning {
	key := Scalar{Text: keys[0]}.meaning()
	if len(keys) == 1 {
		return []*meaning{key, s.meaning()}
	}
	return []*meaning{key, {kind: yaml.MappingNode, parts: nestedMeaning(keys[1:], s)}}
}
