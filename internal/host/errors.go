package host

import (
	"errors"
	"os"
)

// ErrGone is wrapped by the error of reading or writing what is no more: the
// namespace or the device went away, and what was in it.
var ErrGone = errors.New("gone")

// InactiveError is why a value cannot be read now: the kernel does not show it as long as
// what has it is down, and may still have it. For who only wants to know what there is, it
// is os.ErrNotExist.
type InactiveError struct{ Why string }

func (e *InactiveError) Error() string { return e.Why }

// Is is of package errors.
func (e *InactiveError) Is(target error) bool { return target == os.ErrNotExist }
