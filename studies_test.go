package venturi_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// fakeStudies stands for venturi where scripts/studies runs in a test: it writes its command
// lines into the file calls, lacks something for the study "modules" unless a kernel is given,
// and reports a table.
const fakeStudies = `#!/usr/bin/env bash
echo "$*" >>calls
case "$*" in
*--kernel*) ;;
"study run modules "*) exit 4 ;;
"study run broken "*) exit 1 ;;
esac
[ "$1" != report ] || printf '# A study\n\n- **run**: today\n\n## A table\n\n| a |\n|---|\n| 1 |\n\n## Notes\n\n- a note\n'
`

// studyPages makes a folder with scripts/studies, fakeStudies and the pages of two studies, and
// returns how to run the script there.
func studyPages(t *testing.T) (dir string, run func(env ...string) (string, error)) {
	t.Helper()
	dir = t.TempDir()
	script, err := os.ReadFile("scripts/studies")
	if err != nil {
		t.Fatal(err)
	}
	page := "# A page\n\n## What came out\n\n<!-- tables: make studies writes them -->\n\nold\n\n<!-- end of the tables -->\n\nClaims\n"
	for file, text := range map[string]string{
		"scripts/studies": string(script), "bin/venturi": fakeStudies,
		"studies/modules.yaml": "", "studies/plain.yaml": "", "docs/studies/modules.md": page, "docs/studies/plain.md": page,
	} {
		file = filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir, func(env ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "scripts", "studies"))
		cmd.Env = append(os.Environ(), env...)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
}

// The headings of a study's tables stand below that of their page, whose claims stay.
func TestStudyPages(t *testing.T) {
	dir, run := studyPages(t)
	if out, err := run(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	page, err := os.ReadFile(filepath.Join(dir, "docs", "studies", "plain.md"))
	if err != nil {
		t.Fatal(err)
	}
	const want = "\n`venturi study run plain`:\n\n- **run**: today\n\n### A table\n\n| a |\n|---|\n| 1 |\n\n### Notes\n\n- a note\n\n<!-- end of the tables -->\n\nClaims\n"
	if !strings.HasSuffix(string(page), want) {
		t.Errorf("the page is:\n%s", page)
	}
}
