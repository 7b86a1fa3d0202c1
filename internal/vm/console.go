package vm

import (
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/venturi-net/venturi/internal/guest"
)

const (
	consoleTail = 16 << 10 // bytes of the console that are kept
	tailLines   = 12       // of them, lines that an error shows
	tailWidth   = 160      // bytes of a line
)

// tail keeps the end of what is written to it, and hands all on to a file.
type tail struct {
	to io.Writer // nil: nowhere

	mu        sync.Mutex
	text      []byte
	lastWrite time.Time
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text, t.lastWrite = append(t.text, b...), time.Now()
	if over := len(t.text) - consoleTail; over > 0 {
		t.text = append(t.text[:0], t.text[over:]...)
	}
	if t.to != nil {
		// A full disk must not stop the machine.
		_, _ = t.to.Write(b)
	}
	return len(b), nil
}

// silence is how long nothing was written, since a time at most.
func (t *tail) silence(since time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lastWrite.After(since) {
		since = t.lastWrite
	}
	return time.Since(since)
}

// forget drops what was kept until now.
func (t *tail) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = nil
}

// lines gives what can be read of it.
func (t *tail) lines() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var lines []string
	for l := range strings.SplitSeq(string(t.text), "\n") {
		if l = strings.TrimRight(plain(l), " "); l != "" {
			lines = append(lines, l[:min(len(l), tailWidth)])
		}
	}
	return lines
}

// plain leaves out what would move a terminal's cursor.
func plain(line string) string {
	var b strings.Builder
	for i := 0; i < len(line); i++ {
		switch {
		case line[i] == 0x1b:
			// ESC [ 2 J or ESC c: it ends with a letter.
			for i+1 < len(line) && !isLetter(line[i+1]) {
				i++
			}
			i++
		case line[i] >= ' ' && line[i] < 0x7f || line[i] == '\t':
			b.WriteByte(line[i])
		}
	}
	return b.String()
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

// lineWith returns the rest of the last line that contains mark; empty: none does.
func lineWith(lines []string, mark string) string {
	found := ""
	for _, l := range lines {
		if _, rest, ok := strings.Cut(l, mark); ok {
			found = strings.Trim(rest, " :-[]")
		}
	}
	return found
}

// errPanicked marks the end of a machine whose kernel panicked. It adds nothing to the
// text, which gives the kernel's own reason.
var errPanicked = errors.New("")

// panicked tells why a kernel panicked, from its last lines.
func panicked(lines []string) string { return lineWith(lines, "Kernel panic - not syncing") }

// gaveUp tells why the guest's first process did.
func gaveUp(lines []string) string { return lineWith(lines, guest.FailurePrefix) }

// saidLast puts the end of the console behind a reason.
func saidLast(why string, lines []string) string {
	if len(lines) == 0 {
		return why + "; its console is empty"
	}
	if len(lines) > tailLines {
		lines = lines[len(lines)-tailLines:]
	}
	return why + "; its console ends with:\n    " + strings.Join(lines, "\n    ")
}

// faults begin what a kernel prints of a fault of its own.
var faults = []string{"BUG:", "Oops:", "general protection fault", "invalid opcode", "stack segment", "double fault"}

// saidOfFault puts behind the reason of a panic the first fault that the console tells of and
// the instruction at fault, or else the console's end. The registers and the calls behind them
// are for the kernel's maker, who asks for the whole console.
func saidOfFault(why string, lines []string) string {
	for i, l := range lines {
		at := slices.IndexFunc(faults, func(f string) bool { return strings.Contains(l, f) })
		if at < 0 {
			continue
		}
		why += "; its console says: " + l[strings.Index(l, faults[at]):]
		for _, l := range lines[i:] {
			if instruction := strings.Index(l, "RIP:"); instruction >= 0 {
				return why + "; " + l[instruction:]
			}
		}
		return why
	}
	return saidLast(why, lines)
}
