package study

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// file is a study as it is written. The tags are the keys of the schema, which
// docs/studies/README.md explains.
type file struct {
	Name     text         `yaml:"name"`
	Title    text         `yaml:"title"`
	Question text         `yaml:"question"`
	Source   text         `yaml:"source"`
	Machines fileMachines `yaml:"machines"`
	Wires    []fileWire   `yaml:"wires"`
	Paths    []filePath   `yaml:"paths"`
	Loads    []fileLoad   `yaml:"loads"`
	Budget   text         `yaml:"budget"`
	Emulated text         `yaml:"emulated-budget"`
	ToolTime text         `yaml:"tool-time"`
	Margin   text         `yaml:"margin"`
	Tables   []fileTable  `yaml:"tables"`
}

type fileMachines struct {
	Hosts    text    `yaml:"hosts"`
	Services text    `yaml:"services"`
	Cores    options `yaml:"cores"`
}

type fileWire struct {
	Name    text    `yaml:"name"`
	Options options `yaml:"options"`
}

type filePath struct {
	Name    text    `yaml:"name"`
	Path    text    `yaml:"path"`
	Options options `yaml:"options"`
	Wires   list    `yaml:"wires"`
}

type fileLoad struct {
	Load        text `yaml:"load"`
	Sizes       list `yaml:"sizes"`
	Flows       list `yaml:"flows"`
	fileTraffic `yaml:",inline"`
	Emulated    text `yaml:"emulated"`
}

// fileTraffic is what else a load can have, under the names of the flags of compare.
type fileTraffic struct {
	Threads    text `yaml:"threads"`
	Response   text `yaml:"response"`
	Rate       text `yaml:"rate"`
	Background text `yaml:"beside"`
	Cores      text `yaml:"probe-core"`
	Tool       text `yaml:"tool"`
}

type fileTable struct {
	Title    text         `yaml:"title"`
	Rows     list         `yaml:"rows"`
	Columns  list         `yaml:"columns"`
	Paths    list         `yaml:"paths"`
	Baseline text         `yaml:"baseline"`
	Figures  []fileFigure `yaml:"figures"`
}

type fileFigure struct {
	Name        text `yaml:"name"`
	Load        text `yaml:"load"`
	Sizes       list `yaml:"sizes"`
	Flows       list `yaml:"flows"`
	fileTraffic `yaml:",inline"`
	Show        text `yaml:"show"`
	Unit        text `yaml:"unit"`
}

// mistake is what is wrong with a study file, and where. A line of 0 is the
// file as a whole.
type mistake struct {
	line       int
	reason, do string
}

func (m *mistake) Error() string { return fmt.Sprintf("line %d: %s", m.line, m.reason) }

func wrong(line int, format string, args ...any) *mistake {
	return &mistake{line: line, reason: fmt.Sprintf(format, args...)}
}

// text is one word, number or sentence, with the line that it stands in.
type text struct {
	line int
	s    string
}

// UnmarshalYAML takes any scalar as it is written: on stays on, and 010 stays 010.
func (t *text) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind != yaml.ScalarNode {
		return wrong(n.Line, "there is a list or a map where one value is wanted")
	}
	*t = text{n.Line, n.Value}
	return nil
}

// list is one value or several.
type list struct {
	line  int
	items []string
}

// UnmarshalYAML takes a scalar or a list of scalars.
func (l *list) UnmarshalYAML(n *yaml.Node) error {
	l.line = n.Line
	if n.Kind == yaml.ScalarNode {
		l.items = []string{n.Value}
		return nil
	}
	if n.Kind != yaml.SequenceNode {
		return wrong(n.Line, "there is a map where a list is wanted")
	}
	for _, item := range n.Content {
		if item.Kind != yaml.ScalarNode {
			return wrong(item.Line, "there is a list or a map where one value is wanted")
		}
		l.items = append(l.items, item.Value)
	}
	return nil
}

// options are KEY=VALUE,... as the command line takes them, or a map of the same.
type options struct {
	line int
	s    string
}

