package kernel_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/fastpath/kernel"
)

// One has the lock, until another asks for it and it leaves.
func TestPinLock(t *testing.T) {
	folder := t.TempDir()
	first, err := kernel.AcquirePinLock(t.Context(), folder, false)
	if err != nil {
		t.Fatal(err)
	}
	if wanted, err := first.TakeoverRequested(); wanted || err != nil {
		t.Fatalf("nobody asks for the lock, but: %v, %v", wanted, err)
	}
	if _, err := kernel.AcquirePinLock(t.Context(), folder, false); !errors.Is(err, kernel.ErrLocked) {
		t.Fatalf("a second one was let in: %v", err)
	}
	got := make(chan error)
	go func() {
		second, err := kernel.AcquirePinLock(t.Context(), folder, true)
		if err == nil {
			second.Close()
		}
		got <- err
	}()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		wanted, err := first.TakeoverRequested()
		if err != nil {
			t.Fatal(err)
		}
		if wanted {
			break
		}
		if time.Now().After(end) {
			t.Fatal("who has the lock never learns that it is wanted")
		}
	}
	select {
	case err := <-got:
		t.Fatalf("the lock was given before it was left: %v", err)
	default:
	}
	first.Close()
	if err := <-got; err != nil {
		t.Fatal(err)
	}
}

// Who waits behind another that wants to take over can be interrupted.
func TestPinLockTwiceWanted(t *testing.T) {
	folder := t.TempDir()
	first, err := kernel.AcquirePinLock(t.Context(), folder, false)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	wants, err := kernel.LockFolder(t.Context(), filepath.Join(folder, "next"))
	if err != nil {
		t.Fatal(err)
	}
	defer wants.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := kernel.AcquirePinLock(ctx, folder, true); !errors.Is(err, context.Canceled) {
		t.Errorf("AcquirePinLock = %v, want %v", err, context.Canceled)
	}
}

// Who has the lock of a folder that was taken away learns of it, also when
// there is another at its place.
func TestPinLockOfNoFolder(t *testing.T) {
	folder := t.TempDir() + "/pins"
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.Mkdir(folder, 0o700))
	s, err := kernel.AcquirePinLock(t.Context(), folder, false)
	must(err)
	defer s.Close()
	must(os.Rename(folder, folder+".old"))
	for range 2 {
		if _, err := s.TakeoverRequested(); !errors.Is(err, kernel.ErrPinsRemoved) {
			t.Fatalf("nobody says that the folder is gone: %v", err)
		}
		_ = os.Mkdir(folder, 0o700)
	}
}
