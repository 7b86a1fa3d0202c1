package compare

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/venturi-net/venturi/result"
)

// The oldest records go, and nothing that is not one.
func TestRemoveOldest(t *testing.T) {
	parent := t.TempDir()
	for _, file := range []string{
		"20260101-000000/" + result.FileName, "20260102-000000/" + result.FileName, "20260102-000000.1/" + result.FileName,
		"20260103-000000/" + result.FileName, "20260104-000000/" + result.FileName,
		"20260102-000000/notes.txt", "mine/" + result.FileName, "history.json",
	} {
		if err := os.MkdirAll(filepath.Join(parent, filepath.Dir(file)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(parent, file), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // the second time there is nothing to do
		if err := RemoveOldest(parent, "", 2); err != nil {
			t.Fatal(err)
		}
	}
	var left []string
	if err := filepath.WalkDir(parent, func(p string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			name, _ := filepath.Rel(parent, p)
			left = append(left, name)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	slices.Sort(left)
	want := []string{"20260102-000000/notes.txt", "20260103-000000/" + result.FileName, "20260104-000000/" + result.FileName, "history.json", "mine/" + result.FileName}
	if !slices.Equal(left, want) {
		t.Errorf("left: %q, wanted %q", left, want)
	}
	if _, err := os.Stat(filepath.Join(parent, "20260101-000000")); err == nil {
		t.Error("an empty folder was left")
	}
}

// Runs that began in the same second are as old as their numbers say.
func TestRemoveOldestOfOneSecond(t *testing.T) {
	parent := t.TempDir()
	for _, name := range []string{"20260102-000000.10", "20260102-000000.2", "20260102-000000", "20260101-235959.11"} {
		if err := os.MkdirAll(filepath.Join(parent, name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(parent, name, result.FileName), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, removed := range []string{"20260101-235959.11", "20260102-000000", "20260102-000000.2"} {
		entries, err := os.ReadDir(parent)
		if err != nil {
			t.Fatal(err)
		}
		if err := RemoveOldest(parent, "", len(entries)-1); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(parent, removed)); err == nil {
			t.Errorf("%s was kept; removed was a later one", removed)
		}
	}
}

// Names are local times, which go back when summer time ends. The run that has just ended stays even if the
// clock was set back.
func TestRemoveOldestByStart(t *testing.T) {
	parent := t.TempDir()
	folder := func(name string) string { return filepath.Join(parent, name) }
	for name, started := range map[string]string{
		"20261025-025900": "2026-10-25T00:59:00Z", "20261025-020100": "2026-10-25T01:01:00Z", // one hour later there
		"20261025-020300": "2026-10-25T01:03:00Z", "19700101-010000": "1970-01-01T00:00:00Z",
	} {
		if err := os.MkdirAll(folder(name), 0o755); err != nil {
			t.Fatal(err)
		}
		at, err := time.Parse(time.RFC3339, started)
		if err != nil {
			t.Fatal(err)
		}
		f, err := os.Create(filepath.Join(folder(name), result.FileName))
		if err != nil {
			t.Fatal(err)
		}
		header := result.Header{Format: result.Format, Version: result.Version, Started: at}
		if err := errors.Join(result.NewWriter(f).Write(result.Line{Header: &header}), f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	if err := RemoveOldest(parent, folder("19700101-010000"), 3); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(parent)
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, e := range entries {
		left = append(left, e.Name())
	}
	if want := []string{"19700101-010000", "20261025-020100", "20261025-020300"}; !slices.Equal(left, want) {
		t.Errorf("left: %q, wanted %q", left, want)
	}
}
