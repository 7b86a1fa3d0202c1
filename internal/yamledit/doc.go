// Package yamledit changes single values in the text of a YAML file, and keeps every
// other byte: comments, quotes, indents, line ends.
//
// A parser finds where a value stands, and the text is edited there. Each edit is
// checked: the file is parsed again, and must mean the same with this one change, or
// nothing is changed. What is written in a way that no such edit can keep is refused.
//
// Three libraries that keep comments were tried on the files in
// internal/knob/k8s/testdata, each read and written without a change. None gave all of
// them back: go.yaml.in/yaml/v3 (3.0.6) moves the indent of lists and the blanks before
// comments, in four of eight, and kyaml (0.20.1), which stands on it, does so in the
// same; goccy/go-yaml (1.19.2) moves the blanks before comments and rewrites JSON, in
// three. All three lose the line ends of Windows.
package yamledit
