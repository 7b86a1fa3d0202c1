package nlmsg

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// A dump is repeated when it was interrupted, a few times, and for no other reason.
func TestDump(t *testing.T) {
	interrupted := fmt.Errorf("list: %w", ErrInterrupted)
	for _, c := range []struct {
		errs []error // of each try
		want error
	}{
		{[]error{nil}, nil},
		{[]error{interrupted, nil}, nil},
		{[]error{interrupted, unix.EPERM}, unix.EPERM},
		{[]error{unix.EPERM}, unix.EPERM},
		{[]error{interrupted, interrupted, interrupted}, ErrInterrupted},
	} {
		tries := 0
		found, err := Dump(func() ([]int, error) {
			tries++
			return []int{tries}, c.errs[tries-1]
		})
		if !errors.Is(err, c.want) || tries != len(c.errs) || !slices.Equal(found, []int{tries}) {
			t.Errorf("%v: %v, error %v, after %d tries", c.errs, found, err, tries)
		}
	}
}
