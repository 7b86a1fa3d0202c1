package compare

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/venturi-net/venturi/internal/experiment"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/result"
)

func TestOutput(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "a", "b")
	o, err := createRecord(folder, nil)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(o.path); err != nil || info.Size() != 0 {
		t.Errorf("a new record: %v, %v", info, err)
	}
	if _, err := createRecord(folder, nil); verr.Code(err) != verr.Usage {
		t.Errorf("a folder that holds a record: %v", err)
	}
	// Nothing was measured: nothing is left, not even the folders.
	if err := o.close(&result.Record{}); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Dir(folder)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("left %s: %v", filepath.Dir(folder), err)
	}
}

// TestOutputKept wants a record with slices kept, and what else is in the folder.
func TestOutputKept(t *testing.T) {
	folder := t.TempDir()
	o, err := createRecord(folder, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := o.close(&result.Record{Slices: make([]result.Slice, 1)}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(o.path); err != nil {
		t.Error(err)
	}
}

// TestOwner wants all that was made to belong to who called sudo, and the
// folder that was there before to whom it did.
func TestOwner(t *testing.T) {
	testenv.Root(t)
	there := t.TempDir()
	o, err := createRecord(filepath.Join(there, "runs", "one"), &Owner{UID: 12345, GID: 54321})
	if err != nil {
		t.Fatal(err)
	}
	defer o.close(nil)
	for path, want := range map[string]uint32{o.path: 12345, filepath.Dir(o.path): 12345, filepath.Join(there, "runs"): 12345, there: 0} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Sys().(*syscall.Stat_t).Uid; got != want {
			t.Errorf("%s belongs to %d, want %d", path, got, want)
		}
	}
}

func TestRecordError(t *testing.T) {
	other := errors.New("something else")
	if err := recordError(other); err != other {
		t.Errorf("another error becomes %v", err)
	}
	full := errors.Join(experiment.ErrRecord, syscall.ENOSPC)
	if err := recordError(full); verr.Code(err) != verr.Failed || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a full disk becomes %v", err)
	}
}
