package setting

import (
	"encoding/json"
	"errors"
	"fmt"
)

// pendingWrite is a write of several steps that began, and did not end.
type pendingWrite struct {
	Old Value `json:"old"`
	New Value `json:"new"`
}

// withMarker does a write of several steps. What it is to come to is in a file of its
// own until they are done: whoever finds it there knows that a write was killed.
func withMarker(files Backend, mark Setting, b pendingWrite, steps func() error) (err error) {
	text, err := json.Marshal(b)
	if err != nil {
		return err
	}
	if err := files.Write(mark, Text(string(text))); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, files.Write(mark, Value{})) }()
	return steps()
}

// readMarker reads what a killed write left; there: it left something.
func readMarker(files Backend, mark Setting) (b pendingWrite, there bool, err error) {
	if err := files.Sweep(mark); err != nil {
		return b, false, err
	}
	v, err := files.Read(mark)
	if err != nil || !v.Present {
		return b, false, err
	}
	if err := json.Unmarshal(v.Data, &b); err != nil {
		return b, false, fmt.Errorf("read what was wanted, in %s: %w", mark.Key, err)
	}
	return b, true, nil
}
