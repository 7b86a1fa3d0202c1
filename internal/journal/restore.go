package journal

import (
	"errors"
	"fmt"
	"os"

	"github.com/venturi-net/venturi/internal/change"
)

// surroundings are the cells around one that is to be restored, at three times.
type surroundings struct {
	before []Kept // before it was written
	after  []Kept // after it was written, those that were other ones then
	now    []Kept // just before it is restored
}

// want is what a cell of the surroundings shall hold in the end. What nobody
// changed since our write gets its value from before; what somebody did, keeps it.
func (s surroundings) want(k Kept) change.Value {
	after, changed := keptOf(s.after, k.Cell)
	if !changed {
		after = k.Value
	}
	now, known := keptOf(s.now, k.Cell)
	if !known || now.Equal(after) {
		return k.Value
	}
	return now
}

// restore makes a cell hold a value that it held before, exactly, and puts right
// what that write and the one that it takes back changed around it.
func (j *Journal) restore(cell change.Cell, to change.Value, s surroundings) error {
	if err := j.cells.Sweep(cell); err != nil {
		return err
	}
	failed := []error{j.exactly(cell, to)}
	for _, k := range s.before {
		want := s.want(k)
		if !want.Present {
			continue // it did not exist, or does not any more
		}
		failed = append(failed, j.exactly(k.Cell, want))
	}
	return errors.Join(failed...)
}

// exactly makes a cell hold a value, byte for byte, if it does not.
func (j *Journal) exactly(cell change.Cell, want change.Value) error {
	now, err := j.cells.Read(cell)
	if err != nil && !errors.Is(err, os.ErrNotExist) || err == nil && now.Equal(want) {
		return err
	}
	if err := j.cells.Write(cell, want); err != nil {
		return err
	}
	if now, err = j.cells.Read(cell); err != nil {
		return err
	}
	if !now.Equal(want) {
		return fmt.Errorf("write %s: %w: wrote %q, it shows %q", cell, ErrIgnored, want, now)
	}
	return nil
}
