package journal

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/setting"
)

// fixture is a machine of files below a folder, and a journal beside it.
func fixture(t *testing.T, files map[string]string) (root string, o Options) {
	t.Helper()
	root = t.TempDir()
	for name, text := range files {
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root, Options{Folder: filepath.Join(t.TempDir(), "journal"), Settings: setting.NewSettings(setting.Backends(root)...), Boot: "this", Sight: host.Sight{Whole: true, ID: "this"}, User: "a test"}
}

func file(name string) setting.Setting { return setting.Setting{Backend: "file", Key: name} }

func TestSetAndUndo(t *testing.T) {
	root, o := fixture(t, map[string]string{"/etc/a": "one\n"})
	j, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	tx, err := j.Begin(0)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"two\n", "three\n"} {
		if _, err := tx.Set("a.knob", setting.Write{Setting: file("/etc/a"), Value: setting.Text(text)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.End(); err != nil {
		t.Fatal(err)
	}
	j.Close()
	if j, err = Open(o); err != nil { // as another process
		t.Fatal(err)
	}
	defer j.Close()
	outcomes, err := j.Undo(nil, UndoOptions{})
	if err != nil || len(outcomes) != 2 {
		t.Fatalf("%v, %v", outcomes, err)
	}
	for _, out := range outcomes {
		if out.Err != nil || out.Entry.State != Undone {
			t.Errorf("%+v", out)
		}
	}
	if text, err := os.ReadFile(filepath.Join(root, "/etc/a")); err != nil || string(text) != "one\n" {
		t.Errorf("the file holds %q, %v", text, err)
	}
}
