package journal

import (
	"time"

	"github.com/venturi-net/venturi/internal/setting"
)

// record is one line of the journal. Exactly one of its pointers is set.
type record struct {
	Begin    *beginRecord    `json:"begin,omitempty"`   // a transaction begins
	Intent   *intentRecord   `json:"intent,omitempty"`  // a write is about to happen
	Done     *doneRecord     `json:"done,omitempty"`    // it happened, and what was found after it
	Restore  *restoreRecord  `json:"turn,omitempty"`    // its setting is about to be given back its old value, or the new one again
	Restored *restoredRecord `json:"turned,omitempty"`  // that is done, and the side effects are in order
	Closed   *closedRecord   `json:"closed,omitempty"`  // there is nothing left to undo of it
	End      *endRecord      `json:"end,omitempty"`     // a transaction has written all that it wanted
	Confirm  *confirmRecord  `json:"confirm,omitempty"` // a trial was found good
	Cut      *cutRecord      `json:"cut,omitempty"`     // the line before has no end: whoever was to write it was killed, or the machine was
}

type beginRecord struct {
	Txn     int       `json:"txn"`
	Time    time.Time `json:"time"`
	Boot    string    `json:"boot"` // the kernel's boot id
	User    string    `json:"who"`
	Command string    `json:"command"`
	Version string    `json:"version"`
	Lease   *Lease    `json:"lease,omitempty"`
	Sight   string    `json:"sight,omitempty"` // what of the machine is in sight, by its name; empty: all of it
}

type intentRecord struct {
	Txn         int             `json:"txn"`
	Entry       int             `json:"entry"`
	Knob        string          `json:"knob,omitempty"`
	Setting     setting.Setting `json:"cell"`
	Old         setting.Value   `json:"old"`
	New         setting.Value   `json:"new"`
	SideEffects []Snapshot      `json:"around,omitempty"` // what else the write may change, and its value before
}

type doneRecord struct {
	Entry       int           `json:"entry"`
	Readback    setting.Value `json:"found"`            // what was read after the write
	SideEffects []Snapshot    `json:"around,omitempty"` // what else it changed, and its value after
}

// restoreRecord and restoredRecord are written only where there are side effects: what they hold is lost
// when the driver resets them.
type restoreRecord struct {
	Entry       int        `json:"entry"`
	On          bool       `json:"on,omitempty"`     // to the new value
	Attempted   bool       `json:"wrote,omitempty"`  // for a write in doubt: it is known to have been tried
	SideEffects []Snapshot `json:"around,omitempty"` // what they hold before that, where the journal would not know it
}

type restoredRecord struct {
	Entry int `json:"entry"`
}

// closedRecord also says what that changes for later writes, so that one line, which
// is there or not, tells all of it.
type closedRecord struct {
	Entry     int        `json:"entry"`
	State     EntryState `json:"state"`
	Time      time.Time  `json:"time"`
	Reason    string     `json:"why,omitempty"`
	Handovers []handover `json:"hand_on,omitempty"`
}

type endRecord struct {
	Txn int `json:"txn"`
}

// handover gives a later write another old value: an earlier one was undone
// beneath it.
type handover struct {
	Entry   int              `json:"entry"`          // the later one
	Setting *setting.Setting `json:"cell,omitempty"` // one around it; nil: its own
	Old     setting.Value    `json:"old"`
	All     bool             `json:"all,omitempty"` // of a side effect: the later one stands for what the earlier one made of it too
	Result  setting.Value    `json:"left,omitzero"` // with All: that
}

type confirmRecord struct {
	Txn  int       `json:"txn"`
	Time time.Time `json:"time"`
}

type cutRecord struct {
	Time time.Time `json:"time"` // when that was found
}

// Snapshot is the value of a setting that a write to another one may change too.
type Snapshot struct {
	Setting setting.Setting `json:"cell"`
	Value   setting.Value   `json:"value"`
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
	TrialLease LeaseKind = "trial" // it stays if it is confirmed in time
	ProofLease LeaseKind = "proof" // it is undone in any case: values were only tried
)

// EntryState is how far a write is.
type EntryState string

// States. All but the first two are final: nothing is left to undo.
const (
	InDoubt    EntryState = "in-doubt" // recorded, and then nothing: it may have happened or not
	Applied    EntryState = "done"     // written, and read back
	Failed     EntryState = "failed"   // it did not take effect, and the old value stands
	Undone     EntryState = "undone"   // the old value stands again
	Superseded EntryState = "passed"   // undone in the middle of others: the old value went to the next write of the same setting
	Vanished   EntryState = "gone"     // the value went away by itself, with a reboot, its device or its namespace
	Abandoned  EntryState = "left"     // given up, as the user asked: somebody else's value stands
)

// Open tells whether there may be something to undo.
func (s EntryState) Open() bool { return s == InDoubt || s == Applied }

// Entry is one write that was recorded.
type Entry struct {
	ID       int             `json:"id"`
	Txn      int             `json:"txn"`
	Knob     string          `json:"knob,omitempty"`
	Setting  setting.Setting `json:"cell"`
	Old      setting.Value   `json:"old"`
	New      setting.Value   `json:"new"`             // as asked for
	Readback *setting.Value  `json:"found,omitempty"` // read after the write; nil while in doubt
	State    EntryState      `json:"state"`
	Reason   string          `json:"why,omitempty"` // of the state
	Closed   time.Time       `json:"closed,omitzero"`

	id          string          // of the setting
	earlierOld  []setting.Value // old values that it had before it was handed others
	sideEffects []*sideEffect
	restore     *restoreRecord // the last one that was begun and not finished
	toggledOff  bool           // it was toggled back, and the side effects with it
}

// sideEffect is a setting that a write to another one may change too.
type sideEffect struct {
	setting setting.Setting
	id      string
	old     setting.Value
	new     *setting.Value // what the write made of it; nil: it left it alone, or that is not known
}

// Txn is a transaction as the journal tells of it: writes that belong together.
type Txn struct {
	ID        int       `json:"id"`
	Time      time.Time `json:"time"`
	Boot      string    `json:"boot"`
	User      string    `json:"who"`
	Command   string    `json:"command"`
	Version   string    `json:"version"`
	Lease     *Lease    `json:"lease,omitempty"`
	Sight     string    `json:"sight,omitempty"` // see [host.Sight.Name]
	Ended     bool      `json:"ended"`           // it wrote all that it wanted; false: it was killed, or runs
	Confirmed time.Time `json:"confirmed,omitzero"`
	Entries   []*Entry  `json:"entries"`
}

// OfProof tells whether the transaction only tried values, to prove what helps.
func (t *Txn) OfProof() bool { return t.Lease != nil && t.Lease.Kind == ProofLease }

// Open tells whether there may be something to undo.
func (t *Txn) Open() bool {
	for _, e := range t.Entries {
		if e.State.Open() {
			return true
		}
	}
	return false
}
