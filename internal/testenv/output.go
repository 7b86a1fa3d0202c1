package testenv

import (
	"bytes"
	"sync"
)

// Output takes what a program says, and can be read while it is written.
type Output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write is of [io.Writer].
func (o *Output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

// String is what was said so far.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}
