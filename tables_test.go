package venturi_test

import (
	"go/ast"
	"go/token"
	"go/types"
	"path"
	"slices"
	"strings"
	"testing"
)

// A variant is one file and one line in a table. These tests find the variants
// by their shape, so that a file whose line was forgotten is found.
var tables = []struct {
	dir     string
	table   string // variables that list the variants, with spaces between
	value   string // a package-level variable of this type is a variant, or
	makes   string // a function is whose parameters and results have these types
	first   bool   // only the first one of a file
	below   bool   // a variant is a package below dir that has such a value or function
	but     string // is a variant on purpose that is not in the table
	atLeast int
}{
	{dir: "internal/load", table: "Table", value: "Load", atLeast: 6},
	{dir: "internal/path", table: "Table", value: "Driver", atLeast: 3},
	{dir: "internal/tool", but: "Netperf", table: "Table", value: "Tool", atLeast: 2},
	{dir: "internal/meter", table: "Table", makes: "func(Setup) (Sampler, error)", atLeast: 3},
	{dir: "internal/report", table: "formats styles", makes: "func(io.Writer, *result.Record, *analysis.Summary, view.Options) error", below: true, atLeast: 6},
	{dir: "internal/doctor", table: "Table", value: "Rule", atLeast: 30},
	{dir: "internal/cli", table: "commands", makes: "func(*Env) *cobra.Command", first: true, atLeast: 3},
}

func TestEveryVariantIsInItsTable(t *testing.T) {
	for _, c := range tables {
		var variants []*ast.Ident
		listed := map[string]bool{}
		for _, s := range allSources(t) {
			below := c.below && path.Dir(s.dir) == c.dir
			if s.dir != c.dir && !below || s.test {
				continue
			}
			var its []*ast.Ident
			for _, d := range s.syntax.Decls {
				if found := variantsIn(d, c.value, c.makes); below && len(found) > 0 {
					its = append(its, s.syntax.Name)
				} else {
					its = append(its, found...)
				}
				for _, v := range valuesOf(d, strings.Fields(c.table)) {
					ast.Inspect(v, func(n ast.Node) bool {
						if id, ok := n.(*ast.Ident); ok {
							listed[id.Name] = true
						}
						return true
					})
				}
			}
			if c.first && len(its) > 1 {
				its = its[:1] // the others are below it
			}
			variants = append(variants, its...)
		}
		if len(variants) < c.atLeast {
			t.Errorf("%s: %d variants found, at least %d expected: does the test still know their shape?", c.dir, len(variants), c.atLeast)
		}
		for _, v := range variants {
			if !listed[v.Name] && v.Name != c.but {
				t.Errorf("%s: %s is not in the table %s", fileSet.Position(v.Pos()), v.Name, c.table)
			}
		}
	}
}

func variantsIn(d ast.Decl, value, makes string) []*ast.Ident {
	var found []*ast.Ident
	switch d := d.(type) {
	case *ast.FuncDecl:
		if makes != "" && d.Recv == nil && signature(d.Type) == makes {
			found = append(found, d.Name)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			v, ok := spec.(*ast.ValueSpec)
			if !ok || value == "" {
				continue
			}
			for i := range v.Values {
				if compositeOf(v.Values[i]) == value {
					found = append(found, v.Names[i])
				}
			}
		}
	}
	return found
}

// signature writes the type of a function without the names of parameters.
func signature(f *ast.FuncType) string {
	list := func(fields *ast.FieldList) string {
		var all []string
		if fields != nil {
			for _, field := range fields.List {
				for range max(len(field.Names), 1) {
					all = append(all, types.ExprString(field.Type))
				}
			}
		}
		return strings.Join(all, ", ")
	}
	results := list(f.Results)
	if f.Results != nil && len(f.Results.List) > 1 {
		results = "(" + results + ")"
	}
	return "func(" + list(f.Params) + ") " + results
}

// compositeOf names the type of a composite literal T{...} or &T{...}.
func compositeOf(e ast.Expr) string {
	if u, ok := e.(*ast.UnaryExpr); ok && u.Op == token.AND {
		e = u.X
	}
	lit, ok := e.(*ast.CompositeLit)
	if !ok {
		return ""
	}
	id, ok := lit.Type.(*ast.Ident)
	if !ok {
		return ""
	}
	return id.Name
}

// valuesOf gives what the package-level variables with these names are set to in d.
func valuesOf(d ast.Decl, names []string) []ast.Expr {
	var values []ast.Expr
	gen, ok := d.(*ast.GenDecl)
	if !ok || gen.Tok != token.VAR {
		return nil
	}
	for _, spec := range gen.Specs {
		if v := spec.(*ast.ValueSpec); slices.Contains(names, v.Names[0].Name) {
			values = append(values, v.Values...)
		}
	}
	return values
}
