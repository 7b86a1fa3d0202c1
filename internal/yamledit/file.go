package yamledit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// File is the text of a YAML file with what a parser finds in it, so that
// single values can be changed and every other byte stays.
type File struct {
	Text  []byte
	Docs  []*yaml.Node // each of kind DocumentNode
	lines []int        // where each line of the text begins
}

// ErrTemplate is wrapped by the error of a file that is to become YAML only.
var ErrTemplate = errors.New("it is a template")

// Parse reads a file. Error: it is not YAML in UTF-8, or nobody can tell what it means.
func Parse(text []byte) (*File, error) {
	f := &File{Text: text, lines: []int{0}}
	if !utf8.Valid(text) || bytes.IndexByte(text, 0) >= 0 {
		return nil, errors.New("it is not text in UTF-8")
	}
	if bytes.HasPrefix(text, []byte("\ufeff")) {
		f.lines[0] = len("\ufeff") // the parser counts columns behind it
	}
	for i, b := range text {
		if b == '\n' {
			f.lines = append(f.lines, i+1)
		}
	}
	// To a YAML parser these end a line too; nobody's editor agrees.
	rest := strings.ReplaceAll(string(text), "\r\n", "\n")
	if strings.ContainsAny(rest, "\r\u0085\u2028\u2029") {
		return nil, errors.New("it has line ends that are neither of Unix nor of Windows")
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var doc yaml.Node
		err := d.Decode(&doc)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil && bytes.Contains(text, []byte("{{")) {
			return nil, fmt.Errorf("%w: %w", ErrTemplate, err)
		}
		if err != nil {
			return nil, fmt.Errorf("it is not YAML: %w", err)
		}
		if doc.Kind == yaml.DocumentNode {
			f.Docs = append(f.Docs, &doc)
		}
	}
	for _, doc := range f.Docs {
		if err := checkKeys(doc); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// checkKeys refuses what the parser lets pass and no program reads as it is meant:
// "{{ .Values.x }}" without quotes, which is a mapping that is the key of another
// one, and a key that stands twice.
func checkKeys(n *yaml.Node) error {
	if n.Kind == yaml.MappingNode {
		seen := map[string]bool{}
		for i := 0; i < len(n.Content); i += 2 {
			key := n.Content[i]
			if key.Kind == yaml.MappingNode {
				return ErrTemplate
			}
			if seen[key.Value] && key.Kind == yaml.ScalarNode {
				return fmt.Errorf("line %d: key %q is there twice", key.Line, key.Value)
			}
			seen[key.Value] = true
		}
	}
	for _, c := range n.Content {
		if err := checkKeys(c); err != nil {
			return err
		}
	}
	return nil
}

// NodePath is where a node is: indexes into Content, from the list of documents on.
type NodePath []int

func (p NodePath) Child(i ...int) NodePath { return append(slices.Clone(p), i...) }

// Node gives the node of a place.
func (f *File) Node(p NodePath) *yaml.Node {
	n := f.Docs[p[0]]
	for _, i := range p[1:] {
		n = n.Content[i]
	}
	return n
}

// IndexOf gives the index of a key in a mapping, -1 if it is not there.
func IndexOf(n *yaml.Node, key string) int {
	if n.Kind != yaml.MappingNode {
		return -1
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key && n.Content[i].Kind == yaml.ScalarNode {
			return i
		}
	}
	return -1
}

// Lookup gives the value of a key, its own or one that it is merged from.
func Lookup(n *yaml.Node, key string) *yaml.Node {
	return lookupMerged(n, key, map[*yaml.Node]bool{})
}

// lookupMerged is [Lookup] with the mappings that were searched before: a
// mapping may be merged into itself, and one into many that are merged in turn.
func lookupMerged(n *yaml.Node, key string, searched map[*yaml.Node]bool) *yaml.Node {
	n = Resolve(n)
	if searched[n] {
		return nil
	}
	searched[n] = true
	if i := IndexOf(n, key); i >= 0 {
		return Resolve(n.Content[i+1])
	}
	i := IndexOf(n, "<<")
	if i < 0 || n.Content[i].ShortTag() != "!!merge" {
		return nil
	}
	from := []*yaml.Node{Resolve(n.Content[i+1])}
	if from[0].Kind == yaml.SequenceNode {
		from = from[0].Content
	}
	for _, m := range from {
		if v := lookupMerged(m, key, searched); v != nil {
			return v
		}
	}
	return nil
}

// Resolve is the node that an alias stands for; any other stands for itself.
func Resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode && n.Alias != nil {
		return n.Alias
	}
	return n
}

// ScalarAt is the text at a path of keys, "" if there is none.
func ScalarAt(n *yaml.Node, keys ...string) string {
	for _, k := range keys {
		if n = Lookup(n, k); n == nil {
			return ""
		}
	}
	if n.Kind != yaml.ScalarNode {
		return ""
	}
	return n.Value
}

// offset is where in the text a node begins. The parser counts characters.
func (f *File) offset(n *yaml.Node) (int, error) {
	if n.Line < 1 || n.Line > len(f.lines) {
		return 0, fmt.Errorf("line %d is not in the file", n.Line)
	}
	at := f.lines[n.Line-1]
	for range n.Column - 1 {
		if at >= len(f.Text) {
			return 0, fmt.Errorf("line %d is shorter than the parser says", n.Line)
		}
		_, size := utf8.DecodeRune(f.Text[at:])
		at += size
	}
	return at, nil
}

// span is where the text of a scalar begins and ends, with its quotes, without
// an anchor or a tag before it.
func (f *File) span(n *yaml.Node) (from, to int, err error) {
	if from, err = f.offset(n); err != nil {
		return 0, 0, err
	}
	strange := fmt.Errorf("line %d: %q is written in a way that only a person should edit", n.Line, n.Value)
	if n.Kind == yaml.AliasNode {
		to = from + len("*"+n.Value)
		if to > len(f.Text) || string(f.Text[from:to]) != "*"+n.Value {
			return 0, 0, strange
		}
		return from, to, nil
	}
	for from < len(f.Text) && (n.Anchor != "" && f.Text[from] == '&' || n.Style&yaml.TaggedStyle != 0 && f.Text[from] == '!') {
		blank := bytes.IndexByte(f.Text[from:], ' ')
		if blank < 0 {
			return 0, 0, strange
		}
		from += blank
		for from < len(f.Text) && f.Text[from] == ' ' {
			from++
		}
	}
	switch {
	case n.Kind != yaml.ScalarNode || n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		return 0, 0, strange
	case n.Style&yaml.DoubleQuotedStyle != 0:
		to = quotedEnd(f.Text, from, '"', '\\')
	case n.Style&yaml.SingleQuotedStyle != 0:
		to = quotedEnd(f.Text, from, '\'', '\'')
	default:
		to = from + len(n.Value)
		if to > len(f.Text) || string(f.Text[from:to]) != n.Value {
			to = -1
		}
	}
	if to < 0 || bytes.IndexByte(f.Text[from:to], '\n') >= 0 {
		return 0, 0, strange
	}
	return from, to, nil
}

// quotedEnd gives the end of a text in quotes, -1 if there is none. Behind escape,
// the next byte is not what it looks like.
func quotedEnd(text []byte, from int, quote, escape byte) int {
	if from >= len(text) || text[from] != quote {
		return -1
	}
	for i := from + 1; i < len(text); i++ {
		doubled := escape == quote && i+1 < len(text) && text[i+1] == quote
		switch {
		case text[i] == escape && (escape != quote || doubled):
			i++
		case text[i] == quote:
			return i + 1
		}
	}
	return -1
}
