package cli

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// shorter are the options that a script may add to a command of the README,
// so that it does not take 90 seconds and reaches the test's machines. They do
// not change what is shown.
var shorter = []string{"--series", "--rounds", "--slice", "--budget", "--seed", "--out", "--interval", "--ssh", "--time"}

// flags are those of them that have no value.
var flags = regexp.MustCompile(` --(wait|one-off)\b`)

// background is how a script lets a command go on.
var background = regexp.MustCompile(` &\w*&$`)

// documentedHost stands for another host; a script has its own.
const documentedHost, loopback = "10.0.0.2", "127.0.0.1"

// Every command that these pages show is run by a script, or
// is a target of the Makefile.
func TestReadmeCommands(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	run := scriptCommands(t)
	for _, page := range []string{"README.md", "docs/commands.md", "docs/machines.md"} {
		text, err := os.ReadFile("../../" + page)
		if err != nil {
			t.Fatal(err)
		}
		lines := shellLines(string(text))
		for _, line := range lines {
			if target, ok := strings.CutPrefix(line, "make "); ok {
				if !regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(target) + `:`).Match(makefile) {
					t.Errorf("%s: %q: the Makefile has no such target", page, line)
				}
				continue
			}
			if !slices.ContainsFunc(run, func(command string) bool { return runs(command, line) }) {
				t.Errorf("%s: %q: no script runs that", page, line)
			}
		}
		if len(lines) < 5 {
			t.Errorf("%s shows %d commands: does the test still know their shape?", page, len(lines))
		}
	}
}

// Every command of kubectl venturi that its page shows exists, with its flags. Tests in
// internal/kube/e2e run those that lead from nothing to a table.
func TestKubernetesCommands(t *testing.T) {
	text, err := os.ReadFile("../../docs/kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := 0
	for _, line := range shellLines(string(text)) {
		command, ok := strings.CutPrefix(line, "kubectl venturi ")
		if !ok {
			continue
		}
		shown++
		command, _, _ = strings.Cut(command, " > ")
		var out, errs bytes.Buffer
		env := &Env{Args: append(strings.Fields(command), "--help"), Stdin: &bytes.Buffer{}, Stdout: &out, Stderr: &errs,
			Getenv: func(string) string { return "" }, Exit: func(int) {}}
		if code := RunAs(t.Context(), kubectlName, env); code != 0 || out.Len() == 0 {
			t.Errorf("%q: exit code %d\n%s%s", line, code, &out, &errs)
		}
	}
	if shown < 10 {
		t.Errorf("the page shows %d commands: does the test still know their shape?", shown)
	}
}

// runs tells whether a script's command is the one shown, but for options that
// make it shorter.
func runs(command, shown string) bool {
	rest, ok := strings.CutPrefix(background.ReplaceAllString(command, "")+" ", strings.ReplaceAll(shown, documentedHost, loopback)+" ")
	if !ok {
		return false
	}
	words := strings.Fields(flags.ReplaceAllString(" "+rest, ""))
	for i := 0; i < len(words); i += 2 {
		if !slices.Contains(shorter, words[i]) {
			return false
		}
	}
	return true
}

// shellLines gives the commands of the fenced blocks that are marked sh, without comments.
func shellLines(markdown string) []string {
	var lines []string
	inside := false
	for line := range strings.Lines(markdown) {
		line, _, _ = strings.Cut(strings.TrimSpace(line), "  #")
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "```"):
			inside = line == "```sh"
		case inside && line != "" && !strings.HasPrefix(line, "#"):
			lines = append(lines, line)
		}
	}
	return lines
}

// scriptCommands gives every command line that a script expects to succeed; 8 is a doctor's
// success with findings.
func scriptCommands(t *testing.T) []string {
	t.Helper()
	var commands []string
	err := filepath.WalkDir("testdata/script", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(p)
		for line := range strings.Lines(string(text)) {
			for _, prefix := range []string{"exec ", "code 0 ", "code 8 ", "nobody 0 "} {
				if command, ok := strings.CutPrefix(strings.TrimSpace(line), prefix); ok {
					commands = append(commands, command)
				}
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return commands
}
