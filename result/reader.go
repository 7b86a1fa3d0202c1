package result

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
)

// FileName is the name of the record in the folder of a run.
const FileName = "record.jsonl"

// What can be wrong with a record as a whole. What is wrong with one line is a
// [SyntaxError].
var (
	ErrTruncated = errors.New("record is truncated")
	ErrNewer     = errors.New("record was written by a newer version")
	ErrNotRecord = errors.New("not a venturi record")
)

// SyntaxError is a line that breaks the format.
type SyntaxError struct {
	Line int // from 1
	Msg  string
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("record line %d: %s", e.Line, e.Msg) }

// Record is a whole record in memory.
type Record struct {
	Header   Header
	Plan     Plan
	Facts    []Facts
	Slices   []Slice
	Meters   []Meter
	Warnings []Warning
	End      *End // nil: truncated, or still running

	// Merged says which of the slices stand for several: a long record, of more than 49,152
	// slices, would not fit in memory as it is.
	Merged Merged
}

// Emulated tells that software played the CPU of a machine.
func (r *Record) Emulated() bool {
	return slices.ContainsFunc(r.Facts, func(f Facts) bool { return f.Emulated })
}

// Add takes one line in, in the order of the stream, without checking it.
func (r *Record) Add(l Line) {
	switch {
	case l.Header != nil:
		r.Header = *l.Header
	case l.Plan != nil:
		r.Plan = *l.Plan
	case l.Facts != nil:
		r.Facts = append(r.Facts, *l.Facts)
	case l.Slice != nil:
		r.Slices = append(r.Slices, *l.Slice)
	case l.Meter != nil:
		r.Meters = append(r.Meters, *l.Meter)
	case l.Warning != nil:
		r.Warnings = append(r.Warnings, *l.Warning)
	case l.End != nil:
		end := *l.End
		r.End = &end
	}
}

// Open reads the record at path: a file, or the folder of a run, which holds
// it under [FileName]. Errors are those of [Read], or the file system's.
func Open(path string) (*Record, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("open record: %w", err)
	}
	if info.IsDir() {
		path = filepath.Join(path, FileName)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open record: %w", err)
	}
	defer f.Close()
	return Read(f)
}

// Read reads a record. Its errors are ErrNotRecord, ErrNewer, ErrTruncated
// (use errors.Is), a *SyntaxError, or what r returned. With ErrTruncated the
// record is not nil and holds the lines that are whole; if it has a plan a
// report can be made from it. Of a long record, see [Record.Merged].
func Read(r io.Reader) (*Record, error) {
	rec := &Record{}
	var check checker
	merged := newMerger(rec)
	in := blockReader{in: r}
	defer in.stop()
	for {
		b := in.next()
		for i := range b.lines {
			l := &b.lines[i]
			if err := check.line(&l.Line); err != nil {
				return nil, lineError(b.first+i, err)
			}
			if l.Slice != nil {
				merged.add(l.Slice, l.histograms)
			} else {
				rec.Add(l.Line)
			}
		}
		if b.err != nil {
			return nil, b.err
		}
		if b.last {
			merged.end()
			return endOfText(rec, &check, b.first+len(b.lines), b.rest)
		}
		in.free(b)
	}
}

// endOfText judges a stream that has no further whole line; rest is what
// follows the last newline.
func endOfText(rec *Record, check *checker, n int, rest []byte) (*Record, error) {
	if check.ended {
		if len(rest) > 0 {
			return nil, &SyntaxError{Line: n, Msg: "text follows the end line"}
		}
		return rec, nil
	}
	if n == 1 && !startsLikeHeader(rest) {
		return nil, fmt.Errorf("first line %.40q: %w", rest, ErrNotRecord)
	}
	if len(rest) > 0 {
		return rec, fmt.Errorf("line %d is cut: %w", n, ErrTruncated)
	}
	return rec, fmt.Errorf("no end line after line %d: %w", n-1, ErrTruncated)
}

// startsLikeHeader tells a cut header from a file that is something else.
func startsLikeHeader(text []byte) bool {
	const start = `{"header":{`
	if len(text) > len(start) {
		text = text[:len(start)]
	}
	return bytes.HasPrefix([]byte(start), text)
}

// parseLine decodes line n. The first is looked at leniently before: a newer
// header may have keys that this version does not know, and text that is no
// record at all deserves a better word than a JSON error.
func parseLine(n int, text []byte) (*Line, error) {
	if n == 1 {
		var first struct {
			Header *struct {
				Format  string `json:"format"`
				Version int    `json:"version"`
			} `json:"header"`
		}
		if err := json.Unmarshal(text, &first); err != nil || first.Header == nil || first.Header.Format != Format {
			return nil, fmt.Errorf("first line %.40q: %w", text, ErrNotRecord)
		}
		if first.Header.Version > Version {
			return nil, fmt.Errorf("version %d, this program reads up to %d: %w", first.Header.Version, Version, ErrNewer)
		}
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	l := &Line{}
	if err := dec.Decode(l); err != nil {
		return nil, lineError(n, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, &SyntaxError{Line: n, Msg: "text follows the object"}
	}
	return l, nil
}

// lineError keeps the sentinels visible and makes a SyntaxError of the rest.
func lineError(n int, err error) error {
	if errors.Is(err, ErrNewer) || errors.Is(err, ErrNotRecord) {
		return err
	}
	return &SyntaxError{Line: n, Msg: err.Error()}
}
