package fastpath_test

import (
	"path/filepath"
	"testing"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/testenv"
)

// What was learned before the lease is void with it, however often it was to be: one epoch is enough.
// With the lease, each time has an epoch of its own.
func TestEpochsWithoutLease(t *testing.T) {
	fast, n := newFast(t), space(t)
	c := &fastpath.Config{Kind: fastpath.Routed, Pins: t.TempDir(), State: filepath.Join(t.TempDir(), "state")}
	testenv.InNetns(t, n.Path(), func() error {
		begin, without, leased, with, err := fastpath.LeaseEpochs(c, n, fast)
		if without != begin || leased != begin+1 || with != begin+2 {
			t.Errorf("epochs are %d at first, %d when something is void without a lease, %d with the lease, and %d when something is void with it", begin, without, leased, with)
		}
		return err
	})
}
