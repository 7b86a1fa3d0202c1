package result

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
)

var errLong = fmt.Errorf("line is longer than %d bytes", maxLine)

// blockSize is how much of a record is parsed at once, bytes.
const blockSize = 256 << 10

// block is some lines of a record. A goroutine parses it, while others are read.
type block struct {
	first  int // line number
	text   []byte
	lines  []parsedLine // those before the first that is wrong
	rest   []byte       // of the last block: what follows its last newline
	last   bool
	err    error
	parsed chan struct{}
	scan   scanner
}

// parsedLine is a line, and the histograms that a slice does not have yet.
type parsedLine struct {
	Line
	histograms
}

// blockReader reads a record in blocks of whole lines, and parses some at once. Blocks come
// in their order.
type blockReader struct {
	in     io.Reader
	queue  []*block // read, and not returned yet
	spare  []*block
	carry  []byte // begins the next block
	line   int    // lines so far
	closed bool   // there is no more to read
}

// next returns the next block, parsed.
func (r *blockReader) next() *block {
	for !r.closed && len(r.queue) <= runtime.GOMAXPROCS(0) {
		r.queue = append(r.queue, r.read())
	}
	b := r.queue[0]
	r.queue = r.queue[1:]
	<-b.parsed
	return b
}

// free lets a block be used again, with all that is in its lines.
func (r *blockReader) free(b *block) { r.spare = append(r.spare, b) }

// stop waits for blocks that nobody asks for any more.
func (r *blockReader) stop() {
	for _, b := range r.queue {
		<-b.parsed
	}
}

// read reads a block, and starts to parse it.
func (r *blockReader) read() *block {
	var b *block
	if n := len(r.spare); n > 0 {
		b, r.spare = r.spare[n-1], r.spare[:n-1]
	} else {
		b = &block{text: make([]byte, 0, blockSize)}
	}
	b.first, b.lines, b.rest, b.last, b.err, b.parsed = r.line+1, b.lines[:0], nil, false, nil, make(chan struct{})
	b.text = append(b.text[:0], r.carry...)
	end, err := r.fill(b)
	r.line += bytes.Count(b.text[:end], []byte{'\n'})
	r.carry = append(r.carry[:0], b.text[end:]...)
	switch {
	case errors.Is(err, io.EOF):
		b.last, b.rest, r.closed = true, b.text[end:], true
	case errors.Is(err, errLong):
		b.err, r.closed = lineError(r.line+1, err), true
	case err != nil:
		b.err, r.closed = fmt.Errorf("read record: %w", err), true
	}
	go func() {
		b.parse(b.text[:end])
		close(b.parsed)
	}()
	return b
}

// fill reads until the block has a whole line, or more, and returns where the last one ends.
func (r *blockReader) fill(b *block) (end int, err error) {
	for {
		if len(b.text) == cap(b.text) {
			b.text = append(b.text, 0)[:len(b.text)]
		}
		before := len(b.text)
		n, err := r.in.Read(b.text[before:cap(b.text)])
		b.text = b.text[:before+n]
		if at := bytes.LastIndexByte(b.text[before:], '\n'); at >= 0 {
			end = before + at + 1
		}
		if err == nil && len(b.text)-end > maxLine {
			err = errLong
		}
		if err != nil || end > 0 && len(b.text) >= blockSize {
			return end, err
		}
	}
}

// parse parses whole lines, up to the first that cannot be.
func (b *block) parse(text []byte) {
	b.scan.reset()
	for n := b.first; len(text) > 0; n++ {
		end := bytes.IndexByte(text, '\n')
		line := text[:end]
		text = text[end+1:]
		if len(line) >= maxLine {
			b.err, b.last = lineError(n, errLong), false
			return
		}
		if s, h, ok := b.scan.slice(line); ok && n > 1 {
			b.lines = append(b.lines, parsedLine{Line{Slice: s}, h})
			continue
		}
		l, err := parseLine(n, line)
		if err != nil {
			b.err, b.last = err, false
			return
		}
		b.lines = append(b.lines, parsedLine{Line: *l})
	}
}
