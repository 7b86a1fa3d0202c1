package venturi_test

import (
	"go/ast"
	"slices"
	"strings"
	"testing"
)

// printers are the packages that write for people, with those below them. Names from outside reach a
// terminal through package sanitize alone, so they print with its functions: a
// printer that is added is clean without a thought of it.
var printers = []string{
	"internal/cli", "internal/display", "internal/doctor", "internal/fastpath", "internal/kube", "internal/mesh", "internal/progress",
	"internal/report", "internal/study", "internal/tune/cluster", "internal/verr", "internal/watch",
}

// raw are the functions that write text as it is.
var raw = map[string][]string{
	"fmt":           {"Fprint", "Fprintf", "Fprintln", "Print", "Printf", "Println"},
	"io":            {"WriteString"},
	"encoding/json": {"NewEncoder"},
}

func TestPrintersSanitize(t *testing.T) {
	found := map[string]int{}
	for _, s := range allSources(t) {
		i := slices.IndexFunc(printers, func(p string) bool { return s.dir == p || strings.HasPrefix(s.dir, p+"/") })
		if s.test || i < 0 || strings.HasSuffix(s.dir, "test") {
			continue
		}
		s.calls(func(importPath, function string, at tokenPosition) {
			if importPath == inModule("internal/sanitize") {
				found[printers[i]]++
			}
			if slices.Contains(raw[importPath], function) {
				t.Errorf("%s: %s.%s prints names as they are: use package sanitize", at, importPath, function)
			}
		})
	}
	for _, dir := range printers {
		if found[dir] == 0 {
			t.Errorf("%s prints nothing through package sanitize: was it renamed?", dir)
		}
	}
}

// Text that counts as clean is made by a printer of many lines; of a name it would
// let everything pass. So the places are few, and each is known.
func TestSafeTexts(t *testing.T) {
	const most = 20
	places := 0
	for _, s := range allSources(t) {
		if s.test || s.dir == "internal/sanitize" {
			continue
		}
		ast.Inspect(s.syntax, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if sel, ok := call.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "Safe" {
				places++
			}
			return true
		})
	}
	if places > most {
		t.Errorf("%d texts are taken for safe, and %d are known: can the new one be printed with sanitize.Fprintf?", places, most)
	}
}

// A name in a pattern matches other files than its own, or none.
func TestNoGlob(t *testing.T) {
	for _, s := range allSources(t) {
		if s.test || s.dir == "internal/testenv" {
			continue
		}
		s.calls(func(importPath, function string, at tokenPosition) {
			if importPath == "path/filepath" && function == "Glob" {
				t.Errorf("%s: filepath.Glob: use sanitize.Files, whose folder is no part of the pattern", at)
			}
		})
	}
}
