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
// fails for "broken", and reports a table of others.
const fakeStudies = `#!/usr/bin/env bash
echo "$*" >>calls
case "$*" in
*--kernel*) ;;
"study run modules "*) exit 4 ;;
*" broken "*) exit 1 ;;
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

// A study that lacks something on this machine runs under another kernel, and its page says so.
// One that fails is named, and the pages of the others are written.
func TestStudiesUnderAnotherKernel(t *testing.T) {
	dir, run := studyPages(t)
	read := func(file string) string {
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if out, err := run("KERNEL=5.10"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	const first = `study run modules --wait --out venturi-runs/studies/modules
kernel fetch 5.10
study run modules --wait --out venturi-runs/studies/modules --kernel 5.10
report --study modules --format md --partial venturi-runs/studies/modules
study run plain --wait --out venturi-runs/studies/plain
report --study plain --format md --partial venturi-runs/studies/plain
`
	if got := read("calls"); got != first {
		t.Errorf("venturi was called so:\n%s", got)
	}
	if page := read("docs/studies/modules.md"); !strings.Contains(page, "\n`venturi study run modules --kernel 5.10`:\n\n- **run**: today\n") {
		t.Errorf("the page is:\n%s", page)
	}
	if page := read("docs/studies/plain.md"); !strings.Contains(page, "\n`venturi study run plain`:\n") {
		t.Errorf("the page is:\n%s", page)
	}

	// Whoever chooses a kernel gets no other one.
	if out, err := run("STUDY_ARGS=--seed 3 --kernel 6.12"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if got := strings.TrimPrefix(read("calls"), first); strings.Contains(got, "kernel fetch") || strings.Count(got, "--seed 3 --kernel 6.12\n") != 2 {
		t.Errorf("venturi was called so:\n%s", got)
	}
}

// A study without tables is named at the end, after the pages of the others.
func TestFailedStudy(t *testing.T) {
	dir, run := studyPages(t)
	for from, to := range map[string]string{"studies/modules.yaml": "studies/broken.yaml", "docs/studies/modules.md": "docs/studies/broken.md"} {
		if err := os.Rename(filepath.Join(dir, from), filepath.Join(dir, to)); err != nil {
			t.Fatal(err)
		}
	}
	out, err := run()
	if err == nil || !strings.Contains(out, "studies: no tables of broken (exit code 1)") {
		t.Errorf("%v: %s", err, out)
	}
	page, err := os.ReadFile(filepath.Join(dir, "docs", "studies", "plain.md"))
	if err != nil || !strings.Contains(string(page), "### A table") {
		t.Errorf("%v: the other page is:\n%s", err, page)
	}
}
