package vm_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/internal/vm"
)

// A config that is wrong is an error also for a process that was told to end at once.
func TestHoldChecksConfig(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(file, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := vm.Hold(ctx, vm.HoldOptions{Config: file}); verr.Code(err) != verr.Usage {
		t.Errorf("held with an empty config: %v, want exit code %d", err, verr.Usage)
	}
}
