package journal

import (
	"time"

	"github.com/venturi-net/venturi/internal/change"
)

// record is one line of the journal. Exactly one of its pointers is set.
type record struct {
	Begin   *begin   `json:"begin,omitempty"`   // a transaction begins
	Intent  *intent  `json:"intent,omitempty"`  // a write is about to happen
	Done    *done    `json:"done,omitempty"`    // it happened, and what was found after it
	Undoing *undoing `json:"undoing,omitempty"` // it is about to be undone
	Closed  *closed  `json:"closed,omitempty"`  // there is nothing left to undo of it
	End     *end     `json:"end,omitempty"`     // a transaction has written all that it wanted
	Confirm *confirm `json:"confirm,omitempty"` // a trial was found good
	Rebase  *rebase  `json:"rebase,omitempty"`  // a write has another old value from now on
}

type begin struct {
	Txn     int       `json:"txn"`
	Time    time.Time `json:"time"`
	Boot    string    `json:"boot"` // the kernel's boot id
	Who     string    `json:"who"`
	Command string    `json:"command"`
	Version string    `json:"version"`
	Lease   *Lease    `json:"lease,omitempty"`
}

type intent struct {
	Txn    int          `json:"txn"`
	Entry  int          `json:"entry"`
	Knob   string       `json:"knob,omitempty"`
	Cell   change.Cell  `json:"cell"`
	Old    change.Value `json:"old"`
	New    change.Value `json:"new"`
	Around []Kept       `json:"around,omitempty"` // what else the write may change, and its value before
}

type done struct {
	Entry  int          `json:"entry"`
	Found  change.Value `json:"found"`            // what was read after the write
	Around []Kept       `json:"around,omitempty"` // what else it changed, and its value after
}

type undoing struct {
	Entries []int        `json:"entries"` // of one cell
	Found   change.Value `json:"found"`
	Around  []Kept       `json:"around,omitempty"` // the values before it is undone
}

type closed struct {
	Entry int       `json:"entry"`
	State State     `json:"state"`
	Time  time.Time `json:"time"`
	Why   string    `json:"why,omitempty"`
}

type end struct {
	Txn int `json:"txn"`
}

// rebase: an earlier write of the same cell was undone beneath this one.
type rebase struct {
	Entry int          `json:"entry"`
	Old   change.Value `json:"old"`
}

type confirm struct {
	Txn  int       `json:"txn"`
	Time time.Time `json:"time"`
}

// Kept is the value of a cell that a write to another one may change too.
type Kept struct {
	Cell  change.Cell  `json:"cell"`
	Value change.Value `json:"value"`
}

// Lease is the time in which a transaction must be confirmed. After it, whoever
// holds the lease undoes the transaction.
type Lease struct {
	Length time.Duration `json:"length"` // ns
	Until  time.Duration `json:"until"`  // since boot, the time asleep included (CLOCK_BOOTTIME); ns
}

// State is how far a write is.
type State string

// States. All but the first two are final: nothing is left to undo.
const (
	InDoubt State = "in-doubt" // recorded, and then nothing: it may have happened or not
	Done    State = "done"     // written, and read back
	Failed  State = "failed"   // it did not take effect, and the old value stands
	Undone  State = "undone"   // the old value stands again
	Passed  State = "passed"   // undone in the middle of others: the old value went to the next write of the same cell
	Gone    State = "gone"     // the value went away by itself, with a reboot, its device or its namespace
	Left    State = "left"     // given up, by the user's wish: somebody else's value stands
)

// Open tells whether there may be something to undo.
func (s State) Open() bool { return s == InDoubt || s == Done }

// Entry is one write that was recorded.
type Entry struct {
	ID     int           `json:"id"`
	Txn    int           `json:"txn"`
	Knob   string        `json:"knob,omitempty"`
	Cell   change.Cell   `json:"cell"`
	Old    change.Value  `json:"old"`
	New    change.Value  `json:"new"`             // as asked for
	Found  *change.Value `json:"found,omitempty"` // read after the write; nil while in doubt
	State  State         `json:"state"`
	Why    string        `json:"why,omitempty"` // of the state
	Closed time.Time     `json:"closed,omitzero"`

	before, after []Kept // of the cells around it
	undoing       *undoing
}

// Txn is a transaction as the journal tells of it: writes that belong together.
type Txn struct {
	ID        int       `json:"id"`
	Time      time.Time `json:"time"`
	Boot      string    `json:"boot"`
	Who       string    `json:"who"`
	Command   string    `json:"command"`
	Version   string    `json:"version"`
	Lease     *Lease    `json:"lease,omitempty"`
	Ended     bool      `json:"ended"` // it wrote all that it wanted; false: it was killed, or runs
	Confirmed time.Time `json:"confirmed,omitzero"`
	Entries   []*Entry  `json:"entries"`
}

// Open tells whether there may be something to undo.
func (t *Txn) Open() bool {
	for _, e := range t.Entries {
		if e.State.Open() {
			return true
		}
	}
	return false
}
