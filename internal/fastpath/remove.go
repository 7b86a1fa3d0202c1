package fastpath

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/fastpath/kernel"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/verr"
)

// Remove takes over from the daemon that holds a folder of pins, if it lives, and removes all
// that it has put into the calling thread's namespace.
func Remove(ctx context.Context, pins string) error {
	restored := netcfg.RestoreRCU()
	if _, err := os.Stat(pins); errors.Is(err, fs.ErrNotExist) {
		return restored
	}
	lock, err := kernel.AcquirePinLock(ctx, pins, true)
	if errors.Is(err, kernel.ErrLocked) {
		return verr.Wrap(verr.Busy, "cannot remove the fast path", err, adviceTaken(true))
	}
	if err != nil {
		return err
	}
	defer lock.Close()
	n, err := netcfg.OpenNode()
	if err != nil {
		return err
	}
	defer n.Close()
	detach, restore := expediteEach(func(pin string) error { return kernel.DetachProgram(n, pin) })
	defer restore()
	failed := []error{restored, kernel.MarkClsacts(n, filepath.Dir(pins)), bpf.Remove(pins, detach)}
	filters, err := kernel.Filters(n, pins) // of pins that are gone
	for failed = append(failed, err); len(filters) > 0; filters = filters[1:] {
		failed = append(failed, detach(filters[0]))
	}
	return errors.Join(append(failed, kernel.RemoveClsacts(n))...)
}

// expediteEach has what detaches a program wait for short grace periods only, however many there are,
// until restore is called.
func expediteEach(detach func(pin string) error) (each func(pin string) error, restore func()) {
	step, restore := netcfg.ExpediteRCUSteps()
	return func(pin string) error {
		step()
		return detach(pin)
	}, restore
}
