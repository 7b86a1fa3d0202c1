package venturi_test

import (
	"go/ast"
	"regexp"
	"slices"
	"testing"
)

// dumps are the calls that list a table which may change while the kernel lists it.
var dumps = regexp.MustCompile(`^(Link|Addr|Route|Neigh|Rule)List(Filtered)?$`)

// A device that appears meanwhile has the kernel break off a list: [nlmsg.Dump] asks again, and a bare
// call fails.
func TestListsAskAgain(t *testing.T) {
	lists := 0
	for _, s := range allSources(t) {
		if s.test || s.dir == "internal/testenv" || !slices.Contains(s.imports(), "github.com/vishvananda/netlink") {
			continue
		}
		inDump := 0 // the end of the call that is visited
		ast.Inspect(s.syntax, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				if sel, ok := n.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "Dump" {
					inDump = int(n.End())
				}
			case *ast.SelectorExpr:
				if dumps.MatchString(n.Sel.Name) {
					if lists++; int(n.Pos()) > inDump {
						t.Errorf("%s: %s fails when a device appears meanwhile: use nlmsg.Dump", fileSet.Position(n.Pos()), n.Sel.Name)
					}
				}
			}
			return true
		})
	}
	if lists < 10 {
		t.Errorf("only %d lists were looked at: does the test still know their shape?", lists)
	}
}
