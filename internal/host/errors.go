package host

import "errors"

// ErrGone is wrapped by the error of reading or writing what is no more: the
// namespace or the device went away, and what was in it.
var ErrGone = errors.New("gone")
