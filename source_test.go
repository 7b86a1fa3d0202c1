// Package venturi_test holds the house rules that no linter knows, as tests
// that read the source: no root, no build, no network.
package venturi_test

import (
	"bytes"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/venturi-net/venturi"

// source is one Go file of the tree.
type source struct {
	path      string // from the root, with slashes
	dir       string // "." for the root
	text      []byte
	syntax    *ast.File
	test      bool
	generated bool
}

// tree lists every file of the project, without what a build or a run makes.
var tree = sync.OnceValues(func() ([]string, error) {
	var files []string
	err := fs.WalkDir(os.DirFS("."), ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		switch p {
		case ".git", "bin", "dist", "venturi-runs":
			if !d.IsDir() { // .git of a worktree is a file
				return nil
			}
			return fs.SkipDir
		}
		if d.IsDir() {
			return nil
		}
		files = append(files, p)
		return nil
	})
	return files, err
})

type tokenPosition = token.Position

var fileSet = token.NewFileSet()

var sources = sync.OnceValues(func() ([]*source, error) {
	files, err := tree()
	if err != nil {
		return nil, err
	}
	var all []*source
	for _, p := range files {
		if !strings.HasSuffix(p, ".go") || strings.Contains(p, "testdata/") {
			continue
		}
		text, err := os.ReadFile(p)
		if err != nil {
			return nil, err
		}
		syntax, err := parser.ParseFile(fileSet, p, text, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		all = append(all, &source{
			path: p, dir: path.Dir(p), text: text, syntax: syntax,
			test:      strings.HasSuffix(p, "_test.go"),
			generated: ast.IsGenerated(syntax),
		})
	}
	return all, nil
})

func allSources(t *testing.T) []*source {
	t.Helper()
	all, err := sources()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 20 {
		t.Fatalf("only %d Go files found: is this the root of the project?", len(all))
	}
	return all
}

// imports gives the import paths of a file.
func (s *source) imports() []string {
	var paths []string
	for _, i := range s.syntax.Imports {
		p, _ := strconv.Unquote(i.Path.Value)
		paths = append(paths, p)
	}
	return paths
}

// calls visits every call of the form name.Selector where name is how the file
// knows the package with that import path; a package's exported functions are
// meant, not methods.
func (s *source) calls(visit func(importPath, function string, at tokenPosition)) {
	names := map[string]string{}
	for _, i := range s.syntax.Imports {
		p, _ := strconv.Unquote(i.Path.Value)
		name := path.Base(p)
		if i.Name != nil {
			name = i.Name.Name
		}
		names[name] = p
	}
	ast.Inspect(s.syntax, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		x, ok := sel.X.(*ast.Ident)
		if ok && names[x.Name] != "" {
			visit(names[x.Name], sel.Sel.Name, fileSet.Position(sel.Pos()))
		}
		return true
	})
}

func TestFormatted(t *testing.T) {
	for _, s := range allSources(t) {
		want, err := format.Source(s.text)
		if err != nil {
			t.Errorf("%s: %v", s.path, err)
		} else if !bytes.Equal(want, s.text) {
			t.Errorf("%s: not gofmt-clean", s.path)
		}
	}
}

// One file of a package tells what the package is for; two would drift apart.
func TestPackageDoc(t *testing.T) {
	docs := map[string][]string{}
	for _, s := range allSources(t) {
		if s.test && s.dir != "." {
			continue
		}
		docs[s.dir] = append(docs[s.dir], "")
		if s.syntax.Doc == nil || s.generated {
			continue
		}
		docs[s.dir][len(docs[s.dir])-1] = s.path
		if doc := s.syntax.Doc.Text(); !strings.HasPrefix(doc, "Package "+s.syntax.Name.Name+" ") && !strings.HasPrefix(doc, "Command ") {
			t.Errorf("%s: the package doc starts with neither %q nor \"Command\"", s.path, "Package "+s.syntax.Name.Name)
		}
	}
	for dir, files := range docs {
		var with []string
		for _, f := range files {
			if f != "" {
				with = append(with, f)
			}
		}
		if len(with) == 0 && !strings.HasSuffix(dir, "pb") {
			t.Errorf("%s: no file has a package doc", dir)
		}
		if len(with) > 1 {
			t.Errorf("%s: more than one file has a package doc: %v", dir, with)
		}
	}
}

// An init function runs unseen, in an order that nobody chose. Variants stand
// in tables instead.
func TestNoInit(t *testing.T) {
	for _, s := range allSources(t) {
		if s.generated {
			continue
		}
		for _, d := range s.syntax.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
				t.Errorf("%s: func init", fileSet.Position(f.Pos()))
			}
		}
	}
}

// Past this length a file holds more than one idea.
func TestFileLength(t *testing.T) {
	const most = 400
	for _, s := range allSources(t) {
		if lines := bytes.Count(s.text, []byte("\n")); lines > most && !s.generated {
			t.Errorf("%s: %d lines, and %d is the point to split", s.path, lines, most)
		}
	}
}
