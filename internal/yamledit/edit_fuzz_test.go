package yamledit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// decoded is what other programs would read from a file: nothing of the editor's
// own view of it is in here.
func decoded(text []byte) (docs []any, err error) {
	d := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var doc any
		switch err := d.Decode(&doc); {
		case errors.Is(err, io.EOF):
			return docs, nil
		case err != nil:
			return nil, err
		}
		docs = append(docs, byText(doc))
	}
}

// byText gives mappings whose keys are not all text the shape of the others.
func byText(v any) any {
	switch v := v.(type) {
	case map[any]any:
		m := map[string]any{}
		for k, value := range v {
			name, ok := k.(string)
			if !ok {
				name = fmt.Sprintf("%T %v", k, k)
			}
			m[name] = byText(value)
		}
		return m
	case map[string]any:
		for k, value := range v {
			v[k] = byText(value)
		}
	case []any:
		for i, value := range v {
			v[i] = byText(value)
		}
	}
	return v
}

// editMapping gives a mapping with another value below keys; drop: without it.
func editMapping(m any, keys []string, value any, drop bool) (any, bool) {
	old, ok := m.(map[string]any)
	if !ok && m != nil {
		return m, drop // nothing is below a text
	}
	now := map[string]any{}
	for k, v := range old {
		now[k] = v
	}
	_, there := now[keys[0]]
	switch {
	case drop && !there:
	case drop && len(keys) > 1 && now[keys[0]] == nil:
	case len(keys) > 1:
		if now[keys[0]], ok = editMapping(now[keys[0]], keys[1:], value, drop); !ok {
			return nil, false
		}
	case drop:
		delete(now, keys[0])
	default:
		now[keys[0]] = value
	}
	return now, true
}

// FuzzEdit edits any file: either it says that it cannot, or what others
// read from the file differs in the one value, and no byte before or behind the
// changed lines does.
func FuzzEdit(f *testing.F) {
	files, err := filepath.Glob("../knob/k8s/testdata/manifests/*")
	if err != nil || len(files) == 0 {
		f.Fatal("no fixtures", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text, "data.enable-hubble", "false", uint8(0))
		f.Add(bytes.ReplaceAll(text, []byte("\n"), []byte("\r\n")), "spec.ipipMode", "Never", uint8(2))
	}
	for _, text := range append(selfMerging(), []string{
		"a: b", "a: b\n", "a:\n", "a: # c\nb: 1\n", "{a: b}", "{}", "a: {b: 'c', d: \"e\"}\n", "a: &x b\nc: *x\n", "a: &x {b: c}\nd: {<<: *x}\n",
		"\ufeffa: b\n", "a: |\n  b\nc: d\n", "? a\n: b\n", "a: !!str 1\n", "ä: ö\na: b\n", "a: 'it''s'\n", "- a: b\n", "---\na: b\n...\n---\nc: d\n",
		"a: b\n  c\nd: e\n", "a:\n- b: c\n  d: e\n", "a: {\n  b: c # d\n}\n", "a:\n  b: c\n", "a: \"b\\\n  c\"\nd: e\n", "a:\tb\n", "\"a\": b\n", "a: [b]\n", "#\na: b",
	}...) {
		for how := range uint8(4) {
			f.Add([]byte(text), "a", "true", how)
			f.Add([]byte(text), "a.b", "on", how)
		}
	}
	f.Fuzz(func(t *testing.T, text []byte, key, value string, how uint8) { tryEdit(t, text, key, value, how) })
}

