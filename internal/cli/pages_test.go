package cli

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "write the pages in docs that the program prints anew")

// Pages of the documents are what the program says.
func TestPages(t *testing.T) {
	for page, args := range map[string][]string{
		"paths.md":  {"path", "ls", "--md"},
		"knobs.md":  {"knob", "ls", "--md"},
		"doctor.md": {"doctor", "--md"},
	} {
		t.Run(page, func(t *testing.T) {
			var out, errs bytes.Buffer
			env := &Env{Args: args, Stdin: &bytes.Buffer{}, Stdout: &out, Stderr: &errs,
				Getenv: func(string) string { return "" }, Exit: func(int) {}}
			if code := Run(t.Context(), env); code != 0 {
				t.Fatalf("exit code %d: %s", code, &errs)
			}
			file := filepath.Join("..", "..", "docs", page)
			if *update {
				if err := os.WriteFile(file, out.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(text, out.Bytes()) {
				t.Errorf("docs/%s is not what the program prints; write it anew with: go test ./internal/cli -run TestPages -update", page)
			}
		})
	}
}
