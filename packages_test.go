package venturi_test

import (
	"bytes"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Lines of hand-written code, without tests.
const (
	largePackage  = 4500 // more need a reason
	medianPackage = 900  // half of all packages stay below
)

// architectureLines is how long docs/architecture.md may be: it takes ten minutes to read.
const architectureLines = 200

var (
	packageList  = regexp.MustCompile(`(?s)\n## The packages\n(.*?)\n## `)
	packageName  = regexp.MustCompile(`\b([a-z0-9-]+)/`)
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
	lines := packageLines(t)
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

// packageLines is how large packages are.
func packageLines(t *testing.T) map[string]int {
	lines := map[string]int{}
	for _, s := range allSources(t) {
		if !s.test && !s.generated {
			lines[s.dir] += bytes.Count(s.text, []byte("\n"))
		}
	}
	return lines
}

// Most packages can be read in one sitting.
func TestMedianPackage(t *testing.T) {
	sizes := slices.Sorted(maps.Values(packageLines(t)))
	if median := sizes[len(sizes)/2]; median >= medianPackage {
		t.Errorf("half of %d packages have %d lines or more, %d at most are fine: part some", len(sizes), median, medianPackage)
	}
}

// docs/architecture.md is short, names every package that is directly below internal/, and no
// other folder.
func TestArchitectureIsTrue(t *testing.T) {
	page, err := os.ReadFile("docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(page, []byte("\n")); n > architectureLines {
		t.Errorf("docs/architecture.md has %d lines, at most %d are read", n, architectureLines)
	}
	section := packageList.FindSubmatch(page)
	if section == nil {
		t.Fatal("docs/architecture.md has no list of packages")
	}
	folders := map[string]bool{"internal": true, "cmd": true} // the roots, which the list writes as it does packages
	top := map[string]bool{}
	for _, s := range allSources(t) {
		parts := strings.Split(s.dir, "/")
		for _, part := range parts {
			folders[part] = true
		}
		if parts[0] == "internal" {
			top[parts[1]] = true
		}
	}
	for _, name := range packageName.FindAllSubmatch(section[1], -1) {
		if !folders[string(name[1])] {
			t.Errorf("docs/architecture.md lists %s/, and no package is in such a folder", name[1])
		}
		delete(top, string(name[1]))
	}
	for name := range top {
		t.Errorf("docs/architecture.md does not say what internal/%s does", name)
	}
}
