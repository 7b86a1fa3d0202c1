package venturi_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// Limits of prose: what a reader takes in at a glance, and what a diff shows well.
const (
	proseColumns   = 120
	paragraphLines = 6
	readmeLines    = 110
)

var (
	linkTarget = regexp.MustCompile(`\]\([^)]*\)|https?://\S+`)
	listItem   = regexp.MustCompile(`^\s*([-*+]|\d+\.)\s`)
)

// Prose wraps at 120 columns, in paragraphs of at most six lines. Tables, code and the
// targets of links may be wider.
func TestProseWraps(t *testing.T) {
	files, err := tree()
	if err != nil {
		t.Fatal(err)
	}
	pages := 0
	for _, f := range files {
		if !strings.HasSuffix(f, ".md") {
			continue
		}
		pages++
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if f == "README.md" {
			if n := strings.Count(string(text), "\n"); n > readmeLines {
				t.Errorf("%s has %d lines, at most %d fit two screens", f, n, readmeLines)
			}
		}
		checkProse(t, f, string(text))
	}
	if pages < 5 {
		t.Errorf("%d pages found: does the test still know them?", pages)
	}
}

func checkProse(t *testing.T, file, text string) {
	t.Helper()
	fenced, list, lines := false, false, 0
	for i, line := range strings.Split(text, "\n") {
		trimmed := strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(trimmed, "```"):
			fenced, lines = !fenced, 0
			continue
		case fenced:
			continue
		case trimmed == "" || strings.HasPrefix(line, "#") || strings.HasPrefix(trimmed, "|"):
			lines = 0
			continue
		}
		if indented := strings.HasPrefix(line, " "); !indented {
			list = listItem.MatchString(line)
		} else if lines == 0 && !list && strings.HasPrefix(line, "    ") {
			continue // code
		}
		if listItem.MatchString(line) {
			lines = 0
		}
		lines++
		if n := utf8.RuneCountInString(linkTarget.ReplaceAllString(line, "")); n > proseColumns {
			t.Errorf("%s:%d: %d columns, at most %d fit", file, i+1, n, proseColumns)
		}
		if lines == paragraphLines+1 {
			t.Errorf("%s:%d: a paragraph of more than %d lines: say it shorter, or part it", file, i+1, paragraphLines)
		}
	}
}
