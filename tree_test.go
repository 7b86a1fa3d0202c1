package venturi_test

import (
	"bytes"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// Text that says where somebody worked, or which mirror a package came from,
// is wrong for everybody else.
var foreign = regexp.MustCompile(`(^|[^\w./-])/(wor` + `k|roo` + `t|hom` + `e)/[\w.]|` +
	`(pro` + `xy|su` + `m)\.golang\.org|registry\.n` + `pmjs|py` + `pi\.org|deb\.deb` + `ian\.org|crates\.i` + `o`)

// foreignParts are what each of them has a part of: most files have none, and the expression is slow to say so.
var foreignParts = []string{"/wor" + "k/", "/roo" + "t/", "/hom" + "e/", ".golang" + ".org", "registry.n" + "pmjs", "py" + "pi.org", "deb.deb" + "ian", "crates.i" + "o"}

func TestNoForeignPlaces(t *testing.T) {
	files, err := tree()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		has := func(part string) bool { return bytes.Contains(text, []byte(part)) }
		if !utf8.Valid(text) || !slices.ContainsFunc(foreignParts, has) {
			continue
		}
		for i, line := range strings.Split(string(text), "\n") {
			if found := foreign.FindString(line); found != "" {
				t.Errorf("%s:%d: names a place of one machine or a mirror: %q", f, i+1, found)
			}
		}
	}
}

var (
	markdownLink = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading      = regexp.MustCompile(`(?m)^#+ +(.*)$`)
	notAnchor    = regexp.MustCompile(`[^a-z0-9 _-]`)
)

// Every link inside the project leads somewhere, to the very heading.
func TestDocLinks(t *testing.T) {
	files, err := tree()
	if err != nil {
		t.Fatal(err)
	}
	links := 0
	for _, f := range files {
		if !strings.HasSuffix(f, ".md") {
			continue
		}
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range markdownLink.FindAllStringSubmatch(string(text), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			links++
			target, anchor, _ := strings.Cut(m[1], "#")
			to := f
			if target != "" {
				to = path.Join(path.Dir(f), target)
			}
			there, err := os.ReadFile(to)
			if info, statErr := os.Stat(to); statErr == nil && info.IsDir() {
				err = nil
			}
			if err != nil {
				t.Errorf("%s: link %q leads nowhere", f, m[1])
			} else if anchor != "" && !hasHeading(string(there), anchor) {
				t.Errorf("%s: link %q: no such heading", f, m[1])
			}
		}
	}
	if links == 0 {
		t.Error("no link found in any document: does the test still know their shape?")
	}
}

// hasHeading tells whether a heading of the text becomes this anchor.
func hasHeading(text, anchor string) bool {
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		h := notAnchor.ReplaceAllString(strings.ToLower(m[1]), "")
		if strings.ReplaceAll(h, " ", "-") == anchor {
			return true
		}
	}
	return false
}
