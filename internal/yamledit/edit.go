package yamledit

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Set makes the value below a mapping another one: it changes the text of the
// scalar there, in the quotes that it has, or adds a line in the style of its
// neighbours.
func (f *File) Set(at NodePath, keys []string, s Scalar) error {
	n := f.Node(at)
	switch n.Kind {
	case yaml.MappingNode:
	case yaml.AliasNode:
		return fmt.Errorf("line %d: it is *%s, which stands elsewhere in the file", n.Line, n.Value)
	default:
		return fmt.Errorf("line %d: it is no mapping", n.Line)
	}
	i := IndexOf(n, keys[0])
	switch {
	case i < 0 && n.Style&yaml.FlowStyle != 0:
		return f.addInFlow(at, n, keys, s)
	case i < 0:
		return f.addLine(at, n, keys, s)
	case isEmpty(n.Content[i+1]):
		return f.fillEmpty(at.Child(i+1), n, i, keys[1:], s)
	case len(keys) > 1:
		return f.Set(at.Child(i+1), keys[1:], s)
	}
	return f.replace(at.Child(i+1), isFlow(n), s)
}

// isEmpty tells whether nothing is written where a value could be ("key:").
func isEmpty(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && n.Value == "" && n.Style == 0 && n.Anchor == ""
}

func isFlow(n *yaml.Node) bool { return n.Style&yaml.FlowStyle != 0 }

// replace writes another scalar where one is.
func (f *File) replace(at NodePath, flow bool, s Scalar) error {
	n := f.Node(at)
	from, to, err := f.span(n)
	if err != nil {
		return err
	}
	if strings.Contains(n.Value, "{{") {
		return ErrTemplate
	}
	return f.apply(textEdit{from: from, to: to, text: s.render(n.Style, flow), pos: at, change: replaceNode, value: []*meaning{s.meaning()}})
}

// fillEmpty writes a value behind a key that has none.
func (f *File) fillEmpty(at NodePath, n *yaml.Node, i int, belowKeys []string, s Scalar) error {
	_, end, err := f.span(n.Content[i])
	if err != nil {
		return err
	}
	colon := end + strings.IndexByte(string(f.Text[end:]), ':')
	if colon < end || strings.TrimSpace(string(f.Text[end:colon])) != "" {
		return fmt.Errorf("line %d: there is no value", n.Content[i].Line)
	}
	value, text := s.meaning(), s.render(0, isFlow(n))
	if len(belowKeys) > 0 {
		value = &meaning{kind: yaml.MappingNode, parts: nestedMeaning(belowKeys, s)}
		text = renderFlow(belowKeys, s, 0)
	}
	return f.apply(textEdit{from: colon + 1, to: colon + 1, text: " " + text, pos: at, change: replaceNode, value: []*meaning{value}})
}

// addLine adds a key to a mapping of lines, behind the last neighbour that is
// one line, or else before the first.
func (f *File) addLine(at NodePath, n *yaml.Node, keys []string, s Scalar) error {
	if len(n.Content) == 0 {
		return fmt.Errorf("line %d: it is empty", n.Line)
	}
	indent := strings.Repeat(" ", n.Content[0].Column-1)
	end := f.lineEnd()
	keyStyle, style := commonStyles(n)
	text := indent + renderText(keys[0], keyStyle, false) + ":"
	for i, k := range keys[1:] {
		text += end + indent + strings.Repeat("  ", i+1) + renderText(k, keyStyle, false) + ":"
	}
	text += " " + s.render(style, false)
	for i := len(n.Content) - 2; i >= 0; i -= 2 {
		if from, to, err := f.line(n.Content[i], n.Content[i+1]); err == nil {
			if to > from && f.Text[to-1] == '\n' {
				text += end
			} else {
				text = end + text
			}
			return f.apply(textEdit{from: to, to: to, text: text, pos: at.Child(i + 2), change: addNodes, value: nestedMeaning(keys, s)})
		}
	}
	first, err := f.offset(n.Content[0])
	if err != nil {
		return err
	}
	line := n.Content[0].Line - 1
	if strings.TrimSpace(string(f.Text[f.lines[line]:first])) != "" {
		return fmt.Errorf("line %d: there is no line to add %s to", n.Line, strings.Join(keys, "."))
	}
	for line > 0 && strings.HasPrefix(strings.TrimSpace(string(f.Text[f.lines[line-1]:f.lines[line]])), "#") {
		line-- // a comment belongs to what follows
	}
	return f.apply(textEdit{from: f.lines[line], to: f.lines[line], text: text + end, pos: at.Child(0), change: addNodes, value: nestedMeaning(keys, s)})
}

