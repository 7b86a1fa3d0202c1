package venturi_test

import (
	"bytes"
	"os"
	"regexp"
	"testing"
)

// largePackage is how many lines of hand-written code, without tests, need a reason.
const largePackage = 4500

var (
	largeSection = regexp.MustCompile(`(?s)\n### Large packages\n(.*?)\n## `)
	largeRow     = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| [^|]+ \\|$")
)

// A large package has its reason in docs/architecture.md.
func TestLargePackages(t *testing.T) {
	page, err := os.ReadFile("docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	reasons := map[string]bool{}
	if section := largeSection.FindStringSubmatch(string(page)); section != nil {
		for _, row := range largeRow.FindAllStringSubmatch(section[1], -1) {
			reasons["internal/"+row[1]] = true
		}
	}
	lines := map[string]int{}
	for _, s := range allSources(t) {
		if !s.test && !s.generated {
			lines[s.dir] += bytes.Count(s.text, []byte("\n"))
		}
	}
	for dir, n := range lines {
		if n > largePackage && !reasons[dir] {
			t.Errorf("%s has %d lines, more than %d: part it, or say in docs/architecture.md why it is one package", dir, n, largePackage)
		}
	}
	for dir := range reasons {
		if lines[dir] == 0 {
			t.Errorf("docs/architecture.md gives a reason for %s, which is not there", dir)
		}
	}
}
