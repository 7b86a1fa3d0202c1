package plain

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Hostile is a name that somebody may give a device, a namespace or a path: it
// drives a terminal, forges a line, runs a command, and is a formula, an image, a
// pattern and a cell of a table.
const Hostile = "=HYPERLINK(0)\x1b[2J\u202e\u009b\u200b\xff\nFORGED\r\t;touch${IFS}p;# ![x](http://h/p) a[b *|<b>"

// Taint puts [Hostile] before every text that can be reached from what v points
// to, in fields but those called as in keep. Equal texts stay equal.
func Taint(v any, keep ...string) { TaintWith(Hostile, v, keep...) }

// TaintWith is [Taint] with another text.
func TaintWith(text string, v any, keep ...string) {
	tainter{text, keep, map[any]bool{}}.taint(reflect.ValueOf(v))
}

type tainter struct {
	text     string
	keep     []string     // fields that stay
	pointers map[any]bool // those that were followed
}

func (t tainter) taint(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() || t.pointers[v.Interface()] {
			return
		}
		t.pointers[v.Interface()] = true
		t.taint(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && !slices.Contains(t.keep, f.Name) {
				t.taint(v.Field(i))
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 && v.CanSet() {
			v.SetBytes([]byte(t.text + string(v.Bytes())))
			return
		}
		for i := range v.Len() {
			t.taint(v.Index(i))
		}
	case reflect.Map:
		t.taintMap(v)
	case reflect.String:
		if v.CanSet() {
			v.SetString(t.text + v.String())
		}
	}
}

// taintMap puts tainted copies in the place of keys and values.
func (t tainter) taintMap(v reflect.Value) {
	for _, k := range v.MapKeys() {
		key, value := reflect.New(k.Type()).Elem(), reflect.New(v.Type().Elem()).Elem()
		key.Set(k)
		value.Set(v.MapIndex(k))
		t.taint(key)
		t.taint(value)
		v.SetMapIndex(k, reflect.Value{})
		v.SetMapIndex(key, value)
	}
}

// Unclean says what of a text must not be printed; nil: all of it can be.
func Unclean(text string) error {
	if !utf8.ValidString(text) {
		return fmt.Errorf("it is not UTF-8: %.200q", text)
	}
	for i, r := range text {
		if r != '\n' && !unicode.IsPrint(r) {
			return fmt.Errorf("raw %q in %q", r, text[max(0, i-60):min(len(text), i+60)])
		}
	}
	if strings.Contains(text, "\nFORGED") {
		return fmt.Errorf("a name has forged a line: %.200q", text)
	}
	return nil
}
