package study

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The page of each study has what the write-up claims, when a claim holds here, our tables, which
// claims do, and which cannot be tested here and where they can.
func TestPages(t *testing.T) {
	for _, name := range Names() {
		page, err := os.ReadFile(filepath.Join("..", "..", "docs", "studies", name+".md"))
		if err != nil {
			t.Error(err)
			continue
		}
		for _, part := range []string{
			"## The write-up\n", "| claim | cell", "it holds here if", "## What cannot be tested in a lab\n", "## What came out\n",
			"<!-- tables: make studies writes them -->\n", "<!-- end of the tables -->\n",
		} {
			if !strings.Contains(string(page), part) {
				t.Errorf("%s.md does not have %q", name, part)
			}
		}
		_, tables, _ := strings.Cut(string(page), "<!-- tables: make studies writes them -->\n")
		tables, _, _ = strings.Cut(tables, "<!-- end of the tables -->\n")
		if strings.Contains("\n"+tables, "\n## ") {
			t.Errorf("%s.md has headings among its tables that are not below \"What came out\"", name)
		}
		_, verdicts, _ := strings.Cut(string(page), "## What came out\n")
		if !strings.Contains(verdicts, "| claim | here |") && !strings.Contains(string(page), "| it holds here if | here |") {
			t.Errorf("%s.md does not say which claims hold here", name)
		}
	}
}
