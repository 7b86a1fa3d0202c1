package result

import (
	"encoding/json"
	"fmt"
	"io"
	"sync"
)

// Writer writes a record line by line. Each line is one Write of the
// underlying writer, so what a killed run leaves is whole lines and at most
// one cut one. It may be used by several goroutines.
type Writer struct {
	mu    sync.Mutex
	w     io.Writer
	check checker
	err   error
}

// NewWriter makes a Writer. It does not buffer; give it a file.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// Write checks l against what came before it (header first, one plan, known
// arms and cells, no slice twice, end last and with the right count) and
// writes it. A line that is refused is not written and the record stays good.
// A line that cannot be written, as on a full disk, ends the record: this and
// every later call return that error.
func (w *Writer) Write(l Line) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return w.err
	}
	text, err := json.Marshal(l)
	if err != nil {
		return fmt.Errorf("encode record line: %w", err)
	}
	if len(text) >= maxLine {
		return fmt.Errorf("encode record line: %d bytes, the limit is %d", len(text), maxLine)
	}
	if err := w.check.line(&l); err != nil {
		return fmt.Errorf("check record line: %w", err)
	}
	text = append(text, '\n')
	n, err := w.w.Write(text)
	if err == nil && n < len(text) {
		err = io.ErrShortWrite
	}
	if err != nil {
		w.err = fmt.Errorf("write record: %w", err)
	}
	return w.err
}

// Slices counts the slice lines so far: what [End] must say.
func (w *Writer) Slices() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.check.slices
}
