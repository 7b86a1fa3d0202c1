package feature

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A program is found where PATH says, but not in a folder that depends on where
// the process happens to be.
func TestFind(t *testing.T) {
	folder := t.TempDir()
	p := Program{Name: "venturi-test-program", Package: "some"}
	if err := os.WriteFile(filepath.Join(folder, p.Name), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir(folder)
	for path, found := range map[string]bool{folder: true, ".": false, "": false, ":": false, "/nowhere:" + folder: true} {
		t.Setenv("PATH", path)
		if file, err := p.Find(); (err == nil) != found || found && file != filepath.Join(folder, p.Name) {
			t.Errorf("with PATH=%q: %s, %v, want that it is found: %v", path, file, err, found)
		}
	}
}

func TestFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "schema")
	f := File{Path: file, Package: "some"}
	err := Require("cannot raise", f)
	if answer, _ := f.Ask(); answer != No || err == nil || !strings.Contains(err.Error(), "apt-get install some") {
		t.Errorf("%v, %v, want that it is not there and how to get it", answer, err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if answer, err := f.Ask(); answer != Yes || err != nil {
		t.Errorf("%v, %v, want that it is there", answer, err)
	}
}

// A program may be a file that is on nobody's PATH, and only Debian is told to use apt-get.
func TestOtherSystems(t *testing.T) {
	t.Setenv("PATH", "")
	p := Program{Name: "venturi-test-program", Package: "some", Alternative: filepath.Join(t.TempDir(), "libexec")}
	if file, err := p.Find(); err == nil {
		t.Errorf("found %s, which is not there", file)
	}
	if err := os.WriteFile(p.Alternative, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	if file, err := p.Find(); err != nil || file != p.Alternative {
		t.Errorf("found %q, %v, want %s", file, err, p.Alternative)
	}
	for debian, want := range map[bool]string{
		true: "install the package some (apt-get install some)", false: "install this (on Debian: apt-get install some)",
	} {
		if got := install(debian, "this", "some"); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
