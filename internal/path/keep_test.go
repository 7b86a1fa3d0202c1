package path

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/venturi-net/venturi/internal/feature"
	"github.com/venturi-net/venturi/internal/kernel"
)

// The need for any kernel looks whether one is kept.
func TestKeptKernel(t *testing.T) {
	store := t.TempDir()
	t.Setenv(kernel.StoreVariable, store)
	if answer, why := keptKernel("").Ask(); answer != feature.No || why == nil {
		t.Errorf("without any kernel: %v, %v", answer, why)
	}
	const release = "6.1.0-1-amd64"
	image := filepath.Join(store, release, "boot", "vmlinuz-"+release)
	if err := os.MkdirAll(filepath.Dir(image), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(image, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if answer, why := keptKernel("").Ask(); answer != feature.Yes {
		t.Errorf("with one that is kept: %v, %v", answer, why)
	}
}
