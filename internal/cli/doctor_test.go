package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// docs/doctor.md is what the program says.
func TestDoctorPage(t *testing.T) {
	var out, errs bytes.Buffer
	env := &Env{Args: []string{"doctor", "--md"}, Stdin: &bytes.Buffer{}, Stdout: &out, Stderr: &errs,
		Getenv: func(string) string { return "" }, Exit: func(int) {}}
	if code := Run(t.Context(), env); code != 0 {
		t.Fatalf("exit code %d: %s", code, &errs)
	}
	file := filepath.Join("..", "..", "docs", "doctor.md")
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
		t.Error("docs/doctor.md is not what `venturi doctor --md` prints; write it anew with: go test ./internal/cli -run TestDoctorPage -update")
	}
}
