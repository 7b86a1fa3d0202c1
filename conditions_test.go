package venturi_test

import (
	"go/ast"
	"go/token"
	"go/types"
	"strings"
	"testing"
)

// The statement in front of an if's condition makes what the condition reads. Any other one is a step that
// a reader misses there, and stands on a line of its own.
func TestConditionsReadInit(t *testing.T) {
	for _, s := range allSources(t) {
		if s.test || s.generated || !strings.HasPrefix(s.path, "internal/") {
			continue
		}
		ast.Inspect(s.syntax, func(n ast.Node) bool {
			if i, ok := n.(*ast.IfStmt); ok && i.Init != nil && !readsInit(i) {
				t.Errorf("%s: the condition reads nothing that the statement in front of it assigns", fileSet.Position(i.Pos()))
			}
			return true
		})
	}
}

// readsInit tells whether something that the statement in front of a condition assigns occurs in
// the condition. Counters need not.
func readsInit(i *ast.IfStmt) (reads bool) {
	assigned := map[string]bool{}
	switch init := i.Init.(type) {
	case *ast.IncDecStmt:
		return true
	case *ast.AssignStmt:
		if init.Tok == token.ADD_ASSIGN {
			return true
		}
		for _, e := range init.Lhs {
			assigned[types.ExprString(e)] = true
		}
	}
	ast.Inspect(i.Cond, func(n ast.Node) bool {
		e, ok := n.(ast.Expr)
		reads = reads || ok && assigned[types.ExprString(e)]
		return !reads
	})
	return reads
}
