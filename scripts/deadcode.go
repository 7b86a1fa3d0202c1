//go:build ignore

// Command deadcode names functions that nobody calls, as golang.org/x/tools/cmd/deadcode does with -test, and then,
// each behind the word tests, those that tests alone call. That command would do so in two runs, each of which reads and
// type-checks all dependencies, those of a Kubernetes client among them.
package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/callgraph/rta"
	"golang.org/x/tools/go/packages"
	"golang.org/x/tools/go/ssa"
	"golang.org/x/tools/go/ssa/ssautil"
)

func main() {
	log.SetFlags(0)
	loaded, err := packages.Load(&packages.Config{Mode: packages.LoadAllSyntax | packages.NeedModule, Tests: true}, "./...")
	if err != nil {
		log.Fatal(err)
	}
	if packages.PrintErrors(loaded) > 0 {
		log.Fatal("deadcode: there are packages with errors")
	}
	program, made := ssautil.AllPackages(loaded, ssa.InstantiateGenerics)
	var programs []*packages.Package
	var all, shipped []*ssa.Function
	for i, p := range loaded {
		if p.Name != "main" || made[i] == nil {
			continue
		}
		roots := []*ssa.Function{made[i].Func("init"), made[i].Func("main")}
		all = append(all, roots...)
		if strings.Contains(p.ID, "/cmd/") && p.ForTest == "" && !strings.HasSuffix(p.ID, ".test") {
			programs, shipped = append(programs, p), append(shipped, roots...)
		}
	}
	if len(programs) == 0 || len(all) == len(shipped) {
		log.Fatal("deadcode: there are no programs, or no tests")
	}
	program.Build()
	tell("", program, loaded, all)
	tell("tests ", program, programs, shipped)
}

// tell prints functions of the packages, and of all that these import of our own, that roots do not reach.
func tell(word string, program *ssa.Program, from []*packages.Package, roots []*ssa.Function) {
	reached := map[token.Position]bool{}
	for f := range rta.Analyze(roots, false).Reachable {
		if f.Pos().IsValid() {
			reached[program.Fset.Position(f.Pos())] = true
		}
	}
	var lines []string
	packages.Visit(from, nil, func(p *packages.Package) {
		if p.Module == nil || !p.Module.Main {
			return
		}
		for _, file := range p.Syntax {
			if ast.IsGenerated(file) {
				continue
			}
			for _, d := range file.Decls {
				f, ok := d.(*ast.FuncDecl)
				if !ok {
					continue
				}
				at := program.Fset.Position(f.Name.Pos())
				if reached[at] || marks(p, f) {
					continue
				}
				reached[at] = true // for a test, a package is compiled again
				lines = append(lines, fmt.Sprintf("%s%s: %s.%s", word, short(at), p.PkgPath, name(f)))
			}
		}
	})
	slices.Sort(lines)
	for _, line := range lines {
		fmt.Println(line)
	}
}

func short(at token.Position) token.Position {
	here, _ := os.Getwd()
	if file, err := filepath.Rel(here, at.Filename); err == nil {
		at.Filename = file
	}
	return at
}

// name is that of a function, or of a method behind its type's.
func name(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	of := f.Recv.List[0].Type
	for {
		switch t := of.(type) {
		case *ast.StarExpr:
			of = t.X
		case *ast.IndexExpr:
			of = t.X
		case *ast.IndexListExpr:
			of = t.X
		default:
			return types.ExprString(of) + "." + f.Name.Name
		}
	}
}

// marks tells whether a method does nothing but make a type one of an interface of its package.
func marks(p *packages.Package, f *ast.FuncDecl) bool {
	if f.Recv == nil || f.Name.IsExported() || f.Type.Params.NumFields() > 0 || f.Type.Results.NumFields() > 0 || f.Body == nil || len(f.Body.List) > 0 {
		return false
	}
	method, ok := p.TypesInfo.Defs[f.Name].(*types.Func)
	if !ok {
		return false
	}
	scope := p.Types.Scope()
	return slices.ContainsFunc(scope.Names(), func(name string) bool {
		of, ok := scope.Lookup(name).(*types.TypeName)
		return ok && types.IsInterface(of.Type()) && types.Implements(method.Signature().Recv().Type(), of.Type().Underlying().(*types.Interface))
	})
}
