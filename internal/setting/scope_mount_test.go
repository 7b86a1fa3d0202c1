package setting_test

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/host"
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

// A namespace whose file is mounted where the first process sees it, and not where this one does, is not gone.
func TestNamespaceOutsideOwnMounts(t *testing.T) {
	w, n := testenv.Namespace(t)
	scope, err := setting.NetnsScope(n.Path())
	testenv.Must(t, err)
	testenv.Must(t, host.InThread(func() error {
		runtime.LockOSThread() // for good: the thread, with mounts of its own, ends with its goroutine
		if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
			return err
		}
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			return err
		}
		if err := unix.Unmount(n.Path(), unix.MNT_DETACH); err != nil {
			return err
		}
		if gone, err := scope.Netns.IsGone(); gone || err != nil {
			t.Errorf("gone: %v, %v", gone, err)
		}
		return nil
	}))
	n.Close()
	testenv.Must(t, w.Delete(n.Name()))
	if gone, err := scope.Netns.IsGone(); !gone || err != nil {
		t.Errorf("without its file, gone: %v, %v", gone, err)
	}
}
