package journal

import (
	"time"

	"github.com/venturi-net/venturi/internal/setting"
)

// record is one line of the journal. Exactly one of its pointers is set.
type record struct {
	Begin   *begin   `json:"begin,omitempty"`   // a transaction begins
	Intent  *intent  `json:"intent,omitempty"`  // a write is about to happen
	Done    *done    `json:"done,omitempty"`    // it happened, and what was found after it
	Turn    *turn    `json:"turn,omitempty"`    // its cell is about to be given back its old value, or the new one again
	Turned  *turned  `json:"turned,omitempty"`  // that is done, and the cells around are in order
	Closed  *closed  `json:"closed,omitempty"`  // there is nothing left to undo of it
	End     *end     `json:"end,omitempty"`     // a transaction has written all that it wanted
	Confirm *confirm `json:"confirm,omitempty"` // a trial was found good
	Cut     *cut     `json:"cut,omitempty"`     // the line before has no end: whoever was to write it was killed, or the machine was
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
	Txn    int           `json:"txn"`
	Entry  int           `json:"entry"`
	Knob   string        `json:"knob,omitempty"`
	Cell   setting.Cell  `json:"cell"`
	Old    setting.Value `json:"old"`
	New    setting.Value `json:"new"`
	Around []Kept        `json:"around,omitempty"` // what else the write may change, and its value before
}

type done struct {
	Entry  int           `json:"entry"`
	Found  setting.Value `json:"found"`            // what was read after the write
	Around []Kept        `json:"around,omitempty"` // what else it changed, and its value after
}

// turn and turned are recorded only where there are cells around: what they hold is lost
// when the driver resets them.
type turn struct {
	Entry  int    `json:"entry"`
	On     bool   `json:"on,omitempty"`     // to the new value
	Wrote  bool   `json:"wrote,omitempty"`  // for a write in doubt: it is known to have been tried
	Around []Kept `json:"around,omitempty"` // what they hold before that, where the journal would not know it
}

type turned struct {
	Entry int `json:"entry"`
}

// closed also says what that changes for later writes, so that one line, which
// is there or not, tells all of it.
type closed struct {
	Entry  int       `json:"entry"`
	State  State     `json:"state"`
	Time   time.Time `json:"time"`
	Why    string    `json:"why,omitempty"`
	HandOn []handOn  `json:"hand_on,omitempty"`
}

type end struct {
	Txn int `json:"txn"`
}

// handOn gives a later write another old value: an earlier one was undone
// beneath it.
type handOn struct {
	Entry int           `json:"entry"`          // the later one
	Cell  *setting.Cell `json:"cell,omitempty"` // one around it; nil: its own
	Old   setting.Value `json:"old"`
	All   bool          `json:"all,omitempty"` // of a cell around: the later one stands for what the earlier one made of it too
	Left  setting.Value `json:"left,omitzero"` // with All: that
}

type confirm struct {
	Txn  int       `json:"txn"`
	Time time.Time `json:"time"`
}

type cut struct {
	Time time.Time `json:"time"` // when that was found
}

// Kept is the value of a cell that a write to another one may change too.
type Kept struct {
	Cell  setting.Cell  `json:"cell"`
	Value setting.Value `json:"value"`
}

// Lease is the time after which whoever holds the lease undoes the transaction.
type Lease struct {
	Length time.Duration `json:"length"` // ns
	Until  time.Duration `json:"until"`  // since boot, the time asleep included (CLOCK_BOOTTIME); ns
	Kind   LeaseKind     `json:"kind,omitempty"`
}

// LeaseKind is what a lease is for. A journal that does not say has trials only.
type LeaseKind string

// Kinds of leases.
const (
	Trial LeaseKind = "trial" // it stays if it is confirmed in time
	Proof LeaseKind = "proof" // it is undone in any case: values were only tried
)

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
	ID     int            `json:"id"`
	Txn    int            `json:"txn"`
	Knob   string         `json:"knob,omitempty"`
	Cell   setting.Cell   `json:"cell"`
	Old    setting.Value  `json:"old"`
	New    setting.Value  `json:"new"`             // as asked for
	Found  *setting.Value `json:"found,omitempty"` // read after the write; nil while in doubt
	State  State          `json:"state"`
	Why    string         `json:"why,omitempty"` // of the state
	Closed time.Time      `json:"closed,omitzero"`

	id     string          // of the cell
	once   []setting.Value // old values that it had before it was handed others
	around []*aside
	turn   *turn // the last one that was begun and not finished
	off    bool  // it was swung back, and the cells around with it
}

// aside is a cell around that of a write.
type aside struct {
	cell   setting.Cell
	id     string
	before setting.Value
	after  *setting.Value // what the write made of it; nil: it left it alone, or that is not known
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

// OfProof tells whether the transaction only tried values, to prove what helps.
func (t *Txn) OfProof() bool { return t.Lease != nil && t.Lease.Kind == Proof }

// Open tells whether there may be something to undo.
func (t *Txn) Open() bool {
	for _, e := range t.Entries {
		if e.State.Open() {
			return true
		}
	}
	return false
}
