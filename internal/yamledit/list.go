package yamledit

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// SetItem writes another text where the item of a list is.
func (f *File) SetItem(at NodePath, i int, text string) error {
	return f.replace(at.Child(i), isFlow(f.Node(at)), Scalar{Text: text})
}

// AddItem adds a text to the end of a list, in the style of those that are there.
func (f *File) AddItem(at NodePath, text string) error {
	n := f.Node(at)
	last := len(n.Content) - 1
	if n.Kind != yaml.SequenceNode || last < 0 {
		return fmt.Errorf("line %d: there is no list to add to", n.Line)
	}
	s := Scalar{Text: text}
	e := textEdit{pos: at.Child(last + 1), change: addNodes, value: []*meaning{s.meaning()}}
	if isFlow(n) {
		_, to, err := f.span(n.Content[last])
		if err != nil {
			return err
		}
		blank := " "
		if last > 0 {
			from, err := f.offset(n.Content[last])
			if err != nil {
				return err
			}
			before := strings.TrimRight(string(f.Text[:from]), " \t\r\n")
			blank = string(f.Text[len(before):from])
		}
		e.from, e.to, e.text = to, to, ","+blank+s.render(commonStyle(n.Content), true)
		return f.apply(e)
	}
	from, to, err := f.line(nil, n.Content[last])
	if err != nil {
		return err
	}
	start, err := f.offset(n.Content[last])
	if err != nil {
		return err
	}
	e.text = string(f.Text[from:start]) + s.render(commonStyle(n.Content), false)
	if f.Text[to-1] == '\n' {
		e.text += f.lineEnd()
	} else {
		e.text = f.lineEnd() + e.text
	}
	e.from, e.to = to, to
	return f.apply(e)
}

// DropItem removes an item of a list that has others.
func (f *File) DropItem(at NodePath, i int) error {
	n := f.Node(at)
	if len(n.Content) < 2 {
		return fmt.Errorf("line %d: it is the only item of its list", n.Line)
	}
	e := textEdit{pos: at.Child(i), change: removeNodes, value: []*meaning{{}}}
	var err error
	if isFlow(n) {
		e.from, e.to, err = f.flowSpan(n, i, 1)
	} else {
		e.from, e.to, err = f.line(nil, n.Content[i])
	}
	if err != nil {
		return err
	}
	return f.apply(e)
}

// SetText writes another text where one of several lines is, so that its lines
// that stay are not touched.
func (f *File) SetText(at NodePath, text string) error {
	n := f.Node(at)
	e := textEdit{pos: at, change: replaceNode, value: []*meaning{Scalar{Text: text}.meaning()}}
	var err error
	switch {
	case n.Kind == yaml.ScalarNode && n.Style&yaml.LiteralStyle != 0:
		err = f.block(n, text, &e)
	case n.Kind == yaml.ScalarNode && n.Style&yaml.DoubleQuotedStyle != 0:
		if e.from, e.to, err = f.span(n); err == nil && string(f.Text[e.from:e.to]) != renderQuoted(n.Value) {
			err = fmt.Errorf("line %d: it is written in a way that only a person should edit", n.Line)
		}
		e.text = renderQuoted(text)
	default:
		err = fmt.Errorf("line %d: it is written in a way that only a person should edit", n.Line)
	}
	if err != nil {
		return err
	}
	return f.apply(e)
}

// renderQuoted writes any text in double quotes.
func renderQuoted(text string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(text); err != nil {
		panic(err) // text always can be written
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// block finds the lines of a block ("|") that another text of it changes.
func (f *File) block(n *yaml.Node, text string, e *textEdit) error {
	old, now := strings.SplitAfter(n.Value, "\n"), strings.SplitAfter(text, "\n")
	same := 0
	for same < min(len(old), len(now)) && old[same] == now[same] {
		same++
	}
	tail := 0
	for tail < min(len(old), len(now))-same && old[len(old)-1-tail] == now[len(now)-1-tail] {
		tail++
	}
	first := n.Line // the block's first line is the one behind the "|"
	indent, err := f.indentOf(first, old)
	if err != nil {
		return err
	}
	changed := now[same : len(now)-tail]
	if first+same >= len(f.lines) || first+len(old)-tail > len(f.lines) {
		return errors.New("the block ends with the file, without a line end")
	}
	e.from, e.to = f.lines[first+same], f.lines[len(f.lines)-1]
	if end := first + len(old) - tail; end < len(f.lines) {
		e.to = f.lines[end]
	}
	for _, line := range changed {
		body, ended := strings.CutSuffix(line, "\n")
		if body != "" {
			e.text += indent + body
		}
		if ended || body != "" {
			e.text += f.lineEnd()
		}
	}
	return nil
}

// indentOf gives what stands before the lines of a block. Error: the file does
// not show the lines as they are.
func (f *File) indentOf(first int, lines []string) (string, error) {
	indent := ""
	for i, line := range lines {
		line = strings.TrimSuffix(line, "\n")
		if line == "" {
			continue
		}
		if first+i >= len(f.lines) {
			return "", errors.New("the block is shorter than the parser says")
		}
		end := len(f.Text)
		if first+i+1 < len(f.lines) {
			end = f.lines[first+i+1]
		}
		shown := strings.TrimRight(string(f.Text[f.lines[first+i]:end]), "\r\n")
		before, found := strings.CutSuffix(shown, line)
		if !found || strings.Trim(before, " ") != "" || indent != "" && before != indent {
			return "", fmt.Errorf("line %d: it is written in a way that only a person should edit", first+i+1)
		}
		indent = before
	}
	return indent, nil
}
