package testenv

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// Detach takes a BPF link away for good. To close it is not enough: whoever lists the host's
// links, as the fast path of another package's tests does, holds each of them for a moment.
func Detach(t *testing.T, l link.Link) {
	t.Helper()
	info, err := l.Info()
	Must(t, err)
	Must(t, l.Detach())
	Must(t, l.Close())
	for end := time.Now().Add(Timeout); ; time.Sleep(time.Millisecond) {
		again, err := link.NewFromID(info.ID)
		if errors.Is(err, fs.ErrNotExist) {
			return
		}
		Must(t, err)
		Must(t, again.Close())
		if time.Now().After(end) {
			t.Fatalf("BPF link %d was detached and closed, and is still listed %v later: somebody holds it", info.ID, Timeout)
		}
	}
}

// LockNetfilterPrograms keeps other packages' tests from attaching BPF programs to netfilter's
// hooks until unlock. Some kernels do not tell which network namespace such a program is in, so
// that the fast path must take each for its own.
func LockNetfilterPrograms(t *testing.T) (unlock func()) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(os.TempDir(), "venturi-test-netfilter-programs.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	Must(t, err)
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { Must(t, f.Close()) }
		}
		if !errors.Is(err, unix.EWOULDBLOCK) || time.Now().After(end) {
			t.Fatalf("lock %s: %v", f.Name(), err)
		}
	}
}