// line gives the whole lines of an entry: its key (nil: it has none) is the first
// on a line, a simple value the last on the same one.
func (f *File) line(key, value *yaml.Node) (from, to int, err error) {
	first := value
	if key != nil {
		first = key
	}
	start, err := f.offset(first)
	if err != nil {
		return 0, 0, err
	}
	_, to, err = f.span(value)
	if isEmpty(value) {
		_, to, err = f.span(first)
	}
	if err != nil {
		return 0, 0, err
	}
	from = f.lines[first.Line-1]
	for to < len(f.Text) && f.Text[to] != '\n' {
		to++
	}
	if to < len(f.Text) {
		to++
	}
	if first.Line < len(f.lines) && to != f.lines[first.Line] || first.Line == len(f.lines) && to != len(f.Text) {
		return 0, 0, fmt.Errorf("line %d: it is more than one line", first.Line)
	}
	if !linePrefix.Match(f.Text[from:start]) {
		return 0, 0, fmt.Errorf("line %d: something stands before it", first.Line)
	}
	return from, to, nil
}

// linePrefix is what may stand before what is the first on a line.
var linePrefix = regexp.MustCompile(`^(\x{feff})?[ ]*(- +)*$`)

// addInFlow adds a key to a mapping in braces, as its first.
func (f *File) addInFlow(at NodePath, n *yaml.Node, keys []string, s Scalar) error {
	open, err := f.offset(n)
	if err != nil {
		return err
	}
	open += strings.IndexByte(string(f.Text[open:]), '{')
	keyStyle, style := commonStyles(n)
	text := renderFlow(keys, s, keyStyle|style)
	text = text[1 : len(text)-1]
	to := open + 1
	if len(n.Content) > 0 {
		if to, err = f.offset(n.Content[0]); err != nil {
			return err
		}
		blank := string(f.Text[open+1 : to])
		if !strings.Contains(blank, "\n") || strings.TrimSpace(blank) != "" {
			blank = " "
		}
		text += "," + blank
	}
	return f.apply(textEdit{from: to, to: to, text: text, pos: at.Child(0), change: addNodes, value: nestedMeaning(keys, s)})
}

// renderFlow writes a value below keys in one line.
func renderFlow(keys []string, s Scalar, style yaml.Style) string {
	value := s.render(style, true)
	if len(keys) > 1 {
		value = renderFlow(keys[1:], s, style)
	}
	return "{" + renderText(keys[0], style&yaml.DoubleQuotedStyle, true) + ": " + value + "}"
}

// Drop removes a key. One that is not there is no error.
func (f *File) Drop(at NodePath, keys []string) error {
	n := f.Node(at)
	i := IndexOf(n, keys[0])
	switch {
	case n.Kind == yaml.AliasNode:
		return fmt.Errorf("line %d: it is *%s, which stands elsewhere in the file", n.Line, n.Value)
	case i < 0 && Lookup(n, keys[0]) != nil:
		return fmt.Errorf("line %d: it is merged from elsewhere in the file", n.Line)
	case i < 0:
		return nil
	case len(keys) > 1 && isEmpty(n.Content[i+1]):
		return nil
	case len(keys) > 1:
		return f.Drop(at.Child(i+1), keys[1:])
	}
	key, value := n.Content[i], n.Content[i+1]
	gone := textEdit{pos: at.Child(i), change: removeNodes, value: []*meaning{{}, {}}}
	var err error
	switch {
	case isFlow(n):
		gone.from, gone.to, err = f.flowSpan(n, i, 2)
	case len(n.Content) > 2:
		if gone.from, gone.to, err = f.line(key, value); err == nil && !isFirstOnLine(f.Text[gone.from:], key) {
			err = fmt.Errorf("line %d: something stands before it", key.Line)
		}
	default: // the mapping stays, and is empty then
		gone.text = "{}"
		if gone.from, err = f.offset(key); err == nil {
			_, gone.to, err = f.span(value)
		}
	}
	if err != nil {
		return err
	}
	return f.apply(gone)
}

// isFirstOnLine tells whether a key is the first on its line, without a dash.
func isFirstOnLine(line []byte, key *yaml.Node) bool {
	return len(line) >= key.Column && strings.Trim(string(line[:key.Column-1]), " ") == ""
}

// flowSpan gives the text of an entry of width nodes in braces or brackets, with the
// comma that goes with it.
func (f *File) flowSpan(n *yaml.Node, i, width int) (from, to int, err error) {
	if from, err = f.offset(n.Content[i]); err != nil {
		return 0, 0, err
	}
	if i+width < len(n.Content) {
		to, err = f.offset(n.Content[i+width])
		return from, to, err
	}
	if _, to, err = f.span(n.Content[i+width-1]); err != nil {
		return 0, 0, err
	}
	if i > 0 {
		before := strings.TrimRight(string(f.Text[:from]), " \t\r\n")
		if !strings.HasSuffix(before, ",") {
			return 0, 0, errors.New("there is no comma before it")
		}
		from = len(before) - 1
	}
	return from, to, nil
}

// lineEnd is how lines of the file end.
func (f *File) lineEnd() string {
	if strings.Contains(string(f.Text), "\r\n") {
		return "\r\n"
	}
	return "\n"
}
