package venturi_test

import (
	"go/ast"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// goTest are functions that `go test` calls: their docs say what is true if they pass.
var goTest = regexp.MustCompile(`^(Test|Benchmark|Fuzz|Example)`)

// The doc of an exported identifier begins with its name, perhaps after an article. One that does not
// is mostly left from a rename.
func TestDocsBeginWithNames(t *testing.T) {
	docs := 0
	for _, s := range allSources(t) {
		if s.generated {
			continue
		}
		eachDoc(s.syntax, func(name *ast.Ident, doc string) {
			if !name.IsExported() || s.test && goTest.MatchString(name.Name) {
				return
			}
			docs++
			if !regexp.MustCompile(`^((A|An|The) )?` + name.Name + `\b`).MatchString(doc) {
				first, _, _ := strings.Cut(doc, "\n")
				t.Errorf("%s: the doc of %s begins with another name: %s", fileSet.Position(name.Pos()), name.Name, first)
			}
		})
	}
	if docs < 1000 {
		t.Errorf("only %d docs were looked at", docs)
	}
}

// eachDoc visits the docs of what a file declares for the rest of its package.
func eachDoc(f *ast.File, visit func(name *ast.Ident, doc string)) {
	of := func(name *ast.Ident, docs ...*ast.CommentGroup) {
		for _, doc := range docs {
			if text := doc.Text(); text != "" {
				visit(name, text)
				return
			}
		}
	}
	for _, decl := range f.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			of(d.Name, d.Doc)
		case *ast.GenDecl:
			whole := d.Doc
			if d.Lparen.IsValid() {
				whole = nil // it is that of a group
			}
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					of(s.Name, s.Doc, whole)
				case *ast.ValueSpec:
					of(s.Names[0], s.Doc, whole)
				}
			}
		}
	}
}

var (
	docLink = regexp.MustCompile(`(^|[\s(,])\[\*?([A-Za-z]\w*)(?:\.([A-Za-z]\w*))?(?:\.([A-Za-z]\w*))?\]($|[\s.,:;)'])`)
	quoted  = regexp.MustCompile("\"[^\"]*\"|`[^`]*`")
)

// A link in a comment leads to what its package, or another one, declares. Packages of others are not read.
func TestCommentLinks(t *testing.T) {
	in := map[string]map[string]bool{} // by folder, and by the name of a package
	for _, s := range allSources(t) {
		for _, key := range []string{s.dir, strings.TrimSuffix(s.syntax.Name.Name, "_test")} {
			if in[key] == nil {
				in[key] = map[string]bool{}
			}
			eachDeclaration(s.syntax, func(_ string, name *ast.Ident) { in[key][name.Name] = true })
		}
	}
	links := 0
	for _, s := range allSources(t) {
		if s.generated {
			continue
		}
		for _, c := range s.syntax.Comments {
			for _, m := range docLink.FindAllStringSubmatch(quoted.ReplaceAllString(c.Text(), ""), -1) {
				links++
				path := slices.DeleteFunc(m[2:5], func(name string) bool { return name == "" })
				if !containsAll(in[s.dir], path) && (len(path) == 1 || in[path[0]] != nil && !containsAll(in[path[0]], path[1:])) {
					t.Errorf("%s: [%s] leads nowhere", fileSet.Position(c.Pos()), strings.Join(path, "."))
				}
			}
		}
	}
	if links < 200 {
		t.Errorf("only %d links were looked at", links)
	}
}

func containsAll(declared map[string]bool, names []string) bool {
	return !slices.ContainsFunc(names, func(name string) bool { return !declared[name] })
}
