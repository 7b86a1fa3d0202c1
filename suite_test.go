package venturi_test

import (
	"go/ast"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	testName   = regexp.MustCompile(`\bTest[A-Z]\w*`)
	longLists  = regexp.MustCompile(`(?m)^(?:longer|measuring)='.*|.*tests "many nodes.*`)
	longFolder = regexp.MustCompile(`(?m)^long=\((.*)\)`)
	slowFolder = regexp.MustCompile(`(?m)^(?:slow|idle)=\((.*)\)`)
)

// What leaves `make test` runs in `make test-long` or `make test-kernels`, and what these scripts name is
// there: a test that was renamed would be run by nobody.
func TestLongTestsRun(t *testing.T) {
	script := func(name string) string {
		text, err := os.ReadFile("scripts/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	usual, kernels := script("test"), script("test-kernels")
	lists := strings.Join(longLists.FindAllString(usual, -1), "\n")
	long, first := longFolder.FindStringSubmatch(usual), slowFolder.FindAllStringSubmatch(usual, -1)
	if lists == "" || long == nil || len(first) != 2 {
		t.Fatal("scripts/test has no lists of tests and packages any more")
	}
	slow := slices.Concat(strings.Fields(first[0][1]), strings.Fields(first[1][1]))
	inLong := func(name, dir string) bool {
		return slices.Contains(testName.FindAllString(lists, -1), name) &&
			(strings.Contains(lists, "./"+dir+" ") || slices.Contains(strings.Fields(long[1]), strings.TrimPrefix(dir, "internal/")))
	}
	inKernels := func(name, dir string) bool {
		return slices.Contains(testName.FindAllString(kernels, -1), name) && strings.Contains(kernels, "./"+dir)
	}

	there, folders := map[string]bool{}, map[string]bool{}
	sources := allSources(t)
	asking := askingFunctions(sources)
	for _, s := range sources {
		folders[s.dir] = true
		if !s.test {
			continue
		}
		for _, d := range s.syntax.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv != nil || !testName.MatchString(f.Name.Name) {
				continue
			}
			there[f.Name.Name] = true
			if asking[s.dir][f.Name.Name] && !inLong(f.Name.Name, s.dir) && !inKernels(f.Name.Name, s.dir) {
				t.Errorf("%s is cut short in make test, and neither make test-long nor make test-kernels runs it in %s", f.Name.Name, s.dir)
			}
		}
	}
	for _, name := range testName.FindAllString(usual+kernels, -1) {
		if !there[name] {
			t.Errorf("a script of tests names %s, which is no test", name)
		}
	}
	for _, dir := range slices.Concat(strings.Fields(long[1]), slow) {
		if !folders["internal/"+dir] {
			t.Errorf("scripts/test names the package internal/%s, which is not there", dir)
		}
	}
}

// askingFunctions are, by folder, the functions of tests that ask how long tests may take, or call one that does.
func askingFunctions(sources []*source) map[string]map[string]bool {
	asking := map[string]map[string]bool{}
	for found := true; found; {
		found = false
		for _, s := range sources {
			if asking[s.dir] == nil {
				asking[s.dir] = map[string]bool{}
			}
			for _, d := range s.syntax.Decls {
				f, ok := d.(*ast.FuncDecl)
				if ok && s.test && f.Recv == nil && !asking[s.dir][f.Name.Name] && asksForLong(f, asking[s.dir]) {
					asking[s.dir][f.Name.Name], found = true, true
				}
			}
		}
	}
	return asking
}

// asksForLong tells whether a function asks how long tests may take, or calls one that is known to ask.
func asksForLong(f *ast.FuncDecl, known map[string]bool) (asks bool) {
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			of, ok := n.X.(*ast.Ident)
			asks = asks || ok && slices.Contains([]string{"testenv", "plain"}, of.Name) && slices.Contains([]string{"NeedsLong", "Long"}, n.Sel.Name)
		case *ast.CallExpr:
			of, ok := n.Fun.(*ast.Ident)
			asks = asks || ok && known[of.Name]
		}
		return !asks
	})
	return asks
}

// What make test-mutations takes out of the fast path is still there, each once.
func TestMutationsApply(t *testing.T) {
	if said, err := exec.Command("scripts/test-mutations", "-n").CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, said)
	}
}

// Whatever ends scripts/test, all that it has started ends with it, at whatever depth.
func TestScriptEndsWhatItStarted(t *testing.T) {
	out, err := exec.Command("bash", "-c", `
		source <(sed -n '/^descendants()/,/^}/p' scripts/test)
		bash -c 'bash -c "sleep 300; true" & wait' &
		until child=$(pgrep -P $!) && grandchild=$(pgrep -P $child); do kill -0 $! || exit 1; done
		all=$(descendants $$)
		kill $! $child $grandchild
		for pid in $! $child $grandchild; do grep -qx $pid <<<"$all" || echo "$pid is not among $all"; done
	`).Output()
	if err != nil || len(out) > 0 {
		t.Errorf("%v: %s", err, out)
	}
}
