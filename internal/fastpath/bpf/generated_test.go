package bpf_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/testenv"
)

// compiler is what the committed objects were made with; others make other bytes.
const compiler = "clang version 14."

// The committed objects are what the C files make, to the byte.
func TestGenerated(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds bpf2go and compiles every program: a minute")
	}
	version, err := exec.Command("clang", "--version").Output()
	if err != nil || !bytes.Contains(version, []byte(compiler)) {
		if testenv.Required() {
			t.Fatalf("no %s here: %v %s", compiler, err, version)
		}
		t.Skipf("no %s here", compiler)
	}
	source, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	made := t.TempDir()
	compared := 0
	for line := range strings.Lines(string(source)) {
		command, ok := strings.CutPrefix(strings.TrimSpace(line), "//go:generate ")
		if !ok {
			continue
		}
		command = strings.Replace(command, "bpf2go ", "bpf2go -output-dir "+made+" ", 1)
		if out, err := exec.Command("sh", "-c", command).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
	}
	files, err := filepath.Glob(made + "/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		want, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Base(f)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what the C files make: run make generate (%v)", filepath.Base(f), err)
		}
		compared++
	}
	if compared == 0 {
		t.Error("nothing was made, so nothing was compared")
	}
}
