package cli

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "write docs/paths.md anew")

// docs/paths.md is what the program says.
func TestPathsPage(t *testing.T) {
	var out, errs bytes.Buffer
	env := &Env{Args: []string{"path", "ls", "--md"}, Stdin: &bytes.Buffer{}, Stdout: &out, Stderr: &errs,
		Getenv: func(string) string { return "" }, Exit: func(int) {}}
	if code := Run(t.Context(), env); code != 0 {
		t.Fatalf("exit code %d: %s", code, &errs)
	}
	file := filepath.Join("..", "..", "docs", "paths.md")
	if *update {
		if err := os.WriteFile(file, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(page, out.Bytes()) {
		t.Error("docs/paths.md is not what `venturi path ls --md` prints; write it anew with: go test ./internal/cli -run TestPathsPage -update")
	}
}