// tryEdit makes one edit, and tells whether it was made. Of how, a bit stands for
// taking the value away, and one for a value that is no string.
func tryEdit(t *testing.T, text []byte, key, value string, how uint8) bool {
	before, err := decoded(text)
	m, parsed := Parse(text)
	if parsed == nil {
		for _, doc := range m.Docs {
			ScalarAt(doc.Content[0], strings.Split(key, ".")...) // whatever it is, it ends
		}
	}
	if parsed != nil || err != nil || len(m.Docs) == 0 || len(before) != len(m.Docs) || m.Docs[0].Content[0].Kind != yaml.MappingNode || !IsPlain(value) {
		return false
	}
	keys := strings.Split(key, ".")
	for _, k := range keys {
		if k == "" || k == "<<" || !IsPlain(k) {
			return false
		}
	}
	drop, bare := how&1 != 0, how&2 != 0
	var want any = value
	if bare {
		if err := yaml.Unmarshal([]byte(value), &want); err != nil || value == "" {
			return false
		}
		switch want.(type) {
		case bool, int, float64:
		default:
			return false
		}
	}
	if drop {
		err = m.Drop(NodePath{0, 0}, keys)
	} else {
		err = m.Set(NodePath{0, 0}, keys, Scalar{Text: value, Bare: bare})
	}
	if err != nil {
		if !bytes.Equal(m.Text, text) {
			t.Errorf("it says %v, and has changed the text", err)
		}
		return false
	}
	after, err := decoded(m.Text)
	if err != nil {
		t.Fatalf("nobody can read it any more: %v\n%q\n%q", err, text, m.Text)
	}
	changed, ok := editMapping(before[0], keys, want, drop)
	if !ok {
		t.Fatalf("set below what is no mapping:\n%q\n%q", text, m.Text)
	}
	before[0] = changed
	if !reflect.DeepEqual(before, after) {
		t.Errorf("%s=%s drop=%v:\n%q\n%q\nwant %v\ngot  %v", key, value, drop, text, m.Text, before, after)
	}
	if !drop && bytes.Count(m.Text, []byte("\n")) < bytes.Count(text, []byte("\n")) {
		t.Errorf("setting a value took lines away:\n%q\n%q", text, m.Text)
	}
	return true
}

// Files that somebody has spoilt, or written in another way, are fuzzed by every
// run of the tests too.
func TestMutations(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	files, err := filepath.Glob("../knob/k8s/testdata/manifests/*")
	if err != nil {
		t.Fatal(err)
	}
	pieces := []string{" ", "  ", "\n", "\r\n", ":", "#", "- ", "{", "}", "\"", "'", "&x ", "*x", "|", ",", "? ", "!!str ", "\t", "é", "---\n", "~", "[", "]", "<<: *x\n", "\\"}
	keys := []string{"data", "kind", "metadata.name", "data.enable-hubble", "data.new", "spec.ipipMode", "spec.new.deep", "hubble.enabled", "bpf.masquerade", "data.config"}
	made := 0
	for range 6000 {
		text, err := os.ReadFile(files[r.IntN(len(files))])
		if err != nil {
			t.Fatal(err)
		}
		for range r.IntN(4) {
			at := r.IntN(len(text))
			piece := []byte(pieces[r.IntN(len(pieces))])
			text = slices.Replace(text, at, min(len(text), at+r.IntN(3)), piece...)
		}
		if tryEdit(t, text, keys[r.IntN(len(keys))], []string{"true", "off", "12", "a-b"}[r.IntN(4)], uint8(r.IntN(4))) {
			made++
		}
		if t.Failed() {
			return
		}
	}
	if made < 500 {
		t.Errorf("only %d edits were made: this tests nothing", made)
	}
}

// selfMerging are files whose mappings are merged into themselves or, each twice, into
// one another, so that a search by paths would not end.
func selfMerging() []string {
	bomb := "m0: &m0 {z: 1}\n"
	for i := 1; i <= 60; i++ {
		bomb += fmt.Sprintf("m%d: &m%[1]d {<<: [*m%d, *m%[2]d]}\n", i, i-1)
	}
	return []string{
		"data: &d {<<: *d}\n",
		"data: &d {<<: [*d, *d], a: b}\n",
		"kind: ConfigMap\ndata: &d\n  e: {<<: *d}\n  <<: *d\n",
		"data: &a {<<: &b {<<: *a}}\n",
		bomb + "data: {<<: *m60}\n",
	}
}

// A mapping that is merged into itself has no key for that, and a search in it ends.
func TestMergesItself(t *testing.T) {
	for _, text := range selfMerging() {
		f, err := Parse([]byte(text))
		if err != nil {
			t.Fatalf("%.60q: %v", text, err)
		}
		root := f.Docs[0].Content[0]
		if data := Lookup(root, "data"); data == nil || Lookup(data, "x") != nil {
			t.Errorf("%.60q: data is %v, or has x", text, data)
		}
	}
}
