package testenv

import (
	"errors"
	"io/fs"
	"os"
	"testing"
	"time"

	"github.com/cilium/ebpf/link"
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

// NeedsNobodyBeside skips a test that others see while they run, as one that attaches a BPF program to
// netfilter's hooks: some kernels do not tell which network namespace such a program is in, so that
// each fast path on the machine must take it for its own. scripts/test runs these tests last.
func NeedsNobodyBeside(t *testing.T) {
	t.Helper()
	if os.Getenv("VENTURI_TEST_LOCK") != "" && os.Getenv("VENTURI_TEST_ALONE") == "" {
		t.Skip("tests run beside it: it has a run of its own, at the end of `make test`")
	}
}