// UnmarshalYAML takes a scalar or a map of scalars.
func (o *options) UnmarshalYAML(n *yaml.Node) error {
	o.line = n.Line
	switch n.Kind {
	case yaml.ScalarNode:
		o.s = n.Value
		return nil
	case yaml.MappingNode:
	default:
		return wrong(n.Line, "there is a list where options are wanted: a map, or KEY=VALUE,...")
	}
	var parts []string
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind != yaml.ScalarNode || value.Kind != yaml.ScalarNode {
			return wrong(key.Line, "an option has one value")
		}
		parts = append(parts, key.Value+"="+value.Value)
	}
	o.s = strings.Join(parts, ",")
	return nil
}

// decode reads the YAML. The error is a *mistake.
func decode(data []byte) (*file, *yaml.Node, error) {
	var root yaml.Node
	if err := yaml.Unmarshal(data, &root); err != nil {
		return nil, nil, syntax(err)
	}
	f := &file{}
	d := yaml.NewDecoder(bytes.NewReader(data))
	d.KnownFields(true)
	switch err := d.Decode(f); {
	case errors.Is(err, io.EOF):
		return nil, nil, wrong(0, "the file is empty")
	case err != nil:
		return nil, nil, syntax(err)
	}
	if err := d.Decode(&yaml.Node{}); !errors.Is(err, io.EOF) {
		return nil, nil, wrong(0, "a file holds one study, and nothing behind a line of ---")
	}
	return f, &root, nil
}

// What package yaml says of a file, line by line.
var (
	yamlLine  = regexp.MustCompile(`^(?:yaml: )?(?:line (\d+): )?((?s).*)$`)
	yamlField = regexp.MustCompile(`^field (.*) not found in type study\.(\w+)$`)
	yamlTwice = regexp.MustCompile(`^mapping key (.*) already defined at line (\d+)$`)
	yamlType  = regexp.MustCompile(`^cannot unmarshal .* into (\[\])?study\.\w+$`)
)

// syntax says in a person's words what package yaml found first.
func syntax(err error) error {
	if known := new(mistake); errors.As(err, &known) {
		return known
	}
	said := err.Error()
	if several := new(yaml.TypeError); errors.As(err, &several) && len(several.Errors) > 0 {
		said = several.Errors[0]
	}
	parts := yamlLine.FindStringSubmatch(said)
	line, _ := strconv.Atoi(parts[1]) // digits, or nothing
	why := parts[2]
	if m := yamlField.FindStringSubmatch(why); m != nil {
		return &mistake{line: line, reason: fmt.Sprintf("there is no key %q here", m[1]), do: "the keys here are " + strings.Join(keys(m[2]), ", ")}
	}
	if m := yamlTwice.FindStringSubmatch(why); m != nil {
		return wrong(line, "the key %s is there twice, first in line %s", m[1], m[2])
	}
	if m := yamlType.FindStringSubmatch(why); m != nil {
		what := "a map of keys"
		if m[1] != "" {
			what = "a list"
		}
		return wrong(line, "there is something else where %s is wanted", what)
	}
	return wrong(line, "it is not YAML: %s", why)
}

// keys lists the keys of one of the types above.
func keys(typeName string) []string {
	var found []string
	var visit func(t reflect.Type)
	visit = func(t reflect.Type) {
		if t.Kind() == reflect.Slice {
			t = t.Elem()
		}
		if t.Kind() != reflect.Struct {
			return
		}
		for i := range t.NumField() {
			if t.Name() == typeName {
				found = append(found, tags(t.Field(i))...)
			}
			visit(t.Field(i).Type)
		}
	}
	visit(reflect.TypeFor[file]())
	return found
}

// tags are the keys of a field, or of the fields of one that is set among its neighbours.
func tags(f reflect.StructField) []string {
	if !f.Anonymous {
		return []string{f.Tag.Get("yaml")}
	}
	var found []string
	for i := range f.Type.NumField() {
		found = append(found, f.Type.Field(i).Tag.Get("yaml"))
	}
	return found
}

// lineOf is where a part of the file begins: a key, or an item of a list below it.
func lineOf(root *yaml.Node, key string, item int) int {
	if root.Kind == yaml.DocumentNode && len(root.Content) > 0 {
		root = root.Content[0]
	}
	for i := 0; i+1 < len(root.Content); i += 2 {
		if root.Content[i].Value != key {
			continue
		}
		if list := root.Content[i+1]; item < len(list.Content) {
			return list.Content[item].Line
		}
		return root.Content[i].Line
	}
	return root.Line
}
