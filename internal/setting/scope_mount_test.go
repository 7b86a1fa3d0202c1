package setting_test

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/journal"
	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/testenv"
)

// A namespace that lost its name and is held by a mount somewhere else, as
// container engines do, still has the values that were set.
func TestNamespaceHeldElsewhere(t *testing.T) {
	w, n := testenv.Namespace(t)
	scope, err := setting.NetnsScope(n.Path())
	if err != nil {
		t.Fatal(err)
	}
	_, undo := setByJournal(t, setting.Sysctl(scope, "net.core.somaxconn"), "777")
	kept := filepath.Join(t.TempDir(), "kept here")
	if err := os.WriteFile(kept, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(n.Path(), kept, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(kept, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	n.Close()
	if err := w.Delete(n.Name()); err != nil {
		t.Fatal(err)
	}
	if out := undo(); out.Err != nil || out.Entry.State != journal.Undone {
		t.Errorf("it is %s (%s), %v", out.Entry.State, out.Entry.Reason, out.Err)
	}
}
