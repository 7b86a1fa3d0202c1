package remote

import (
	"strings"
	"sync"

	"github.com/venturi-net/venturi/internal/sanitize"
)

// Tail keeps the end of what is written to it.
type Tail struct {
	mu   sync.Mutex
	text []byte
}

// Write keeps the last 2000 bytes.
func (t *Tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if over := len(t.text) - 2000; over > 0 {
		t.text = t.text[over:]
	}
	return len(p), nil
}

// String is one line, fit for a terminal.
func (t *Tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return sanitize.Text(strings.Join(strings.Fields(string(t.text)), " "))
}
